//! From a lock to a report: what `apply` and `destroy` share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::approval::{confirm, not_approved};
use super::cluster::InCluster;
use super::exit::{ExitCode, Facts, pick};
use super::fleet::Fleet;
use super::locking::{give_back, take_locks};
use super::{CommandResult, Context, Failure, Kind, Signals, planning, telling};
use crate::apply::{Limits, Outcome, Wait, execute};
use crate::cli::{LogFormat, PlanFormat, PlanOutputArgs};
use crate::plan::{Desired, HostRef, HostState, HostTrouble, Observed, Plan, Policy, Reason, saved};
use crate::provider::Depth;
use crate::report::progress::{ProgressDrawTarget, monotonic};
use crate::report::{Memory, Progress, human};

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
    /// No question is asked.
    pub approved: bool,
    /// How and where the plan and the outcome go.
    pub output: &'a PlanOutputArgs,
    /// Where the report goes.
    pub report: Option<&'a Path>,
    /// Where the inventory goes.
    pub inventory: Option<&'a Path>,
    /// What is remembered of the time before.
    pub before: Option<Memory>,
    /// The cluster that the run is told in.
    pub cluster: Option<&'a InCluster>,
    /// A saved plan: only what it holds is done.
    pub saved: Option<Plan>,
    /// When the command began.
    pub started_at: Timestamp,
}

/// What a run came to, whenever it ended.
pub struct Ended {
    /// What was wanted.
    pub desired: Desired,
    /// What was seen; every host is unknown when the run ended before it looked.
    pub observed: Observed,
    /// What was to be done.
    pub plan: Plan,
    /// Whether it looked at all.
    pub looked: bool,
    /// What came of it; none when nothing was begun.
    pub outcome: Option<Outcome>,
    /// How the command ends.
    pub end: CommandResult,
}

/// A run that changes hosts: what it was asked, and what it has at hand.
pub struct Execution<'a> {
    /// What it was asked.
    pub order: &'a Order<'a>,
    /// The hosts.
    pub fleet: &'a Fleet,
    /// Signals that end it early.
    pub signals: &'a Signals,
    /// The process around it.
    pub context: &'a Context,
}

