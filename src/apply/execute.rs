//! Carries a plan out: images first, then what is missing, what changes, and last what goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::event::Listener;
use super::outcome::{ActionOutcome, ImageOutcome, Outcome};
use super::schedule::{Ended, Limits, Phase, Schedule, succeeded};
use super::step::Shared;
use crate::plan::{Action, ActionId, Address, Desired, HostRef, ImageAction, ImageNeed, Plan, Reason};
use crate::provider::{Class, Providers};

/// How often a machine that is waited for is asked for its address.
const LOOK: Duration = Duration::from_secs(2);

/// How long steps may run on after the second signal.
const AFTER_SECOND: Duration = Duration::from_secs(1);

/// Machines whose addresses are waited for at a time.
const WAITS_AT_A_TIME: usize = 64;

/// How far a run waits for the machines that it made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    None,
    /// Until each one runs; the provider sees to that by itself. Only while more machines are to be
    /// replaced is an address waited for, so long at most.
    Running(Duration),
    /// Until each one has an address, or the time is over.
    Address(Duration),
}

/// How a run is told to end.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Nothing new begins, and transfers end.
    pub first: CancellationToken,
    /// What runs ends at its next boundary.
    pub second: CancellationToken,
}

impl Stop {
    /// Ends when the second signal came and what runs had its second to end.
    pub async fn overdue(&self) {
        self.second.cancelled().await;
        tokio::time::sleep(AFTER_SECOND).await;
    }
}

/// Carries `plan` out on hosts that this run has locked.
pub async fn execute(
    plan: &Plan,
    desired: Arc<Desired>,
    providers: Providers,
    limits: Limits,
    wait: Wait,
    stop: &Stop,
    listener: Arc<dyn Listener>,
) -> Outcome {
    let shared = Shared { providers, desired, listener, stop: stop.first.clone(), cancel: stop.second.clone() };
    let mut schedule = Schedule::new(plan, limits);
    let images = bring_images(plan, &shared, limits, stop, &mut schedule).await;
    let mut fault = None;
    for phase in Phase::ALL {
        let made = run_phase(phase, &shared, &mut schedule, wait, stop, &mut fault).await;
        if let Wait::Address(budget) = wait {
            tokio::select! {
                () = wait_for_addresses(made, &shared, budget, &mut schedule) => {}
                () = stop.overdue() => {}
            }
        }
    }
    Outcome {
        images,
        stopped_hosts: std::mem::take(&mut schedule.stopped),
        interrupted: stop.first.is_cancelled(),
        not_ready: std::mem::take(&mut schedule.not_ready).into_iter().collect(),
        actions: schedule.into_outcomes(),
        fault,
    }
}

/// Brings every image, or as many as there is time for, and settles what cannot begin without.
async fn bring_images(
    plan: &Plan,
    shared: &Shared,
    limits: Limits,
    stop: &Stop,
    schedule: &mut Schedule<'_>,
) -> Vec<ImageOutcome> {
    let mut brought: BTreeMap<&ImageAction, (ActionOutcome, Option<Class>)> = BTreeMap::new();
    let mut bringing = stream::iter(&plan.images)
        .map(|image| async move {
            if shared.stop.is_cancelled() {
                let skipped = ActionOutcome::skipped(Reason::Interrupted, "the run was interrupted first");
                return (image, (skipped, Some(Class::Cancelled)));
            }
            (image, shared.image(image).await)
        })
        .buffer_unordered(limits.downloads.max(1));
    loop {
        tokio::select! {
            next = bringing.next() => match next {
                Some((image, what)) => _ = brought.insert(image, what),
                None => break,
            },
            () = stop.overdue() => break,
        }
    }
    let cut_off = || {
        let what = ActionOutcome::skipped(Reason::Interrupted, "it did not end in time after the second signal");
        (what, Some(Class::Cancelled))
    };
    let mut results: Vec<(ImageOutcome, Option<Class>)> = plan
        .images
        .iter()
        .map(|image| {
            let (what, class) = brought.remove(image).unwrap_or_else(cut_off);
            (ImageOutcome { action: image.clone(), what }, class)
        })
        .collect();
    results.sort_by(|a, b| a.0.action.cmp(&b.0.action));
    let missing: BTreeMap<(&HostRef, &ImageNeed), (&ActionOutcome, Option<Class>)> = results
        .iter()
        .filter(|(image, _)| !succeeded(&image.what))
        .map(|(image, class)| ((&image.action.place, &image.action.image), (&image.what, *class)))
        .collect();
    for action in &plan.actions {
        let Some(make) = action.kind.make() else { continue };
        if let Some((what, class)) = missing.get(&(&action.place, &make.image)) {
            let why = what.message.as_deref().unwrap_or("it was not tried");
            schedule.without_image(action, format!("its image could not be brought: {why}"), *class);
        }
    }
    results.into_iter().map(|(image, _)| image).collect()
}

