//! `version`: what this program is and what was built in.

use serde_json::json;

use super::{CommandResult, Context, ExitCode};
use crate::cli::{DataFormat, VersionArgs};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints name, version and whether live hosts can be reached.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(args: &VersionArgs, context: &Context) -> CommandResult {
    let live = cfg!(feature = "libvirt");
    let text = match args.output {
        DataFormat::Human => {
            let hosts = if live { "live and recorded" } else { "recorded only; built without the libvirt client" };
            format!("egress-plan {VERSION}\nhosts: {hosts}\n")
        }
        DataFormat::Json => format!("{}\n", json!({"name": "egress-plan", "version": VERSION, "libvirt": live})),
    };
    context.terminal.data(text.as_bytes())?;
    Ok(ExitCode::Success)
}
