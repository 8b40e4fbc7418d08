//! `inventory`: the proxies that clients may use, on stdout or in a file.

use super::look::{Request, look};
use super::telling::{plain_list, write_inventory};
use super::{CommandResult, Context, ExitCode, Failure};
use crate::cli::{InventoryArgs, InventoryFormat};
use crate::report::Inventory;
use crate::report::inventory::Format;

/// Runs the command.
///
/// # Errors
/// Problems of the input; a file that cannot be written or is kept.
pub async fn run(args: &InventoryArgs, context: &Context) -> CommandResult {
    let request = Request {
        command: "inventory",
        manifests: &args.manifests,
        config: &args.config,
        selection: args.selection.selection(),
        previous: args.previous_report.as_deref(),
        limits: &args.limits,
    };
    let Some((report, code)) = look(&request, context).await? else { return Ok(ExitCode::Interrupted) };
    for host in report.hosts.iter().filter(|host| !host.reachable) {
        let why = host.message.as_deref().unwrap_or_default();
        context.terminal.say(&format!("{} could not be observed, so what is known of it may be old: {why}", host.host));
    }
    let format = match args.output {
        InventoryFormat::Json => Format::Json,
        InventoryFormat::List => plain_list(),
        InventoryFormat::FileSd => Format::FileSd,
        InventoryFormat::SquidPeers => Format::SquidPeers,
    };
    if let Some(path) = &args.out {
        write_inventory(path, &format, &report)?;
    } else {
        let rendered = format
            .render(&Inventory::of(&report))
            .map_err(|error| Failure::bug("the inventory cannot be written as text").cause(error.to_string()))?;
        context.terminal.data(rendered.text.as_bytes())?;
    }
    Ok(code)
}