impl Execution<'_> {
    /// Locks, looks, plans, guards, shows, asks, does, and tells. `desired` says what is wanted once
    /// the hosts were looked at.
    ///
    /// # Errors
    /// Whatever ended the run before anything was done; the report is written all the same.
    pub async fn carry_out(&self, desired: &mut dyn FnMut(&Observed) -> Desired) -> CommandResult {
        let progress = Arc::new(progress(self.context));
        let taken = take_locks(self.fleet, self.order.lock_timeout, self.signals, &*progress).await;
        let (ended, locks) = match taken {
            Ok(locked) => (self.under_lock(&locked.unreachable, desired, &progress).await, Some(locked.locks)),
            Err(not_locked) => (self.before_looking(desired, &not_locked.unreachable, not_locked.failure), None),
        };
        // From here on nothing of this run is at work on a host, unless it is so already.
        let cut_short = self.signals.second.is_cancelled();
        let end = match ended {
            Ok(ended) => telling::tell(self, &ended).await,
            Err(failure) => Err(failure),
        };
        // Only now: the next run writes the same inventory, and must not be overtaken by this one.
        if let Some(locks) = locks {
            give_back(locks, cut_short, self.signals).await;
        }
        end
    }

    async fn under_lock(
        &self,
        unreachable: &BTreeMap<HostRef, HostTrouble>,
        desired: &mut dyn FnMut(&Observed) -> Desired,
        progress: &Arc<Progress>,
    ) -> Result<Ended, Failure> {
        let observed = tokio::select! {
            observed = self.fleet.observe(Depth::Locked, unreachable) => observed,
            () = self.signals.first.cancelled() => return self.before_looking(desired, unreachable, Failure::interrupted()),
        };
        let desired = desired(&observed);
        for target in planning::unmatched(&self.order.policy.selection, &desired, &observed) {
            self.context.terminal.say(&target);
        }
        let plan = planning::make(&desired, &observed, &self.order.policy)?;
        let mut ended = Ended { desired, observed, plan, looked: true, outcome: None, end: Ok(ExitCode::Success) };
        ended.end = self.act(&mut ended, progress).await;
        Ok(ended)
    }

    /// Guards, shows, asks and does.
    async fn act(&self, ended: &mut Ended, progress: &Arc<Progress>) -> CommandResult {
        if let Some(saved) = &self.order.saved {
            ended.plan = saved::still_stands(saved, ended.plan.clone()).map_err(|stale| {
                Failure::new(Kind::World, ExitCode::Stale, "the saved plan is stale; nothing was done")
                    .causes(stale.stale)
                    .hint("make a new one with diff --out")
            })?;
        }
        let plan = &ended.plan;
        self.show(plan)?;
        let mut facts = Facts {
            failed: planning::every_host_lost(plan),
            refused: !plan.refusals.is_empty(),
            incomplete: plan.is_incomplete() || ended.desired.broke_off(),
            ..Facts::default()
        };
        if facts.refused || facts.failed || !plan.has_changes() {
            return Ok(pick(&facts));
        }
        if self.signals.interrupted() {
            return Err(Failure::interrupted());
        }
        if !self.order.approved && !confirm(self.context, self.signals).await? {
            return Err(not_approved(self.signals));
        }
        let work = Work { plan, desired: &ended.desired, limits: self.order.limits, wait: self.order.wait };
        let done = work.carry_out(self.fleet, self.signals, progress).await;
        let fault = done.fault.clone();
        facts.actions_failed = done.has_failures();
        facts.not_ready = !done.not_ready.is_empty();
        facts.interrupted = done.interrupted;
        ended.outcome = Some(done);
        fault.map_or(Ok(pick(&facts)), |fault| Err(broken(&fault)))
    }

    /// The plan is talk when stdout is to carry the report.
    fn show(&self, plan: &Plan) -> Result<(), Failure> {
        let terminal = &self.context.terminal;
        match self.order.output.output {
            PlanFormat::Human => terminal.data(human::plan(plan, planning::style(terminal.color_out)).as_bytes()),
            PlanFormat::Json | PlanFormat::Markdown => {
                terminal.say(human::plan(plan, planning::style(terminal.color_err)).trim_end());
                Ok(())
            }
        }
    }

    /// A run that ended before it looked at any host: nothing is known of them, but of some that they
    /// could not be reached.
    fn before_looking(
        &self,
        desired: &mut dyn FnMut(&Observed) -> Desired,
        unreachable: &BTreeMap<HostRef, HostTrouble>,
        failure: Failure,
    ) -> Result<Ended, Failure> {
        let reason = if failure.exit == ExitCode::Locked { Reason::InProgress } else { Reason::Interrupted };
        let trouble =
            HostTrouble { reason, message: format!("the run ended before it looked: {}", failure.message), hint: None };
        let hosts = self.fleet.places.iter().map(|place| {
            let trouble = unreachable.get(place).unwrap_or(&trouble);
            (place.clone(), HostState::Unknown(trouble.clone()))
        });
        let observed = Observed { hosts: hosts.collect() };
        let desired = desired(&observed);
        let plan = planning::make(&desired, &observed, &self.order.policy)?;
        Ok(Ended { desired, observed, plan, looked: false, outcome: None, end: Err(failure) })
    }
}

/// A plan that is to be carried out.
pub struct Work<'a> {
    /// What is to be done.
    pub plan: &'a Plan,
    /// What is wanted.
    pub desired: &'a Desired,
    /// Limits of what is in flight.
    pub limits: Limits,
    /// How far to wait.
    pub wait: Wait,
}

impl Work<'_> {
    /// Carries it out under the locks of the run, and shows how far it is.
    pub async fn carry_out(&self, fleet: &Fleet, signals: &Signals, progress: &Arc<Progress>) -> Outcome {
        let ticker = {
            let progress = Arc::clone(progress);
            tokio::spawn(async move { progress.keep_ticking().await })
        };
        let (desired, providers) = (Arc::new(self.desired.clone()), fleet.providers.clone());
        let (stop, listener) = (signals.stop(), progress.clone());
        // Held apart, since it is too large for the stack of whoever waits.
        let work = Box::pin(execute(self.plan, desired, providers, self.limits, self.wait, &stop, listener));
        let done = work.await;
        ticker.abort();
        progress.finish();
        done
    }
}

/// How a command ends in which a step broke a promise of this program.
#[must_use]
pub fn broken(fault: &str) -> Failure {
    Failure::bug("a step ended by a fault of this program").cause(fault)
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
