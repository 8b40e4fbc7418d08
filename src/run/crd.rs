//! `crd`: the custom resource definitions.

use super::{CommandResult, Context, ExitCode};
use crate::cluster::crd;

/// Prints them.
///
/// # Errors
/// stdout that cannot be written.
pub fn run(context: &Context) -> CommandResult {
    context.terminal.data(crd::yaml().as_bytes())?;
    Ok(ExitCode::Success)
}
