//! From flags and observations to a plan that was looked over.

use std::path::Path;

use jiff::Timestamp;

use super::Failure;
use crate::cli::{PlanArgs, PlanFormat, PlanOutputArgs};
use crate::plan::lint::lint;
use crate::plan::{Desired, HostSummary, Mode, Observed, Plan, Policy, Selection, plan};
use crate::report::{Memory, Style, human, json, markdown};

/// The policy of the config with what the command line adds.
///
/// # Errors
/// A key of `--replace` that is not wanted, or a previous report that cannot be read.
pub fn policy(
    mut policy: Policy,
    args: &PlanArgs,
    selection: Selection,
    desired: &Desired,
    before: Option<&Memory>,
) -> Result<Policy, Failure> {
    if let Some(bound) = args.max_deletions {
        policy.max_deletions = bound;
    }
    policy.allow_empty |= args.allow_empty;
    policy.take_over = args.take_over;
    policy.new_fleet = args.new_fleet;
    for key in &args.replace {
        if !desired.proxies.get(key).is_some_and(|proxy| matches!(proxy.mode, Mode::Managed(_))) {
            return Err(Failure::input(format!("--replace {key}: no manifest wants such a machine")).hint(
                "give NAMESPACE/NAME of a managed Proxy; the namespace is default where the manifest gives none",
            ));
        }
    }
    policy.replace = args.replace.iter().cloned().collect();
    policy.selection = selection;
    policy.previously = before.map(|before| before.machines.clone()).unwrap_or_default();
    policy.guard_vanished = args.previous_report.is_some();
    Ok(policy)
}

/// What is remembered of the time before: by the report of a former run, or else by the cluster that
/// manifests come from.
///
/// # Errors
/// When the report is missing or none.
pub fn before(path: Option<&Path>, cluster: Option<Memory>) -> Result<Option<Memory>, Failure> {
    let Some(path) = path else { return Ok(cluster) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{} cannot be read", path.display())).cause(error.to_string()))?;
    json::read_report(&text)
        .map(|report| Some(report.into()))
        .map_err(|error| Failure::input(format!("{} is not a report", path.display())).cause(error.to_string()))
}

/// Targets that match nothing are told of: they are mistyped, or what they named is gone.
#[must_use]
pub fn unmatched(selection: &Selection, desired: &Desired, observed: &Observed) -> Vec<String> {
    let marked = |key: &crate::plan::ProxyKey| {
        observed.hosts.values().any(|state| match state {
            crate::plan::HostState::Known(view) => {
                view.instances.iter().any(|instance| instance.mark().is_some_and(|mark| mark.proxy == *key))
            }
            crate::plan::HostState::Unknown(_) => false,
        })
    };
    let is_proxy = |key: &crate::plan::ProxyKey| desired.proxies.contains_key(key) || marked(key);
    let is_host = |place: &crate::plan::HostRef| desired.hosts.contains_key(place);
    selection.unmatched(is_proxy, is_host).map(|target| format!("{target} names no proxy and no host")).collect()
}

/// Plans, and looks the plan over.
///
/// # Errors
/// A plan that breaks a promise is a fault of this program.
pub fn make(desired: &Desired, observed: &Observed, policy: &Policy) -> Result<Plan, Failure> {
    let made = plan(desired, observed, policy, Timestamp::now());
    let broken = lint(&made, desired, observed, policy);
    if broken.is_empty() {
        return Ok(made);
    }
    Err(Failure::bug("the plan breaks a promise, so nothing was done")
        .causes(broken.into_iter().map(|broken| broken.0)))
}

/// Whether no host at all could be looked at.
#[must_use]
pub fn every_host_lost(plan: &Plan) -> bool {
    !plan.hosts.is_empty() && plan.hosts.values().all(|host| matches!(host, HostSummary::Unknown(_)))
}

/// The plan in a format.
///
/// # Errors
/// What JSON cannot carry, which a plan does not hold.
pub fn render(plan: &Plan, format: PlanFormat, colour: bool) -> Result<String, Failure> {
    match format {
        PlanFormat::Human => Ok(human::plan(plan, style(colour))),
        PlanFormat::Json => json_text(plan),
        PlanFormat::Markdown => Ok(markdown::comment(plan, None, markdown::MAX_BYTES)),
    }
}

/// How text for people is laid out.
#[must_use]
pub fn style(colour: bool) -> Style {
    Style { colour, ..Style::PLAIN }
}

/// A document as JSON.
///
/// # Errors
/// What JSON cannot carry.
pub fn json_text(document: &impl serde::Serialize) -> Result<String, Failure> {
    json::text(document).map_err(|error| Failure::bug("a document cannot be written as JSON").cause(error.to_string()))
}

/// Writes a file whole: a temporary one beside it, renamed.
///
/// # Errors
/// What the file system said.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    use crate::report::inventory::{Keep, write_atomically};
    write_atomically(path, text.as_bytes(), Keep::Nothing)
        .map(drop)
        .map_err(|error| Failure::world(format!("{} cannot be written", path.display())).source(&error))
}

/// Writes `--json-into`.
///
/// # Errors
/// What the file system said.
pub fn json_into(args: &PlanOutputArgs, document: &impl serde::Serialize) -> Result<(), Failure> {
    match &args.json_into {
        Some(path) => write_file(path, &json_text(document)?),
        None => Ok(()),
    }
}
