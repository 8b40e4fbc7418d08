//! The command line: clap types, one struct a command, and nothing that runs.
//!
//! May use the names of `plan`, since a flag that takes a name is checked when it is parsed. Never
//! opens a file and never prints; `run` does both.

pub mod command;
pub mod group;
pub mod value;

use clap::{ArgAction, Args, Parser, Subcommand};

pub use command::{
    ApplyArgs, CheckArgs, CompletionsArgs, DestroyArgs, DestroyWhat, DiffArgs, ImagesArgs, ImagesCommand,
    ImagesListArgs, ImagesPrefetchArgs, ImagesPruneArgs, InventoryArgs, RecordArgs, SchemaArgs, StatusArgs,
    ValidateArgs, VersionArgs,
};
pub use group::{
    ClusterArgs, ClusterOutputArgs, ConfigArgs, HostArgs, LimitArgs, LockArgs, ManifestArgs, PlanArgs, PlanOutputArgs,
    SelectionArgs, SimulateArgs,
};
pub use value::{ColorChoice, DataFormat, InventoryFormat, LogFormat, PlanFormat, Wait};

/// Keeps a fleet of egress proxy machines equal to what a Git repository says
#[derive(Debug, Clone, Parser)]
#[command(
    name = "egress-plan",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "A run reads Proxy manifests and a providers config, looks at every host, and computes a \
                  plan: what to create, start, update, replace and delete. diff shows the plan, apply \
                  carries it out. Nothing is kept between runs but the marks on the machines themselves."
)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command has.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Messages")]
pub struct GlobalArgs {
    /// When to use colour; auto: on a terminal, unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "auto|always|never",
        hide_possible_values = true,
        default_value_t = ColorChoice::Auto
    )]
    pub color: ColorChoice,
    /// How every line on stderr is written
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "text|json",
        hide_possible_values = true,
        default_value_t = LogFormat::Text
    )]
    pub log_format: LogFormat,
    /// Log more: steps, connections and calls; twice: XML, addresses and parameters
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show what apply would do, and change nothing
    #[command(visible_alias = "plan")]
    Diff(Box<DiffArgs>),
    /// Make the fleet equal to the manifests
    Apply(Box<ApplyArgs>),
    /// Delete machines of the fleet
    Destroy(Box<DestroyArgs>),
    /// Say of every host whether it is ready, and if not, what to do
    Check(CheckArgs),
    /// Show the fleet as it is now
    Status(StatusArgs),
    /// Check manifests and config, without asking any host
    Validate(ValidateArgs),
    /// Write what a host answers into a file that a recorded host can serve
    Record(RecordArgs),
    /// List the proxies that clients may use
    Inventory(InventoryArgs),
    /// Look after the base images on the hosts
    Images(ImagesArgs),
    /// Print or write the JSON Schemas
    Schema(SchemaArgs),
    /// Print the custom resource definitions of a cluster
    Crd,
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the version and what was built in
    Version(VersionArgs),
}

impl Command {
    /// The command's name, as typed; for spans and reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Diff(_) => "diff",
            Self::Apply(_) => "apply",
            Self::Destroy(_) => "destroy",
            Self::Check(_) => "check",
            Self::Status(_) => "status",
            Self::Validate(_) => "validate",
            Self::Record(_) => "record",
            Self::Inventory(_) => "inventory",
            Self::Images(images) => match images.command {
                ImagesCommand::List(_) => "images list",
                ImagesCommand::Prefetch(_) => "images prefetch",
                ImagesCommand::Prune(_) => "images prune",
            },
            Self::Schema(_) => "schema",
            Self::Crd => "crd",
            Self::Completions(_) => "completions",
            Self::Version(_) => "version",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parses(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_wrong_usage() {
        for line in [
            "egress-plan",
            "egress-plan diff -c c.yaml",
            "egress-plan diff -f m.yaml",
            "egress-plan diff -f m -c c --target a/b --exclude c/d",
            "egress-plan diff -f m -c c --target a",
            "egress-plan diff -f m -c c --replace a",
            "egress-plan diff -f m -c c -l ,",
            "egress-plan diff -f m -c c --fleet UPPER",
            "egress-plan diff -f m -c c --max-deletions 101%",
            "egress-plan diff -f m -c c --parallelism 0",
            "egress-plan diff -f m -c c --timeout 0s",
            "egress-plan diff -f m -c c --auto-approve",
            "egress-plan diff -f m -c c -o yaml",
            "egress-plan apply -f m -c c --save-recorded out",
            "egress-plan apply plan.json -f m -c c --replace a/b",
            "egress-plan destroy -c c",
            "egress-plan destroy -c c --all --target a/b",
            "egress-plan check -c c --target a",
            "egress-plan status -c c -o markdown",
            "egress-plan status -c c --strict",
            "egress-plan record -c c",
            "egress-plan inventory -f m -c c -o human",
            "egress-plan images",
            "egress-plan schema plan --dir d",
            "egress-plan schema --dir d --check d",
            "egress-plan completions tcsh",
            "egress-plan probe",
        ] {
            assert!(parses(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_right_usage() {
        for line in [
            "egress-plan diff -f m -f n -c c",
            "egress-plan plan -f - -c c -o json --json-into plan.json --out p",
            "egress-plan apply -f m -c c --auto-approve --wait address --wait-timeout 5m --grace 0s",
            "egress-plan apply plan.json -f m -c c --target a/b",
            "egress-plan apply -f m -c c --simulate --save-recorded out",
            "egress-plan destroy -c c --all",
            "egress-plan destroy -c c --target a/b --target c/d",
            "egress-plan check -c c --target lab/h1",
            "egress-plan status -c c",
            "egress-plan status -c c -f m -o json",
            "egress-plan record -c c lab/h1 --out h1.yaml",
            "egress-plan inventory -f m -c c -o squid-peers",
            "egress-plan inventory -f m -c c -o file_sd",
            "egress-plan images prune -f m -c c --leftovers",
            "egress-plan schema",
            "egress-plan version -o json -vv --log-format json --color never",
        ] {
            assert!(parses(line).is_ok(), "{line}: {:?}", parses(line).map(|_| ()));
        }
    }

    #[test]
    fn repeated_flags_add_up() {
        let Command::Diff(diff) =
            parses("egress-plan diff -f m -f n -c c --replace a/b --replace c/d").expect("parses").command
        else {
            panic!("another command");
        };
        assert_eq!(diff.manifests.filenames.len(), 2);
        assert_eq!(diff.planning.replace.len(), 2);
    }
}
