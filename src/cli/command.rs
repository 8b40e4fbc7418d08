//! The arguments of each command.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::group::{
    ClusterOutputArgs, ConfigArgs, HostArgs, LimitArgs, LockArgs, ManifestArgs, PlanArgs, PlanOutputArgs,
    SelectionArgs, SimulateArgs,
};
use super::value::{DataFormat, InventoryFormat, Wait, positive_duration};
use crate::plan::{HostRef, Selection, Target};

/// Show what apply would do, and change nothing.
///
/// Every host is asked, nothing on it is changed, and no lock is taken. The last line always says
/// what the plan comes to.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Every host is asked, nothing on it is changed, and no lock is taken.\n\nWith a selector, target or exclude, what is left out stays as it is. Orphans are deleted only when no flag narrows the run, or when a target names them or their host."
)]
pub struct DiffArgs {
    /// Manifests.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Selection.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// What the plan may hold.
    #[command(flatten)]
    pub planning: PlanArgs,
    /// Output.
    #[command(flatten)]
    pub output: PlanOutputArgs,
    /// Save the plan for `apply`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Exit 2 when changes are pending
    #[arg(long, help_heading = "Output")]
    pub detailed_exitcode: bool,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Make the fleet equal to the manifests.
///
/// Locks every host in scope, looks, plans, shows the plan, asks, and carries it out. Without a
/// terminal it does not ask: give `--auto-approve`, or it fails. Stopping it at any point loses
/// nothing; the next run goes on from what is there.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Locks every host in scope, looks, plans, shows the plan, asks, and carries it out. Without a terminal it cannot ask: give --auto-approve, or it fails. Stopping it at any point loses nothing; the next run goes on from what is there.\n\nWith a selector, target or exclude, what is left out stays as it is. Orphans are deleted only when no flag narrows the run, or when a target names them or their host."
)]
pub struct ApplyArgs {
    /// A plan that `diff --out` saved: only what it holds and still stands is done
    #[arg(value_name = "PLANFILE", conflicts_with = "replace")]
    pub plan_file: Option<PathBuf>,
    /// Manifests.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Selection.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// What the plan may hold.
    #[command(flatten)]
    pub planning: PlanArgs,
    /// Carry the plan out without asking
    #[arg(long, help_heading = "Planning")]
    pub auto_approve: bool,
    /// Output.
    #[command(flatten)]
    pub output: PlanOutputArgs,
    /// Write the report of the run to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Write the proxies that clients may use to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub inventory: Option<PathBuf>,
    /// What is left in a cluster.
    #[command(flatten)]
    pub cluster: ClusterOutputArgs,
    /// How far to wait for machines that were made or started
    #[arg(long, value_enum, value_name = "none|running|address", hide_possible_values = true, default_value_t = Wait::Running, help_heading = "Limits")]
    pub wait: Wait,
    /// How long to wait for that, for each machine
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = positive_duration,
        default_value = "10m",
        help_heading = "Limits"
    )]
    pub wait_timeout: Duration,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Lock and interrupts.
    #[command(flatten)]
    pub lock: LockArgs,
    /// Keep downloaded images in this folder for later runs [default: a temporary folder]
    #[arg(long, value_name = "DIR", help_heading = "Limits")]
    pub cache_dir: Option<PathBuf>,
    /// Recorded hosts.
    #[command(flatten)]
    pub simulation: SimulateArgs,
}

/// Delete machines of the fleet.
///
/// No manifest is read: what is named goes, protected machines excepted.
#[derive(Debug, Clone, Args)]
#[command(after_help = "No manifest is read: what is named goes, protected machines excepted.")]
pub struct DestroyArgs {
    /// What to delete.
    #[command(flatten)]
    pub what: DestroyWhat,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Delete without asking
    #[arg(long, help_heading = "Planning")]
    pub auto_approve: bool,
    /// Delete machines that another source of manifests made too
    #[arg(long, help_heading = "Planning")]
    pub take_over: bool,
    /// Output.
    #[command(flatten)]
    pub output: PlanOutputArgs,
    /// Write the report of the run to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Lock and interrupts.
    #[command(flatten)]
    pub lock: LockArgs,
    /// Recorded hosts.
    #[command(flatten)]
    pub simulation: SimulateArgs,
}

