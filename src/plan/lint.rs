//! Looks a plan over before anything is done with it. What it finds is a fault of the planner, not
//! of the world, and the run ends as one.
//!
//! It asks the inputs again in its own way and shares only constants with the planner, so that one
//! mistake is not made twice.

mod limits;
mod machine;
mod order;

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Action, ActionKind, Plan};
use super::desired::{Desired, Managed, Mode};
use super::name::{HostRef, ProxyKey};
use super::observed::{HostState, HostView, Instance, Observed};
use super::policy::Policy;

/// A promise that a plan breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// Every promise that `plan` breaks, given what it was made from.
#[must_use]
pub fn lint(plan: &Plan, desired: &Desired, observed: &Observed, policy: &Policy) -> Vec<Broken> {
    let inputs = Inputs { plan, desired, observed, policy };
    let mut broken = Vec::new();
    let mut say = |text: String| broken.push(Broken(text));
    inputs.once_each(&mut say);
    for action in &plan.actions {
        inputs.place(action, &mut say);
    }
    inputs.order(&mut say);
    inputs.images(&mut say);
    inputs.limits(&mut say);
    for held in plan.held.iter().filter(|held| held.message.trim().is_empty()) {
        say(format!("{:?} {:?}: held without a word", held.key, held.instance));
    }
    broken
}

struct Inputs<'a> {
    plan: &'a Plan,
    desired: &'a Desired,
    observed: &'a Observed,
    policy: &'a Policy,
}

impl<'a> Inputs<'a> {
    fn view(&self, place: &HostRef) -> Option<&'a HostView> {
        match self.observed.hosts.get(place) {
            Some(HostState::Known(view)) => Some(view),
            Some(HostState::Unknown(_)) | None => None,
        }
    }

    fn managed(&self, key: &ProxyKey) -> Option<&'a Managed> {
        match self.desired.proxies.get(key).map(|proxy| &proxy.mode) {
            Some(Mode::Managed(managed)) => Some(managed),
            Some(Mode::External { .. }) | None => None,
        }
    }

    /// The machine that is wanted for `key` at this very place.
    fn wanted_at(&self, key: &ProxyKey, place: &HostRef) -> Option<&'a Managed> {
        let retired = self.desired.hosts.get(place).is_none_or(|host| host.retired);
        self.managed(key).filter(|managed| managed.place == *place && !retired)
    }

    fn there(&self, action: &Action) -> Option<&'a Instance> {
        self.view(&action.place)?.instances.iter().find(|instance| instance.name == action.instance)
    }

    /// Nothing is planned twice, or without a reason.
    fn once_each(&self, say: &mut impl FnMut(String)) {
        let mut ids = BTreeSet::new();
        let mut machines = BTreeSet::new();
        for action in &self.plan.actions {
            let id = &action.id.0;
            if !ids.insert(id) {
                say(format!("{id}: planned twice"));
            }
            if !machines.insert((&action.place, &action.instance)) {
                say(format!("{id}: a second action on machine {}", action.instance));
            }
            if action.why.trim().is_empty() {
                say(format!("{id}: no reason is given"));
            }
        }
    }

    /// No unknown host is touched, and on a known one only what was seen.
    fn place(&self, action: &Action, say: &mut impl FnMut(String)) {
        let id = &action.id.0;
        if !self.desired.hosts.contains_key(&action.place) {
            say(format!("{id}: {} is not a host of the config", action.place));
        }
        match self.view(&action.place) {
            None => say(format!("{id}: the host is unknown")),
            Some(view) => self.machine(action, view, say),
        }
    }

    /// Each image that a new machine starts from is on its host, or is brought there; and no other.
    fn images(&self, say: &mut impl FnMut(String)) {
        let mut needed = BTreeMap::new();
        for action in &self.plan.actions {
            let Some(make) = action.kind.make() else { continue };
            if self.view(&action.place).is_some_and(|view| view.image(&make.image).is_none()) {
                needed.insert((&action.place, &make.image), &action.id.0);
            }
        }
        for image in &self.plan.images {
            if needed.remove(&(&image.place, &image.image)).is_none() {
                say(format!("image {} is brought to {} and nothing needs it there", image.image.key, image.place));
            }
        }
        for ((place, image), id) in needed {
            say(format!("{id}: image {} is not on {place} and is not brought there", image.key));
        }
    }

    fn deletions(&self) -> impl Iterator<Item = &'a Action> {
        self.plan.actions.iter().filter(|action| matches!(action.kind, ActionKind::Delete { .. }))
    }
}
