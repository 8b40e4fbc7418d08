//! What an action says of its machine is what was seen, and what may be done with such a machine.

use super::Inputs;
use crate::plan::change::{Action, ActionKind, Expect};
use crate::plan::desired::Managed;
use crate::plan::hold::may_touch;
use crate::plan::observed::{HostView, Instance, Mark, MarkState, Power};

impl Inputs<'_> {
    pub(super) fn machine(&self, action: &Action, view: &HostView, say: &mut impl FnMut(String)) {
        let id = &action.id.0;
        if !view.store.active && !matches!(action.kind, ActionKind::Update { .. }) {
            say(format!("{id}: {} is not running", view.store.name));
        }
        let wanted = self.wanted_at(&action.key, &action.place);
        if let Some(make) = action.kind.make() {
            match wanted.and_then(|managed| managed.resolved.as_ref().ok()) {
                None => say(format!("{id}: no machine is wanted there")),
                Some(resolved) => {
                    if resolved.spec.hash != make.spec || resolved.catalogue.hash != make.catalogue {
                        say(format!("{id}: what it makes is not what is wanted"));
                    }
                    let base = view.image(&make.image).and_then(|image| image.virtual_bytes);
                    if base.is_some_and(|base| base > make.disk_bytes) {
                        say(format!("{id}: its disk is shorter than its image"));
                    }
                    if view.names_taken.contains(&resolved.instance) {
                        say(format!("{id}: a machine without our mark is named {}", resolved.instance));
                    }
                }
            }
        }
        let there = self.there(action);
        let Some(expect) = action.kind.expect() else {
            if there.is_some() {
                say(format!("{id}: a machine of that name is there"));
            }
            return;
        };
        match there.and_then(|instance| Some((instance, instance.mark()?))) {
            Some((instance, mark)) => self.existing(action, expect, instance, mark, wanted, say),
            None => say(format!("{id}: no machine of ours of that name was seen")),
        }
    }

    fn existing(
        &self,
        action: &Action,
        expect: &Expect,
        instance: &Instance,
        mark: &Mark,
        wanted: Option<&Managed>,
        say: &mut impl FnMut(String),
    ) {
        let id = &action.id.0;
        if mark.proxy != action.key {
            say(format!("{id}: the machine is {}'s", mark.proxy));
        }
        let seen = Expect {
            uuid: instance.uuid.clone(),
            spec: mark.spec.hash.clone(),
            catalogue: mark.catalogue.hash.clone(),
            protect: mark.protect,
            source: mark.source.clone(),
        };
        if *expect != seen {
            say(format!("{id}: what it expects is not what was seen"));
        }
        let forced = match action.kind {
            ActionKind::Replace { forced, .. } | ActionKind::Delete { forced, .. } => forced,
            _ => false,
        };
        if forced && !self.policy.destroy && !self.policy.replace.contains(&action.key) {
            say(format!("{id}: forced, and nobody asked for it"));
        }
        if !may_touch(&instance.power, forced) {
            say(format!("{id}: the machine is {:?}", instance.power));
        }
        match &action.kind {
            ActionKind::Create { .. } => {}
            ActionKind::Start { .. } => {
                if !matches!(instance.power, Power::Off(_)) || !instance.missing_disks.is_empty() {
                    say(format!("{id}: it is not off with its disks there"));
                }
                stays(id, mark, wanted, say);
            }
            ActionKind::Update { .. } => stays(id, mark, wanted, say),
            ActionKind::Replace { removes, .. } => {
                goes(id, removes, instance, say);
                if mark.state == MarkState::Ready && wanted.is_some_and(|managed| managed.protect) {
                    say(format!("{id}: it is protected"));
                }
            }
            ActionKind::Delete { removes, .. } => {
                goes(id, removes, instance, say);
                self.may_be_deleted(action, instance, mark, wanted, say);
            }
        }
    }

    fn may_be_deleted(
        &self,
        action: &Action,
        instance: &Instance,
        mark: &Mark,
        wanted: Option<&Managed>,
        say: &mut impl FnMut(String),
    ) {
        let id = &action.id.0;
        if wanted.is_some() && !self.has_twin(action, instance) {
            say(format!("{id}: it is wanted there"));
        }
        if mark.protect {
            say(format!("{id}: it is protected"));
        }
        if mark.source != self.desired.source && !self.policy.take_over {
            say(format!("{id}: another source made it"));
        }
        if self.policy.destroy {
            return;
        }
        if !self.policy.prune {
            say(format!("{id}: prune is off"));
        }
        let lived = self.plan.made_at.duration_since(mark.created_at).as_secs().max(0);
        if mark.state == MarkState::Ready && lived < self.policy.min_age.as_secs() {
            say(format!("{id}: it is too young"));
        }
    }

    /// Whether another machine of ours on the host realises the same proxy.
    fn has_twin(&self, action: &Action, instance: &Instance) -> bool {
        let twin =
            |other: &Instance| other.uuid != instance.uuid && other.mark().is_some_and(|mark| mark.proxy == action.key);
        let leaves =
            |other: &Instance| self.deletions().any(|it| it.place == action.place && it.instance == other.name);
        self.view(&action.place).is_some_and(|view| view.instances.iter().any(|other| twin(other) && !leaves(other)))
    }
}

fn stays(id: &str, mark: &Mark, wanted: Option<&Managed>, say: &mut impl FnMut(String)) {
    if wanted.is_none() || mark.state != MarkState::Ready {
        say(format!("{id}: it is not a finished machine that is wanted there"));
    }
}

fn goes(id: &str, removes: &[String], instance: &Instance, say: &mut impl FnMut(String)) {
    let mut seen = instance.removes.clone();
    seen.sort();
    if seen != removes {
        say(format!("{id}: what it removes is not what was seen"));
    }
}