/// What `destroy` deletes: everything, or what is named.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Selection")]
pub struct DestroyWhat {
    /// Every machine of the fleet
    #[arg(long)]
    pub all: bool,
    /// The machine of this proxy (NAMESPACE/NAME), or every machine of the fleet on this host
    /// (PROVIDER/HOST); may be repeated
    #[arg(long = "target", value_name = "KEY|HOST")]
    pub targets: Vec<Target>,
}

impl DestroyWhat {
    /// The selection as the planner takes it: everything, or the targets.
    #[must_use]
    pub fn selection(&self) -> Selection {
        Selection { targets: self.targets.clone(), ..Selection::default() }
    }
}

/// Say of every host whether it is ready, and if not, what to do.
///
/// Each host is asked over a connection of its own. Nothing is changed and nothing refreshed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Each host is asked over a connection of its own. Nothing is changed and nothing refreshed.")]
pub struct CheckArgs {
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Hosts.
    #[command(flatten)]
    pub hosts: HostArgs,
    /// The format on stdout
    #[arg(
        short,
        long,
        value_enum,
        value_name = "human|json", hide_possible_values = true, default_value_t = DataFormat::Human,
        help_heading = "Output"
    )]
    pub output: DataFormat,
    /// Hosts in flight at a time, 1 to 256 [default: the config's]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=256),
        help_heading = "Limits"
    )]
    pub parallelism: Option<u16>,
    /// How long each host may take
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = positive_duration,
        default_value = "15s",
        help_heading = "Limits"
    )]
    pub timeout: Duration,
}

/// Show the fleet as it is now.
///
/// With manifests, proxies that are wanted and not there are shown too.
#[derive(Debug, Clone, Args)]
#[command(after_help = "With manifests, proxies that are wanted and not there are shown too.")]
#[command(
    // The config is always given, so that manifests never need to be.
    mut_arg("filenames", |arg| arg.required_unless_present_any(["from_cluster", "config"])),
    mut_arg("secrets_dir", |arg| arg.requires("filenames")),
    mut_arg("strict", |arg| arg.requires("filenames")),
    mut_arg("selector", |arg| arg.requires("wanted")),
    group(ArgGroup::new("wanted").args(["filenames", "from_cluster"]).multiple(true))
)]
pub struct StatusArgs {
    /// Manifests; none are needed.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Selection.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// The report of a former run: addresses that cannot be read now are taken from it
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub previous_report: Option<PathBuf>,
    /// The format on stdout
    #[arg(
        short,
        long,
        value_enum,
        value_name = "human|json", hide_possible_values = true, default_value_t = DataFormat::Human,
        help_heading = "Output"
    )]
    pub output: DataFormat,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Check manifests and config, without asking any host.
///
/// Every problem of every file is reported in one go, as file, line and column.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Every problem of every file is reported in one go, as file, line and column.")]
pub struct ValidateArgs {
    /// Manifests.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The format on stdout
    #[arg(
        short,
        long,
        value_enum,
        value_name = "human|json", hide_possible_values = true, default_value_t = DataFormat::Human,
        help_heading = "Output"
    )]
    pub output: DataFormat,
}

/// Write what a host answers into a file that a recorded host can serve.
///
/// The file holds no secrets, and of machines that are not the fleet's nothing but name and state.
#[derive(Debug, Clone, Args)]
#[command(after_help = "The file holds no secrets, and no XML of machines that are not the fleet's.")]
pub struct RecordArgs {
    /// The host
    #[arg(value_name = "PROVIDER/HOST")]
    pub host: HostRef,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The file to write [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// End after this long
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, help_heading = "Limits")]
    pub timeout: Option<Duration>,
}