/// Runs one phase to its end; returns the machines that it made or started, for whoever waits.
async fn run_phase<'a>(
    phase: Phase,
    shared: &Shared,
    schedule: &mut Schedule<'a>,
    wait: Wait,
    stop: &Stop,
    fault: &mut Option<String>,
) -> Vec<&'a Action> {
    let mut tasks: JoinSet<(ActionId, Ended)> = JoinSet::new();
    let mut made = Vec::new();
    loop {
        if !stop.first.is_cancelled() {
            for action in schedule.next(phase) {
                // While more machines are to be replaced, one that was replaced holds its place among
                // the unavailable ones until it has an address: a roll-out must not outrun its guests.
                let budget = match (phase, wait) {
                    (Phase::Replace, Wait::Address(budget)) => Some(budget),
                    (Phase::Replace, Wait::Running(budget)) if schedule.more_to_replace() => Some(budget),
                    _ => None,
                };
                let (shared, action) = (shared.clone(), action.clone());
                tasks.spawn(async move {
                    let (mut outcome, class) = shared.action(&action).await;
                    let ready = match budget {
                        Some(budget) => until_address(&shared, &action, &mut outcome, budget).await,
                        None => true,
                    };
                    (action.id, Ended { outcome, class, ready })
                });
            }
        }
        if schedule.is_idle() {
            return made;
        }
        let joined = tokio::select! {
            joined = tasks.join_next() => joined,
            () = stop.overdue() => {
                // What does not end by itself ends with the process; its host keeps the lock.
                tasks.detach_all();
                schedule.abandon("it did not end in time after the second signal; the next run goes on from what is there");
                return made;
            }
        };
        match joined {
            Some(Ok((id, ended))) => {
                if ended.class == Some(Class::Bug) {
                    fault.clone_from(&ended.outcome.message);
                }
                if succeeded(&ended.outcome) && phase == Phase::Make && ended.outcome.uuid.is_some() {
                    made.extend(schedule.action(&id));
                }
                schedule.finished(&id, ended);
            }
            Some(Err(error)) => {
                // A step that panicked is a fault of this program; nothing more is begun.
                *fault = Some(error.to_string());
                stop.first.cancel();
                stop.second.cancel();
                schedule.abandon("a fault of this program ended the run");
            }
            None => return made,
        }
    }
}

async fn wait_for_addresses(made: Vec<&Action>, shared: &Shared, budget: Duration, schedule: &mut Schedule<'_>) {
    let waits = made.into_iter().filter_map(|action| Some((action, schedule.outcome(&action.id)?.clone())));
    let results: Vec<(ActionId, ActionOutcome, bool)> = stream::iter(waits.collect::<Vec<_>>())
        .map(|(action, mut outcome)| async move {
            let ready = until_address(shared, action, &mut outcome, budget).await;
            (action.id.clone(), outcome, ready)
        })
        .buffer_unordered(WAITS_AT_A_TIME)
        .collect()
        .await;
    for (id, outcome, ready) in results {
        if ready {
            schedule.learnt(&id, outcome);
        } else {
            schedule.never_ready(&id, outcome);
        }
    }
}

/// Asks for a machine's address until it has one; `false` when the time was over or the run stopped.
async fn until_address(shared: &Shared, action: &Action, outcome: &mut ActionOutcome, budget: Duration) -> bool {
    let (true, Some(uuid), Some(provider)) =
        (succeeded(outcome), outcome.uuid.clone(), shared.providers.of(&action.place).cloned())
    else {
        return true;
    };
    let begun = Instant::now();
    loop {
        if shared.stop.is_cancelled() {
            return false;
        }
        let address = provider.address(&action.place.host, &uuid).await;
        let found = matches!(&address, Address::Known(addresses) if !addresses.is_empty());
        outcome.address = Some(address);
        if found {
            outcome
                .stages
                .push(super::outcome::StageTime { name: "address".to_owned(), seconds: begun.elapsed().as_secs_f64() });
            return true;
        }
        if begun.elapsed() >= budget {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = shared.stop.cancelled() => return false,
        }
    }
}
