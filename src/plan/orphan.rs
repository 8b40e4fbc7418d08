//! What becomes of machines that nobody wants where they are, and of those that nobody touches.

use std::collections::BTreeSet;

use super::change::{ActionId, ActionKind};
use super::desired::Mode;
use super::draft::{Draft, Machine, action, expect, in_order, sorted};
use super::hold::{Hold, not_in_progress, touchable, usable_store};
use super::name::ProxyKey;
use super::observed::{MarkState, Power, Standing};
use super::reason::Reason;
use super::units::age;

/// The other half of a move: the action that makes the new machine.
enum Half {
    /// It comes before the old machine goes.
    First(ActionId),
    /// It comes after, since the two would have one static address.
    Second(ActionId),
}

impl<'a> Draft<'a> {
    pub fn plan_orphans(&mut self) {
        let orphans: Vec<Machine<'a>> = self.ours().filter(|machine| self.is_orphan(machine)).collect();
        for machine in orphans {
            match self.releasable(&machine).and_then(|()| self.succeeded(&machine)) {
                Ok(other) => self.delete(&machine, other),
                Err(hold) => {
                    self.hold(machine.place, Some(&machine.mark.proxy), Some(&machine.instance.name), hold);
                }
            }
        }
    }

    fn delete(&mut self, machine: &Machine<'a>, other: Option<Half>) {
        let instance = machine.instance;
        let removes = sorted(&instance.removes);
        let mut details = if removes.is_empty() { Vec::new() } else { vec![format!("removes {}", removes.join(", "))] };
        if let (Some(Half::First(_)), Some((_, managed))) = (&other, self.wanted(&machine.mark.proxy)) {
            details.push(format!("after the new one runs on {}", managed.place));
        }
        let kind = ActionKind::Delete { expect: expect(machine), removes, forced: self.policy.destroy };
        let lived = age(self.now.duration_since(machine.mark.created_at).as_secs());
        let why = format!("{}, {lived} old", self.why_orphan(machine));
        let id = self.deletion_of(machine);
        let delete = action(machine.place, &machine.mark.proxy, &instance.name, kind, why);
        self.act(super::change::Action { id: id.clone(), details, ..delete });
        match other {
            Some(Half::First(make)) => self.order(make, &id),
            Some(Half::Second(make)) => {
                self.followers.insert(id, make);
            }
            None => {}
        }
    }

    fn why_orphan(&self, machine: &Machine<'a>) -> String {
        let key = &machine.mark.proxy;
        match self.wanted(key) {
            Some((_, managed)) if managed.place != *machine.place => format!("{key} moves to {}", managed.place),
            Some(_) if self.retired(machine.place) => "the host is retired".to_owned(),
            Some(_) => format!("another machine on this host realises {key}"),
            None if self.policy.destroy => "everything is to go".to_owned(),
            None if self.desired.proxies.contains_key(key) => "no machine is wanted for it any more".to_owned(),
            None if machine.mark.state != MarkState::Ready => {
                "no manifest wants it, and an interrupted run left it unfinished".to_owned()
            }
            None => "no manifest wants it".to_owned(),
        }
    }

    /// Whether an orphan may be deleted in this run, as far as it alone decides.
    pub fn releasable(&self, machine: &Machine<'a>) -> Result<(), Hold> {
        let (mark, policy) = (machine.mark, self.policy);
        if mark.source != self.desired.source && !policy.take_over {
            return Err(Hold::blocked(Reason::OtherSource, "not wanted, and another source of manifests made it")
                .hint("run from that source, or pass --take-over once if this one replaces it"));
        }
        let listed = |namespaces: &BTreeSet<String>| namespaces.contains(mark.proxy.namespace());
        if !policy.destroy && !self.desired.namespaces.as_ref().is_none_or(listed) {
            let message = "its namespace was not listed, so nobody knows whether it is wanted";
            return Err(Hold::kept(Reason::NamespaceNotListed, message));
        }
        let protected = mark.protect || self.wanted(&mark.proxy).is_some_and(|(_, managed)| managed.protect);
        if protected {
            return Err(Hold::kept(Reason::Protected, "not wanted, and protected").hint(format!(
                "to have it deleted, apply its manifest once with protect: false and placement on {}",
                machine.place
            )));
        }
        if !policy.prune && !policy.destroy {
            return Err(Hold::kept(Reason::PruneDisabled, "not wanted; left as it is, since policy.prune is off"));
        }
        let finished = mark.state == MarkState::Ready;
        if !finished {
            not_in_progress(machine.view)?;
        }
        let instance = machine.instance;
        touchable(&instance.power, policy.destroy, self.console(machine.place), &instance.name)?;
        if finished && !policy.destroy {
            self.old_enough(machine)?;
        }
        usable_store(machine.view)
    }

    fn old_enough(&self, machine: &Machine<'a>) -> Result<(), Hold> {
        let min_age = self.policy.min_age.as_secs();
        let lived = self.now.duration_since(machine.mark.created_at).as_secs();
        // A time stamp of the future counts as now (L20).
        if lived.max(0) >= min_age {
            return Ok(());
        }
        let message = format!("not wanted; it is {} old and goes when it is {} old", age(lived), age(min_age));
        let hold = Hold::waiting(Reason::TooYoung, message);
        if lived >= -min_age {
            return Err(hold);
        }
        // No clock is that far ahead by honest drift: without a word it would wait until then.
        Err(hold.hint(format!(
            "its mark says that it was made at {}, which is still to come; run once with policy.minAge: 0s to have it deleted",
            machine.mark.created_at
        )))
    }

    /// For a machine that has a successor: the action that makes it, if one does. With a static
    /// address the old one goes first, but only when the new one follows in the same run.
    fn succeeded(&self, machine: &Machine<'a>) -> Result<Option<Half>, Hold> {
        let key = &machine.mark.proxy;
        let Some((_, managed)) = self.wanted(key) else { return Ok(None) };
        let to = &managed.place;
        if to == machine.place && self.retired(to) {
            return Ok(None);
        }
        if let Some(making) = self.making(key, to) {
            let half = if managed.spec.network.is_some() { Half::Second } else { Half::First };
            return Ok(Some(half(making.clone())));
        }
        let serves = |other: Machine<'a>| {
            other.mark.state == MarkState::Ready && other.instance.power == Power::Running && !other.is(machine)
        };
        if !self.retired(to) && self.realises(key).is_some_and(serves) {
            return Ok(None);
        }
        Err(Hold::waiting(Reason::WaitsForOther, format!("it goes when its successor runs on {to}")))
    }

    /// Tells of machines that bear our fleet's mark and are not ours.
    pub fn tell_of_blocked(&mut self) {
        for (place, view) in self.views() {
            for instance in in_order(view) {
                let Standing::Blocked { key, reason, message } = &instance.standing else { continue };
                let key = key.clone().or_else(|| self.named(&instance.name));
                let console = self.console(place);
                let hold = Hold::blocked(*reason, message.clone())
                    .hint(format!("nothing is done with it; to look at it: {console} dumpxml {}", instance.name));
                self.hold(place, key.as_ref(), Some(&instance.name), hold);
            }
        }
    }

    /// The proxy whose machine would have this name: names are derived from key and host.
    fn named(&self, name: &str) -> Option<ProxyKey> {
        self.desired.proxies.values().find_map(|proxy| match &proxy.mode {
            Mode::Managed(managed) => {
                managed.resolved.as_ref().ok().filter(|resolved| resolved.instance == name).map(|_| proxy.key.clone())
            }
            Mode::External { .. } => None,
        })
    }
}