/// List the proxies that clients may use.
///
/// Sorted, and the same bytes as long as nothing changed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Sorted, and the same bytes as long as nothing changed.")]
pub struct InventoryArgs {
    /// Manifests.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Selection.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// The report of a former run: addresses that cannot be read now are taken from it
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub previous_report: Option<PathBuf>,
    /// The format
    #[arg(
        short,
        long,
        value_enum,
        value_name = "json|list|file_sd|squid-peers", hide_possible_values = true, default_value_t = InventoryFormat::Json,
        help_heading = "Output"
    )]
    pub output: InventoryFormat,
    /// The file to write, as a whole or not at all [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Look after the base images on the hosts.
#[derive(Debug, Clone, Args)]
pub struct ImagesArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub command: ImagesCommand,
}

/// The commands for base images.
#[derive(Debug, Clone, Subcommand)]
pub enum ImagesCommand {
    /// Show the base images on each host, and who uses them
    List(ImagesListArgs),
    /// Bring the base images that the manifests need to their hosts
    Prefetch(Box<ImagesPrefetchArgs>),
    /// Delete base images that nothing uses and no manifest needs
    Prune(Box<ImagesPruneArgs>),
}

/// Show the base images on each host, and who uses them.
#[derive(Debug, Clone, Args)]
pub struct ImagesListArgs {
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Hosts.
    #[command(flatten)]
    pub hosts: HostArgs,
    /// The format on stdout
    #[arg(
        short,
        long,
        value_enum,
        value_name = "human|json", hide_possible_values = true, default_value_t = DataFormat::Human,
        help_heading = "Output"
    )]
    pub output: DataFormat,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Bring the base images that the manifests need to their hosts.
#[derive(Debug, Clone, Args)]
pub struct ImagesPrefetchArgs {
    /// Manifests.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Hosts.
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Lock and interrupts.
    #[command(flatten)]
    pub lock: LockArgs,
    /// Keep downloaded images in this folder for later runs [default: a temporary folder]
    #[arg(long, value_name = "DIR", help_heading = "Limits")]
    pub cache_dir: Option<PathBuf>,
    /// Recorded hosts.
    #[command(flatten)]
    pub simulation: SimulateArgs,
}

/// Delete base images that nothing uses and no manifest needs.
///
/// Shows what would go and asks. An image that a disk backs onto, or a machine of anybody names,
/// always stays.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Shows what would go and asks. An image that a disk backs onto, or that any machine names, always stays."
)]
pub struct ImagesPruneArgs {
    /// Manifests.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Hosts.
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Delete disks and seeds of the fleet that belong to no machine too
    #[arg(long, help_heading = "Planning")]
    pub leftovers: bool,
    /// Delete without asking
    #[arg(long, help_heading = "Planning")]
    pub auto_approve: bool,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Lock and interrupts.
    #[command(flatten)]
    pub lock: LockArgs,
    /// Recorded hosts.
    #[command(flatten)]
    pub simulation: SimulateArgs,
}

/// Print or write the JSON Schemas.
///
/// Without a name and a folder, the names are listed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Without a name and a folder, the names are listed.")]
pub struct SchemaArgs {
    /// The schema to print
    #[arg(value_name = "NAME", conflicts_with_all = ["dir", "check"])]
    pub name: Option<String>,
    /// Write every schema into this folder, as NAME.json
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    pub dir: Option<PathBuf>,
    /// Compare the folder with the schemas, and fail on any difference
    #[arg(long, value_name = "DIR")]
    pub check: Option<PathBuf>,
}

/// Print a completion script for a shell.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Print the version and what was built in.
#[derive(Debug, Clone, Args)]
pub struct VersionArgs {
    /// The format on stdout
    #[arg(short, long, value_enum, value_name = "human|json", hide_possible_values = true, default_value_t = DataFormat::Human)]
    pub output: DataFormat,
}
