//! `status`: the fleet as it is now.

use super::look::{Request, look};
use super::{CommandResult, Context, ExitCode, planning};
use crate::cli::{DataFormat, StatusArgs};
use crate::report::status;

/// Runs the command.
///
/// # Errors
/// Problems of the input; a host list that was not answered within `--timeout`.
pub async fn run(args: &StatusArgs, context: &Context) -> CommandResult {
    let request = Request {
        command: "status",
        manifests: &args.manifests,
        config: &args.config,
        selection: args.selection.selection(),
        previous: args.previous_report.as_deref(),
        limits: &args.limits,
    };
    let Some((report, code)) = look(&request, context).await? else { return Ok(ExitCode::Interrupted) };
    let text = match args.output {
        DataFormat::Human => status::table(&report),
        DataFormat::Json => planning::json_text(&report)?,
    };
    context.terminal.data(text.as_bytes())?;
    Ok(code)
}
