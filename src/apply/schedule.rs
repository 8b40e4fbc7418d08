//! What may run when: phases, limits, dependencies, and what a failure stops.
//!
//! Pure bookkeeping. An action is settled when it has an outcome; [`Schedule::next`] settles whatever
//! can no longer run and hands out what may begin.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{ActionOutcome, StepResult};
use crate::plan::{Action, ActionId, ActionKind, HostRef, Plan, Reason};
use crate::provider::Class;

/// So many failures in a row on one host stop that host for the run.
const FAILURES_IN_A_ROW: u32 = 3;

/// How much may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Hosts with an action in flight.
    pub hosts: usize,
    /// Actions in flight on one host.
    pub per_host: usize,
    /// Hosts to which images are brought at a time.
    pub downloads: usize,
    /// Machines that may be out of service at a time while they are replaced; at 0 none is replaced.
    pub unavailable: usize,
}

/// The order of things: what is missing comes first, then what changes, and what goes comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Make,
    Replace,
    Delete,
}

impl Phase {
    pub const ALL: [Self; 3] = [Self::Make, Self::Replace, Self::Delete];
}

/// How an action ended, as far as the schedule cares.
pub(super) struct Ended {
    pub outcome: ActionOutcome,
    pub class: Option<Class>,
    /// Whether the machine got as far as the run waits for.
    pub ready: bool,
}

/// An action and its neighbours, by index.
struct Entry<'a> {
    action: &'a Action,
    phase: Phase,
    after: Vec<usize>,
    waited_for_by: Vec<usize>,
    state: State,
}

enum State {
    Pending,
    Running,
    /// With whether it did what others wait for.
    Settled(ActionOutcome, bool),
}

/// The state of a run.
pub(super) struct Schedule<'a> {
    entries: Vec<Entry<'a>>,
    limits: Limits,
    running_on: BTreeMap<HostRef, usize>,
    failures_in_a_row: BTreeMap<HostRef, u32>,
    /// Hosts on which a machine could not be made for another reason than space.
    keeps_orphans: BTreeSet<HostRef>,
    /// Why no further machine is taken out of service.
    roll_out_stopped: Option<&'static str>,
    pub stopped: BTreeMap<HostRef, String>,
    pub not_ready: BTreeSet<ActionId>,
}

impl<'a> Schedule<'a> {
    pub fn new(plan: &'a Plan, limits: Limits) -> Self {
        let index: BTreeMap<&ActionId, usize> =
            plan.actions.iter().enumerate().map(|(at, action)| (&action.id, at)).collect();
        let after = |action: &Action| action.after.iter().filter_map(|id| index.get(id).copied()).collect();
        let mut entries: Vec<Entry<'a>> = plan
            .actions
            .iter()
            .map(|action| Entry {
                action,
                phase: phase(action),
                after: after(action),
                waited_for_by: Vec::new(),
                state: State::Pending,
            })
            .collect();
        let edges: Vec<(usize, usize)> = entries
            .iter()
            .enumerate()
            .flat_map(|(at, entry)| entry.after.iter().map(move |before| (*before, at)))
            .collect();
        for (before, at) in edges {
            let phase = entries.get(at).map(|entry| entry.phase);
            if let (Some(entry), Some(phase)) = (entries.get_mut(before), phase) {
                entry.waited_for_by.push(at);
                // A machine that must go before its successor can take its address goes in the
                // successor's phase.
                entry.phase = entry.phase.min(phase);
            }
        }
        Self {
            entries,
            limits,
            running_on: BTreeMap::new(),
            failures_in_a_row: BTreeMap::new(),
            keeps_orphans: BTreeSet::new(),
            roll_out_stopped: (limits.unavailable == 0)
                .then_some("policy.maxUnavailable is 0, so no machine is taken out of service"),
            stopped: BTreeMap::new(),
            not_ready: BTreeSet::new(),
        }
    }

