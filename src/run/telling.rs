//! What a run writes at its end: text, report, inventory.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;

use super::execution::{Ended, Execution};
use super::exit::ExitCode;
use super::fleet::Fleet;
use super::{CommandResult, Context, Failure, planning};
use crate::cli::PlanFormat;
use crate::plan::{Address, Desired, HostState, Mode, Observed, Plan, ProxyKey};
use crate::provider::Depth;
use crate::report::inventory::{Format, Keep, Template, write_atomically};
use crate::report::{Inventory, Report, ReportInput, RunInfo, RunResult, document, human, markdown};

/// Writes what the run came to, wherever the command line says, and returns how it ends. An inventory
/// is left as it is when the run was ended or refused to begin: it knows nothing better.
///
/// # Errors
/// The run's own failure; what the file system said, of every place that could not be written.
pub async fn tell(execution: &Execution<'_>, ended: &Ended) -> CommandResult {
    let Execution { order, fleet, signals, context } = execution;
    let Ended { desired, observed, plan, looked, outcome, end } = ended;
    let mut end = end.clone();
    let asked = order.cluster.is_some()
        || order.report.is_some()
        || order.inventory.is_some()
        || order.output.json_into.is_some()
        || order.output.output == PlanFormat::Json;
    // A run that was ended has no time to ask for addresses; the last known ones are kept as stale.
    let addresses = if asked {
        tokio::select! {
            addresses = addresses(fleet, desired, observed) => addresses,
            () = signals.first.cancelled() => {
                end = end.map(|_| ExitCode::Interrupted);
                BTreeMap::new()
            }
        }
    } else {
        BTreeMap::new()
    };
    let code = end.as_ref().map_or_else(|failure| failure.exit, |code| *code);
    let run = run_info(order.command, desired, plan, order.started_at, code, context);
    let report = document::build(&ReportInput {
        run: &run,
        desired,
        observed,
        plan,
        outcome: outcome.as_ref(),
        addresses: &addresses,
        figures: &fleet.figures(),
        boot_deadlines: &fleet.boot_deadlines,
        generations: &order.cluster.map(|cluster| cluster.looked().generations()).unwrap_or_default(),
        before: order.before.as_ref(),
    });
    let json = planning::json_text(&report)?;
    let shown = match (order.output.output, outcome) {
        (PlanFormat::Human, None) => String::new(),
        (PlanFormat::Human, Some(outcome)) => {
            format!("\n{}", human::outcome(plan, outcome, planning::style(context.terminal.color_out)))
        }
        (PlanFormat::Json, _) => json.clone(),
        (PlanFormat::Markdown, outcome) => markdown::comment(plan, outcome.as_ref(), markdown::MAX_BYTES),
    };
    // Of a list that broke off, nobody knows which proxies are missing.
    let whole = end.is_ok() && code != ExitCode::Interrupted && !desired.broke_off();
    if desired.broke_off() && order.inventory.is_some() {
        context.terminal.say("the list of proxies is not whole, so the inventory is left as it is");
    }
    let inventory = order.inventory.filter(|_| whole);
    let written = every([
        context.terminal.data(shown.as_bytes()),
        order.output.json_into.as_deref().map_or(Ok(()), |path| planning::write_file(path, &json)),
        order.report.map_or(Ok(()), |path| planning::write_file(path, &json)),
        inventory.map_or(Ok(()), |path| write_inventory(path, &Format::Json, &report)),
    ]);
    if let Some(cluster) = order.cluster {
        cluster.publish(&report, &json, (*looked, whole), (signals, context)).await;
    }
    Failure::prefer(end, written)
}

/// The first failure, with the others among its causes.
fn every(written: [Result<(), Failure>; 4]) -> Result<(), Failure> {
    let failures = written.into_iter().filter_map(Result::err);
    failures.reduce(Failure::and).map_or(Ok(()), Err)
}

/// The run, for the report.
#[must_use]
pub fn run_info(
    command: &str,
    desired: &Desired,
    plan: &Plan,
    started_at: Timestamp,
    code: ExitCode,
    context: &Context,
) -> RunInfo {
    RunInfo {
        id: context.run.to_string(),
        command: command.to_owned(),
        fleet: desired.fleet.clone(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        ended_at: Timestamp::now(),
        result: result_of(code),
        exit_code: code.number(),
        recorded: plan.recorded,
    }
}

/// Writes an inventory; one that was not empty is not replaced by an empty one.
///
/// # Errors
/// What the file system said, or that the file is kept.
pub fn write_inventory(path: &Path, format: &Format, report: &Report) -> Result<(), Failure> {
    let rendered = format
        .render(&Inventory::of(report))
        .map_err(|error| Failure::bug("the inventory cannot be written as text").cause(error.to_string()))?;
    write_atomically(path, rendered.text.as_bytes(), Keep::NonEmpty(format, &rendered))
        .map(drop)
        .map_err(|error| Failure::world("the inventory was not written").source(&error))
}

/// The format of plain lists.
#[must_use]
pub fn plain_list() -> Format {
    Format::List(Template::default())
}

/// Addresses after the run, by proxy. A machine at the place where it is wanted wins over one that
/// is on its way out.
async fn addresses(fleet: &Fleet, desired: &Desired, before: &Observed) -> BTreeMap<ProxyKey, Address> {
    let unreachable = before
        .hosts
        .iter()
        .filter_map(|(place, state)| match state {
            HostState::Unknown(trouble) => Some((place.clone(), trouble.clone())),
            HostState::Known(_) => None,
        })
        .collect();
    let after = fleet.observe(Depth::Addresses, &unreachable).await;
    let mut addresses = BTreeMap::new();
    for (place, state) in &after.hosts {
        let HostState::Known(view) = state else { continue };
        for instance in &view.instances {
            let Some(mark) = instance.mark() else { continue };
            let wanted_here = desired.proxies.get(&mark.proxy).is_none_or(|proxy| match &proxy.mode {
                Mode::Managed(managed) => managed.place == *place,
                Mode::External { .. } => false,
            });
            if wanted_here && instance.address != Address::NotAsked {
                addresses.insert(mark.proxy.clone(), instance.address.clone());
            }
        }
    }
    addresses
}

/// The word for an exit code.
fn result_of(code: ExitCode) -> RunResult {
    match code {
        ExitCode::Success => RunResult::Succeeded,
        ExitCode::Failed | ExitCode::Usage => RunResult::Error,
        ExitCode::Changes => RunResult::ChangesPending,
        ExitCode::Incomplete => RunResult::Incomplete,
        ExitCode::Refused => RunResult::Refused,
        ExitCode::Stale => RunResult::Stale,
        ExitCode::Locked => RunResult::Locked,
        ExitCode::ActionsFailed => RunResult::ActionsFailed,
        ExitCode::NotReady => RunResult::NotReady,
        ExitCode::Interrupted => RunResult::Interrupted,
    }
}
