//! The planner: one pass over what is wanted, one over what nobody wants, then selection and the
//! guards.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::change::{HostSummary, ImageAction, Plan};
use super::desired::Desired;
use super::draft::Draft;
use super::name::ProxyKey;
use super::observed::{HostState, HostView, Observed};
use super::policy::Policy;
use super::units::count;

/// Proxies that a note names before it counts the rest.
const NAMED: usize = 5;

/// Compares what is wanted with what was seen. The same input always gives the same plan, byte for
/// byte, whatever the order of manifests and listings was.
#[must_use]
pub fn plan(desired: &Desired, observed: &Observed, policy: &Policy, now: Timestamp) -> Plan {
    let mut draft = Draft::new(desired, observed, policy, now);
    draft.plan_wanted();
    draft.plan_orphans();
    draft.tell_of_blocked();
    draft.withhold();
    draft.take_notes();
    let refusals = draft.refusals();
    let images = draft.images().into_iter().collect();
    let Draft { mut actions, mut held, unchanged, notes, .. } = draft;
    actions.sort_by(|a, b| (&a.place, &a.key, &a.id).cmp(&(&b.place, &b.key, &b.id)));
    held.sort_by(|a, b| (&a.place, &a.key, &a.instance, a.reason).cmp(&(&b.place, &b.key, &b.instance, b.reason)));
    Plan {
        format: Plan::FORMAT.to_owned(),
        fleet: desired.fleet.clone(),
        made_at: now,
        recorded: desired.hosts.values().any(|host| host.recorded),
        hosts: observed.hosts.iter().map(|(place, state)| (place.clone(), summary(state))).collect(),
        images,
        actions,
        held,
        unchanged: unchanged.into_iter().collect(),
        notes: notes.into_iter().collect(),
        refusals,
    }
}

impl Draft<'_> {
    /// Base images that an action needs and its host lacks.
    fn images(&self) -> BTreeSet<ImageAction> {
        let lacks = |view: &HostView, image| view.image(image).is_none();
        self.actions
            .iter()
            .filter_map(|action| {
                let image = &action.kind.make()?.image;
                match self.observed.hosts.get(&action.place) {
                    Some(HostState::Known(view)) if lacks(view, image) => {
                        Some(ImageAction { place: action.place.clone(), image: image.clone() })
                    }
                    _ => None,
                }
            })
            .collect()
    }

    /// What nobody needs to act on and somebody may want to know (L22).
    fn take_notes(&mut self) {
        if self.desired.broke_off() {
            self.notes.insert("the list of proxies is not whole, so nothing is deleted".to_owned());
        }
        for (place, view) in self.views() {
            for (stranger, name) in &view.strangers {
                self.notes.insert(format!(
                    "{name} on {place} is of this fleet, for {stranger}, which the config does not have; it is left as it is"
                ));
            }
        }
        for (place, names) in &self.policy.previously {
            if !self.desired.has_host(place) && !names.is_empty() {
                self.notes.insert(format!(
                    "{place} had {} before and is not in the config any more; nobody looks after them (retired: true is the way to take a host out)",
                    count(names.len(), "machine")
                ));
            }
        }
        for (what, keys) in &self.outdated {
            let named: Vec<String> = keys.iter().take(NAMED).map(ToString::to_string).collect();
            let more = match keys.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            self.notes.insert(format!(
                "the config has changed for {}{more}: {what}; what runs is left as it is (policy.onCatalogueChange: ignore)",
                named.join(", ")
            ));
        }
        let nowhere: Vec<&ProxyKey> = self.policy.replace.iter().filter(|key| self.wanted(key).is_none()).collect();
        for key in nowhere {
            self.notes.insert(format!("{key} is to be replaced, and no machine is wanted for it"));
        }
    }
}

fn summary(state: &HostState) -> HostSummary {
    match state {
        HostState::Unknown(trouble) => HostSummary::Unknown(trouble.clone()),
        HostState::Known(view) => {
            let mut leftovers = view.leftovers.clone();
            leftovers.sort();
            HostSummary::Known {
                software: view.software.clone(),
                store: view.store.name.clone(),
                available_bytes: view.store.available,
                ours: view.instances.iter().filter(|instance| instance.mark().is_some()).count(),
                others: view.others,
                leftovers,
                lock: view.lock.clone(),
            }
        }
    }
}