    /// Settles everything of a phase that can no longer run, and returns what may begin now.
    pub fn next(&mut self, phase: Phase) -> Vec<&'a Action> {
        loop {
            let hopeless: Vec<(usize, ActionOutcome)> = (0..self.entries.len())
                .filter(|at| self.is_pending(*at, phase))
                .filter_map(|at| Some((at, self.hopeless(at)?)))
                .collect();
            if hopeless.is_empty() {
                break;
            }
            for (at, outcome) in hopeless {
                self.settle(at, outcome, false);
            }
        }
        let mut begin = Vec::new();
        let mut unavailable = self.unavailable();
        for at in 0..self.entries.len() {
            if !self.is_pending(at, phase) || !self.has_room(at) {
                continue;
            }
            let takes_out = self.takes_out_of_service(at);
            if takes_out && unavailable >= self.limits.unavailable {
                continue;
            }
            unavailable += usize::from(takes_out);
            if let Some(entry) = self.entries.get_mut(at) {
                entry.state = State::Running;
                *self.running_on.entry(entry.action.place.clone()).or_default() += 1;
                begin.push(entry.action);
            }
        }
        begin
    }

    fn is_pending(&self, at: usize, phase: Phase) -> bool {
        self.entries.get(at).is_some_and(|entry| entry.phase == phase && matches!(entry.state, State::Pending))
    }

    /// A replacement of a machine that served, or the deletion of one whose successor waits for it.
    fn takes_out_of_service(&self, at: usize) -> bool {
        self.entries.get(at).is_some_and(|entry| match entry.action.kind {
            ActionKind::Replace { unfinished, .. } => !unfinished,
            ActionKind::Delete { .. } => !entry.waited_for_by.is_empty(),
            ActionKind::Create { .. } | ActionKind::Start { .. } | ActionKind::Update { .. } => false,
        })
    }

    /// Machines that are out of service now: replacements in flight, and machines that went while
    /// their successors are not there yet.
    fn unavailable(&self) -> usize {
        let settled = |at: &usize| self.entries.get(*at).is_none_or(|entry| matches!(entry.state, State::Settled(..)));
        (0..self.entries.len())
            .filter(|at| self.takes_out_of_service(*at))
            .filter_map(|at| self.entries.get(at))
            .filter(|entry| match entry.state {
                State::Pending => false,
                State::Running => true,
                State::Settled(_, done) => done && !entry.waited_for_by.iter().all(settled),
            })
            .count()
    }

    fn has_room(&self, at: usize) -> bool {
        let Some(entry) = self.entries.get(at) else { return false };
        let done = |before: &usize| {
            matches!(self.entries.get(*before).map(|entry| &entry.state), Some(State::Settled(_, true)))
        };
        let here = self.running_on.get(&entry.action.place).copied().unwrap_or(0);
        let hosts = self.running_on.values().filter(|count| **count > 0).count();
        entry.after.iter().all(done)
            && here < self.limits.per_host.max(1)
            && (here > 0 || hosts < self.limits.hosts.max(1))
    }

    /// Why an action will never run, if so.
    fn hopeless(&self, at: usize) -> Option<ActionOutcome> {
        let entry = self.entries.get(at)?;
        let action = entry.action;
        if let Some(why) = self.stopped.get(&action.place) {
            let text = format!("{} was stopped for this run: {why}", action.place);
            return Some(ActionOutcome::skipped(Reason::DependencyFailed, text));
        }
        let undone = |other: &&usize| {
            matches!(self.entries.get(**other).map(|entry| &entry.state), Some(State::Settled(_, false)))
        };
        if let Some(before) = entry.after.iter().find(undone).and_then(|before| self.entries.get(*before)) {
            let text = format!("it waits for \"{}\", which was not done", before.action.id.0);
            return Some(ActionOutcome::skipped(Reason::DependencyFailed, text));
        }
        // A machine never goes for a successor that will not come.
        for successor in &entry.waited_for_by {
            let never =
                matches!(self.entries.get(*successor).map(|entry| &entry.state), Some(State::Settled(_, false)));
            let stopped =
                self.entries.get(*successor).is_some_and(|entry| self.stopped.contains_key(&entry.action.place));
            if never || stopped {
                return Some(ActionOutcome::skipped(Reason::DependencyFailed, "its successor cannot be made"));
            }
        }
        if self.takes_out_of_service(at)
            && let Some(why) = self.roll_out_stopped
        {
            let reason = if self.limits.unavailable == 0 { Reason::MaxUnavailable } else { Reason::DependencyFailed };
            return Some(ActionOutcome::skipped(reason, why));
        }
        if matches!(action.kind, ActionKind::Delete { .. }) && self.keeps_orphans.contains(&action.place) {
            let text = format!("a machine could not be made on {}, so none is deleted there", action.place);
            return Some(ActionOutcome::skipped(Reason::DependencyFailed, text));
        }
        None
    }

    fn settle(&mut self, at: usize, outcome: ActionOutcome, done: bool) {
        if let Some(entry) = self.entries.get_mut(at) {
            if matches!(entry.state, State::Running)
                && let Some(count) = self.running_on.get_mut(&entry.action.place)
            {
                *count = count.saturating_sub(1);
            }
            entry.state = State::Settled(outcome, done);
        }
    }

    fn at(&self, id: &ActionId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.action.id == *id)
    }

    /// The action of an id.
    pub fn action(&self, id: &ActionId) -> Option<&'a Action> {
        self.entries.iter().find(|entry| entry.action.id == *id).map(|entry| entry.action)
    }

    /// What came of an action so far.
    pub fn outcome(&self, id: &ActionId) -> Option<&ActionOutcome> {
        self.entries.iter().find(|entry| entry.action.id == *id).and_then(|entry| match &entry.state {
            State::Settled(outcome, _) => Some(outcome),
            State::Pending | State::Running => None,
        })
    }

    /// Whether nothing of this run is under way.
    pub fn is_idle(&self) -> bool {
        self.running_on.values().all(|count| *count == 0)
    }

    /// Whether more machines are to be taken out of service after those in flight.
    pub fn more_to_replace(&self) -> bool {
        (0..self.entries.len()).any(|at| {
            self.takes_out_of_service(at)
                && matches!(self.entries.get(at).map(|entry| &entry.state), Some(State::Pending))
        })
    }

    /// Takes the end of an action that ran.
    pub fn finished(&mut self, id: &ActionId, ended: Ended) {
        let Some(at) = self.at(id) else { return };
        let Some(action) = self.entries.get(at).map(|entry| entry.action) else { return };
        let done = succeeded(&ended.outcome);
        if done {
            self.failures_in_a_row.remove(&action.place);
        } else if ended.outcome.result == StepResult::Failed && ended.class != Some(Class::Quota) {
            // Too little space holds no deletion back: those are what makes room.
            let row = self.failures_in_a_row.entry(action.place.clone()).or_default();
            *row += 1;
            if *row >= FAILURES_IN_A_ROW {
                let last = ended.outcome.message.as_deref().unwrap_or("unknown");
                let why = format!("{FAILURES_IN_A_ROW} failures in a row, the last: {last}");
                self.stopped.entry(action.place.clone()).or_insert(why);
            }
        }
        self.note(at, &ended);
        self.settle(at, ended.outcome, done && ended.ready);
    }

    /// A machine that was made did not become ready in time: what waits for it waits on.
    pub fn never_ready(&mut self, id: &ActionId, outcome: ActionOutcome) {
        let Some(at) = self.at(id) else { return };
        self.note(at, &Ended { outcome: outcome.clone(), class: None, ready: false });
        self.settle(at, outcome, false);
    }

    /// Keeps what was learnt while waiting for a machine.
    pub fn learnt(&mut self, id: &ActionId, outcome: ActionOutcome) {
        if let Some(at) = self.at(id) {
            self.settle(at, outcome, true);
        }
    }

    /// An action that could not begin because its image could not be brought.
    pub fn without_image(&mut self, action: &Action, message: String, class: Option<Class>) {
        let Some(at) = self.at(&action.id) else { return };
        let outcome = ActionOutcome::skipped(Reason::DependencyFailed, message);
        self.note(at, &Ended { outcome: outcome.clone(), class, ready: true });
        self.settle(at, outcome, false);
    }

    /// What an end means for the rest of the run.
    fn note(&mut self, at: usize, ended: &Ended) {
        let Some(entry) = self.entries.get(at) else { return };
        let action = entry.action;
        let done = succeeded(&ended.outcome);
        if done && !ended.ready {
            self.not_ready.insert(action.id.clone());
        }
        if !done && action.kind.make().is_some() && ended.class != Some(Class::Quota) {
            self.keeps_orphans.insert(action.place.clone());
        }
        // The second half of a move with a static address is as much of a replacement as the first.
        let makes_up = entry.after.iter().any(|before| self.takes_out_of_service(*before));
        let nothing_done = ended.outcome.result == StepResult::Changed;
        if makes_up || (self.takes_out_of_service(at) && !nothing_done) {
            if !done {
                self.roll_out_stopped =
                    Some("another replacement failed, so no further machine is taken out of service");
            } else if !ended.ready {
                self.roll_out_stopped =
                    Some("a replaced machine is not ready yet, so no further machine is taken out of service");
            }
        }
    }

    /// Gives up waiting for what runs.
    pub fn abandon(&mut self, why: &str) {
        for at in 0..self.entries.len() {
            if matches!(self.entries.get(at).map(|entry| &entry.state), Some(State::Running)) {
                self.settle(at, ActionOutcome::skipped(Reason::Interrupted, why), false);
            }
        }
    }

    /// Settles whatever was not begun, at the end of a run, and returns all outcomes.
    pub fn into_outcomes(self) -> BTreeMap<String, ActionOutcome> {
        let outcome = |state| match state {
            State::Settled(outcome, _) => outcome,
            State::Pending | State::Running => {
                ActionOutcome::skipped(Reason::Interrupted, "the run was interrupted first")
            }
        };
        self.entries.into_iter().map(|entry| (entry.action.id.0.clone(), outcome(entry.state))).collect()
    }
}

fn phase(action: &Action) -> Phase {
    match action.kind {
        ActionKind::Create { .. } | ActionKind::Start { .. } | ActionKind::Update { .. } => Phase::Make,
        ActionKind::Replace { .. } => Phase::Replace,
        ActionKind::Delete { .. } => Phase::Delete,
    }
}

pub(super) fn succeeded(outcome: &ActionOutcome) -> bool {
    matches!(outcome.result, StepResult::Done | StepResult::AlreadyDone)
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
