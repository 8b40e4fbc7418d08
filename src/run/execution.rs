//! From a lock to a report: what `apply` and `destroy` share.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::exit::{ExitCode, Facts, pick};
use super::fleet::Fleet;
use super::locking::{Deadline, give_back, take_locks};
use super::{CommandResult, Context, Failure, Signals, planning};
use crate::apply::{Limits, Outcome, Stop, Wait, execute};
use crate::cli::{LogFormat, PlanFormat, PlanOutputArgs};
use crate::plan::{Address, Desired, HostState, Mode, Observed, Plan, Policy, ProxyKey};
use crate::provider::Depth;
use crate::report::inventory::{Format, Keep, Template, write_atomically};
use crate::report::progress::{ProgressDrawTarget, monotonic};
use crate::report::{Inventory, Progress, Report, ReportInput, RunInfo, RunResult, document, human, markdown};

/// What a command that changes things is asked for.
pub struct Order<'a> {
    /// `apply` or `destroy`.
    pub command: &'static str,
    /// The policy, flags included.
    pub policy: Policy,
    /// Limits of what is in flight.
    pub limits: Limits,
    /// How far to wait.
    pub wait: Wait,
    /// How long another run's lock is waited for.
    pub lock_timeout: Duration,
    /// Bounds the run as a whole; its end is an interrupt.
    pub timeout: Option<Duration>,
    /// No question is asked.
    pub approved: bool,
    /// How and where the plan and the outcome go.
    pub output: &'a PlanOutputArgs,
    /// Where the report goes.
    pub report: Option<&'a Path>,
    /// Where the inventory goes.
    pub inventory: Option<&'a Path>,
    /// The report of the run before.
    pub previous: Option<Report>,
    /// A saved plan: only what it holds is done.
    pub saved: Option<Plan>,
    /// When the command began.
    pub started_at: Timestamp,
}

/// Locks, looks, plans, guards, shows, asks, does, and tells.
///
/// # Errors
/// Whatever ended the run before anything was done.
pub async fn carry_out(
    order: &Order<'_>,
    fleet: &Fleet,
    desired: &mut dyn FnMut(&Observed) -> Desired,
    signals: &Signals,
    context: &Context,
) -> CommandResult {
    let progress = Arc::new(progress(context));
    let listener: Arc<dyn crate::apply::Listener> = progress.clone();
    let _deadline = Deadline::after(order.timeout, signals);
    let Some(locked) = take_locks(fleet, order.lock_timeout, signals, &*listener).await? else {
        return Ok(ExitCode::Interrupted);
    };
    let result = tokio::select! {
        observed = fleet.observe(Depth::Locked, &locked.unreachable) => {
            let desired = desired(&observed);
            under_lock(order, fleet, &desired, &observed, signals, context, &progress, &listener).await
        }
        // Nothing was done yet, so that there is nothing to tell.
        () = signals.first.cancelled() => Ok(ExitCode::Interrupted),
    };
    give_back(locked.locks, signals).await;
    result
}

#[expect(clippy::too_many_arguments, reason = "they are what one run has, each used once")]
async fn under_lock(
    order: &Order<'_>,
    fleet: &Fleet,
    desired: &Desired,
    observed: &Observed,
    signals: &Signals,
    context: &Context,
    progress: &Arc<Progress>,
    listener: &Arc<dyn crate::apply::Listener>,
) -> CommandResult {
    for target in planning::unmatched(&order.policy.selection, desired, observed) {
        context.terminal.say(&target);
    }
    let mut plan = planning::make(desired, observed, &order.policy)?;
    if let Some(saved) = &order.saved {
        plan = match crate::plan::saved::still_stands(saved, plan) {
            Ok(plan) => plan,
            Err(stale) => {
                return Err(Failure::new(
                    super::Kind::World,
                    ExitCode::Stale,
                    "the saved plan is stale; nothing was done",
                )
                .causes(stale.stale)
                .hint("make a new one with diff --out"));
            }
        };
    }
    let shown = match order.output.output {
        PlanFormat::Human => human::plan(&plan, planning::style(context.terminal.color_out)),
        PlanFormat::Json | PlanFormat::Markdown => human::plan(&plan, planning::style(context.terminal.color_err)),
    };
    match order.output.output {
        PlanFormat::Human => context.terminal.data(shown.as_bytes())?,
        PlanFormat::Json | PlanFormat::Markdown => context.terminal.say(shown.trim_end()),
    }
    let mut facts = Facts {
        failed: planning::every_host_lost(&plan),
        refused: !plan.refusals.is_empty(),
        incomplete: plan.is_incomplete(),
        interrupted: signals.interrupted(),
        ..Facts::default()
    };
    let go = !facts.refused && !facts.failed && !facts.interrupted && plan.has_changes();
    let mut outcome = None;
    if go {
        if !order.approved && !confirm(context, signals).await? {
            if signals.interrupted() {
                return Ok(ExitCode::Interrupted);
            }
            return Err(Failure::world("not approved; nothing was done"));
        }
        let ticker = {
            let progress = Arc::clone(progress);
            tokio::spawn(async move { progress.keep_ticking().await })
        };
        let stop = Stop { first: signals.first.clone(), second: signals.second.clone() };
        let work = execute(
            &plan,
            Arc::new(desired.clone()),
            fleet.providers.clone(),
            order.limits,
            order.wait,
            &stop,
            Arc::clone(listener),
        );
        let done = work.await;
        ticker.abort();
        progress.finish();
        facts.actions_failed = done.has_failures();
        facts.not_ready = !done.not_ready.is_empty();
        facts.interrupted = done.interrupted;
        outcome = Some(done);
    }
    let code = pick(&facts);
    tell(order, fleet, desired, observed, &plan, outcome.as_ref(), code, context).await?;
    Ok(code)
}

