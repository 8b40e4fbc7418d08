//! What waits for what: never for nothing, never in a circle, and never two machines on one
//! address.

use std::collections::{BTreeMap, BTreeSet};

use super::Inputs;
use crate::plan::change::{ActionId, ActionKind, Plan};

impl Inputs<'_> {
    pub(super) fn order(&self, say: &mut impl FnMut(String)) {
        let ids: BTreeSet<&ActionId> = self.plan.actions.iter().map(|action| &action.id).collect();
        for action in &self.plan.actions {
            for before in action.after.iter().filter(|before| !ids.contains(before)) {
                say(format!("{}: waits for {}, which is not planned", action.id.0, before.0));
            }
        }
        if has_cycle(self.plan) {
            say("actions wait for each other in a circle".to_owned());
        }
        self.moves(say);
        self.static_addresses(say);
    }

    /// A machine that moves goes when its successor runs, or, with a static address, is followed by
    /// it.
    fn moves(&self, say: &mut impl FnMut(String)) {
        for deletion in self.deletions() {
            let id = &deletion.id.0;
            let Some(managed) = self.managed(&deletion.key) else { continue };
            let makes = self.plan.actions.iter().find(|action| {
                action.key == deletion.key
                    && action.place == managed.place
                    && !matches!(action.kind, ActionKind::Delete { .. } | ActionKind::Update { .. })
            });
            let ordered = match makes {
                Some(make) if managed.spec.network.is_some() => make.after.contains(&deletion.id),
                Some(make) => deletion.after.contains(&make.id),
                None => true,
            };
            if !ordered {
                say(format!("{id}: the two halves of the move are not in order"));
            }
            if makes.is_none()
                && !self.serves_elsewhere(deletion)
                && self.wanted_at(&deletion.key, &managed.place).is_some()
            {
                say(format!("{id}: its successor is not there"));
            }
        }
    }

    fn serves_elsewhere(&self, deletion: &crate::plan::change::Action) -> bool {
        let Some(managed) = self.managed(&deletion.key) else { return false };
        self.view(&managed.place).is_some_and(|view| {
            view.instances.iter().any(|other| {
                let is_it = managed.place == deletion.place && other.name == deletion.instance;
                let ours = other.mark().is_some_and(|mark| mark.proxy == deletion.key);
                ours && !is_it && other.power == crate::plan::observed::Power::Running
            })
        })
    }

    /// No machine with a static address is created while a host is unknown, and none while another
    /// of the same proxy stays.
    fn static_addresses(&self, say: &mut impl FnMut(String)) {
        let unknown = self.desired.hosts.keys().find(|place| self.view(place).is_none());
        for action in &self.plan.actions {
            let id = &action.id.0;
            let is_static = self.managed(&action.key).is_some_and(|managed| managed.spec.network.is_some());
            if !is_static || !matches!(action.kind, ActionKind::Create { .. }) {
                continue;
            }
            if let Some(place) = unknown {
                say(format!("{id}: its static address may be in use on {place}, which is unknown"));
            }
            for (place, instance) in self.machines_of(&action.key) {
                let goes = self
                    .deletions()
                    .any(|it| it.place == *place && it.instance == instance && action.after.contains(&it.id));
                if !goes {
                    say(format!("{id}: {instance} on {place} still has its static address"));
                }
            }
        }
    }

    fn machines_of(&self, key: &crate::plan::ProxyKey) -> Vec<(&crate::plan::HostRef, &str)> {
        let mut machines = Vec::new();
        for place in self.observed.hosts.keys() {
            for instance in self.view(place).into_iter().flat_map(|view| &view.instances) {
                if instance.mark().is_some_and(|mark| mark.proxy == *key) {
                    machines.push((place, instance.name.as_str()));
                }
            }
        }
        machines
    }
}

fn has_cycle(plan: &Plan) -> bool {
    let ids: BTreeSet<&ActionId> = plan.actions.iter().map(|action| &action.id).collect();
    let mut waits: BTreeMap<&ActionId, Vec<&ActionId>> = plan
        .actions
        .iter()
        .map(|action| (&action.id, action.after.iter().filter(|before| ids.contains(before)).collect()))
        .collect();
    loop {
        let free: Vec<&ActionId> = waits
            .iter()
            .filter(|(_, before)| before.iter().all(|id| !waits.contains_key(id)))
            .map(|(id, _)| *id)
            .collect();
        if free.is_empty() {
            return !waits.is_empty();
        }
        for id in free {
            waits.remove(id);
        }
    }
}
