//! `completions`: a script that completes commands and flags in a shell.

use super::{CommandResult, Context, ExitCode, command_line};
use crate::cli::CompletionsArgs;

/// Prints the script.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(args: &CompletionsArgs, context: &Context) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command_line(), "egress-plan", &mut script);
    context.terminal.data(&script)?;
    Ok(ExitCode::Success)
}