/// Writes what the run came to: text, report, inventory.
#[expect(clippy::too_many_arguments, reason = "they are what one run has, each used once")]
async fn tell(
    order: &Order<'_>,
    fleet: &Fleet,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
    outcome: Option<&Outcome>,
    code: ExitCode,
    context: &Context,
) -> Result<(), Failure> {
    let interrupted = outcome.is_some_and(|outcome| outcome.interrupted);
    let wanted = order.report.is_some()
        || order.inventory.is_some()
        || order.output.json_into.is_some()
        || order.output.output == PlanFormat::Json;
    // An interrupted run has no time to ask for addresses; the last known ones are kept as stale.
    let addresses = if wanted && !interrupted { addresses(fleet, desired, observed).await } else { BTreeMap::new() };
    let run = RunInfo {
        id: context.run.to_string(),
        command: order.command.to_owned(),
        fleet: desired.fleet.clone(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: order.started_at,
        ended_at: Timestamp::now(),
        result: result_of(code),
        exit_code: code.number(),
        recorded: plan.recorded,
    };
    let report = document::build(&ReportInput {
        run: &run,
        desired,
        observed,
        plan,
        outcome,
        addresses: &addresses,
        figures: &fleet.figures(),
        boot_deadlines: &fleet.boot_deadlines,
        generations: &BTreeMap::new(),
        previous: order.previous.as_ref(),
    });
    if let (Some(outcome), PlanFormat::Human) = (outcome, order.output.output) {
        let text = human::outcome(plan, outcome, planning::style(context.terminal.color_out));
        context.terminal.data(format!("\n{text}").as_bytes())?;
    }
    match order.output.output {
        PlanFormat::Human => {}
        PlanFormat::Json => context.terminal.data(planning::json_text(&report)?.as_bytes())?,
        PlanFormat::Markdown => {
            let text = markdown::comment(plan, outcome, markdown::MAX_BYTES);
            context.terminal.data(text.as_bytes())?;
        }
    }
    planning::json_into(order.output, &report)?;
    if let Some(path) = order.report {
        planning::write_file(path, &planning::json_text(&report)?)?;
    }
    if let Some(path) = order.inventory {
        write_inventory(path, &Format::Json, &report)?;
    }
    Ok(())
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
#[must_use]
pub fn result_of(code: ExitCode) -> RunResult {
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

/// Progress as the terminal allows it.
#[must_use]
pub fn progress(context: &Context) -> Progress {
    if context.terminal.format == LogFormat::Json {
        Progress::off()
    } else if context.terminal.progress {
        Progress::bars(ProgressDrawTarget::stderr(), monotonic())
    } else {
        Progress::plain(Box::new(std::io::stderr()), monotonic())
    }
}

/// Asks whether the plan is to be carried out.
///
/// # Errors
/// Without a terminal nobody can be asked.
pub async fn confirm(context: &Context, signals: &Signals) -> Result<bool, Failure> {
    if !context.terminal.interactive {
        return Err(Failure::world("nobody can be asked for approval, since this is not a terminal; nothing was done")
            .hint("pass --auto-approve when the plan was looked at before"));
    }
    eprint_question()?;
    // A thread that waits for a person may outlive the question; leaving the runtime does not wait.
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    tokio::select! {
        answer = read => match answer {
            Ok(Ok(answer)) => Ok(answer.trim() == "yes"),
            Ok(Err(error)) => Err(Failure::world("the answer cannot be read").cause(error.to_string())),
            Err(error) => Err(Failure::bug("reading the answer ended").cause(error.to_string())),
        },
        () = signals.first.cancelled() => Ok(false),
    }
}

fn eprint_question() -> Result<(), Failure> {
    let mut stderr = std::io::stderr();
    stderr
        .write_all(b"\nDo this? Only \"yes\" is taken: ")
        .and_then(|()| stderr.flush())
        .map_err(|error| Failure::world("stderr cannot be written").cause(error.to_string()))
}

/// Files answer for recorded hosts: a run that changes things simulates on them, and says so.
///
/// # Errors
/// `--simulate` and the hosts do not fit.
pub fn check_simulation(simulate: bool, desired: &Desired) -> Result<(), Failure> {
    let recorded = desired.hosts.values().filter(|host| host.recorded).count();
    match (simulate, recorded) {
        (false, 1..) => Err(Failure::usage("the config has recorded hosts, on which nothing can be done")
            .hint("pass --simulate to see what would happen, in memory")),
        (true, n) if n < desired.hosts.len() => {
            Err(Failure::usage("--simulate is for recorded hosts, and the config has live ones")
                .hint("use diff to see what would happen on live hosts"))
        }
        _ => Ok(()),
    }
}
