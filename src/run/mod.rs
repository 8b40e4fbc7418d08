//! One file a command, and the frame around them: the only place that sees every other folder.

pub mod apply;
pub mod approval;
pub mod check;
pub mod cluster;
pub mod completions;
pub mod crd;
pub mod destroy;
pub mod diff;
pub mod execution;
pub mod exit;
pub mod failure;
pub mod fleet;
pub mod images;
pub mod inventory;
pub mod line;
pub mod locking;
pub mod log_line;
pub mod look;
pub mod planning;
pub mod record;
pub mod schema;
pub mod signals;
pub mod status;
pub mod telemetry;
pub mod telling;
pub mod terminal;
pub mod validate;
pub mod version;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _};
use tracing::Instrument as _;

use crate::cli::{Cli, ColorChoice, Command, LogFormat};
pub use exit::ExitCode;
pub use failure::{Failure, Kind};
pub use signals::Signals;
pub use telemetry::Telemetry;
pub use terminal::Terminal;

/// How a command ends: with a code, or with a failure that says why.
pub type CommandResult = Result<ExitCode, Failure>;

/// Threads for asynchronous work. Calls that block have threads of their own.
const WORKERS: usize = 4;

/// How long the end of a run waits for calls that block. What still hangs then ends with the
/// process.
const LEAVE_BUDGET: Duration = Duration::from_millis(500);

/// What a command knows of the run that it is.
#[derive(Debug, Clone)]
pub struct Context {
    /// Random id of the run: 12 lower-case hex digits. In lock names, logs and the report.
    pub run: Arc<str>,
    /// How it prints and whom it may ask.
    pub terminal: Terminal,
}

/// The whole program: parse, set up, run one command, render a failure.
#[must_use]
pub fn main(args: impl Iterator<Item = OsString>) -> std::process::ExitCode {
    let args: Vec<OsString> = args.collect();
    let run: Arc<str> = Arc::from(hex::encode(rand::random::<[u8; 8]>()));
    // Clients of several crates look for it; without it the first that meets another's panics.
    // It can only be there already, which is just as well.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match parse(&args) {
        Ok(cli) => {
            let terminal = Terminal::detect(cli.global.color, cli.global.log_format, &run);
            run_command(cli, &Context { run, terminal })
        }
        Err(error) => usage(&error, &args, &run),
    }
    .into()
}

/// The definition of the command line, with the table of exit codes where it belongs.
#[must_use]
pub fn command_line() -> clap::Command {
    let mut command = with_exit_codes(Cli::command());
    for name in ["diff", "apply", "destroy"] {
        command = command.mut_subcommand(name, with_exit_codes);
    }
    command
}

/// Adds the table of exit codes to what the command's help ends with.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let notes = command.get_after_help().map(|notes| format!("{notes}\n\n")).unwrap_or_default();
    command.after_help(format!("{notes}{}", exit::help()))
}

fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command_line().try_get_matches_from(args)?)
}

/// Prints help, the version or what is wrong with the command line. Flags are looked for by hand,
/// since nothing was parsed.
fn usage(error: &clap::Error, args: &[OsString], run: &Arc<str>) -> ExitCode {
    let format = if flag_says(args, "--log-format", "json") { LogFormat::Json } else { LogFormat::Text };
    let color = match (flag_says(args, "--color", "never"), flag_says(args, "--color", "always")) {
        (true, _) => ColorChoice::Never,
        (_, true) => ColorChoice::Always,
        _ => ColorChoice::Auto,
    };
    let terminal = Terminal::detect(color, format, run);
    let rendered = error.render();
    if !error.use_stderr() {
        let text = if terminal.color_out { rendered.ansi().to_string() } else { rendered.to_string() };
        return match terminal.data(text.as_bytes()) {
            Ok(()) => ExitCode::Success,
            Err(failure) => end(&failure, &terminal),
        };
    }
    match format {
        LogFormat::Text if terminal.color_err => line::to_stderr(&rendered.ansi().to_string()),
        LogFormat::Text => line::to_stderr(&line::printable(&rendered.to_string())),
        LogFormat::Json => {
            let text = rendered.to_string();
            let message = text.trim_end();
            Failure::usage(message.strip_prefix("error: ").unwrap_or(message)).print(&terminal);
        }
    }
    ExitCode::Usage
}

/// Whether `args` hold `--flag value` or `--flag=value`.
fn flag_says(args: &[OsString], flag: &str, value: &str) -> bool {
    let joined = format!("{flag}={value}");
    args.iter().any(|arg| *arg == *joined) || args.array_windows().any(|[one, two]| *one == *flag && *two == *value)
}

/// Runs the command between the set-up and the end of logs and traces.
fn run_command(cli: Cli, context: &Context) -> ExitCode {
    report_panics(&context.terminal);
    let telemetry = Telemetry::start(&context.terminal, cli.global.verbose);
    let root = telemetry.root_span(cli.command.name(), &context.run);
    let result = in_runtime(cli.command, context, root);
    telemetry.stop();
    match result {
        Ok(code) => code,
        Err(failure) => end(&failure, &context.terminal),
    }
}

fn in_runtime(command: Command, context: &Context, root: tracing::Span) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(|error| Failure::world("the runtime cannot be started").cause(error.to_string()))?;
    let work = || runtime.block_on(dispatch(command, context).instrument(root));
    // Left by unwinding, the runtime would wait for calls that block for as long as they do.
    let result = catch_unwind(AssertUnwindSafe(work));
    runtime.shutdown_timeout(LEAVE_BUDGET);
    // The hook has told of a panic.
    result.unwrap_or(Ok(ExitCode::Failed))
}

async fn dispatch(command: Command, context: &Context) -> CommandResult {
    match command {
        Command::Diff(args) => diff::run(&args, context).await,
        Command::Apply(args) => apply::run(&args, context).await,
        Command::Destroy(args) => destroy::run(&args, context).await,
        Command::Check(args) => check::run(&args, context).await,
        Command::Status(args) => status::run(&args, context).await,
        Command::Validate(args) => validate::run(&args, context).await,
        Command::Record(args) => record::run(&args, context).await,
        Command::Inventory(args) => inventory::run(&args, context).await,
        Command::Images(args) => images::run(&args.command, context).await,
        Command::Schema(args) => schema::run(&args, context),
        Command::Crd => crd::run(context),
        Command::Completions(args) => completions::run(&args, context),
        Command::Version(args) => version::run(&args, context),
    }
}

fn end(failure: &Failure, terminal: &Terminal) -> ExitCode {
    failure.print(terminal);
    failure.exit
}

/// Makes a panic a bug report in the format of all other lines, for the rest of the process.
pub fn report_panics(terminal: &Terminal) {
    let terminal = terminal.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
        Failure::bug("a part of the program panicked").cause(format!("{text}{place}")).print(&terminal);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn flags_are_found_when_nothing_parses() {
        for (line, expected) in [
            ("x --log-format json bogus", true),
            ("x bogus --log-format=json", true),
            ("x --log-format text", false),
            ("x json --log-format", false),
            ("x", false),
        ] {
            assert_eq!(flag_says(&args(line), "--log-format", "json"), expected, "{line}");
        }
    }
}
