//! `crd`: the custom resource definitions.

use super::{CommandResult, Context, ExitCode, Failure};
use crate::cluster::crd;

/// Prints them.
///
/// # Errors
/// stdout that cannot be written.
pub fn run(context: &Context) -> CommandResult {
    let text = crd::yaml()
        .map_err(|error| Failure::bug("the definitions cannot be written as YAML").cause(error.to_string()))?;
    context.terminal.data(text.as_bytes())?;
    Ok(ExitCode::Success)
}
