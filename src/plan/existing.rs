//! What becomes of a wanted proxy whose machine is there: made anew, started, its mark changed, or
//! nothing.

use super::change::{ActionId, ActionKind, MarkUpdate};
use super::draft::{Draft, Machine, action, expect, id, make, sorted};
use super::fingerprint::Fingerprint;
use super::hold::{Hold, may_touch, not_in_progress, touchable, usable_store};
use super::observed::{Address, Instance, Mark, MarkState, Power};
use super::policy::OnCatalogueChange;
use super::reason::Reason;
use super::units::age;
use super::wanted::{Wanted, fetches, overlay_fits, takes_over_addresses};

impl<'a> Draft<'a> {
    pub fn plan_existing(&mut self, wanted: &Wanted<'a>, machine: Machine<'a>) {
        let asked = self.policy.replace.contains(wanted.key);
        let ready = machine.mark.state == MarkState::Ready;
        if let Err(hold) = self.may_judge(wanted, &machine, asked) {
            return self.hold_machine(wanted, &machine, hold);
        }
        let why = if ready {
            self.replace_reason(wanted, &machine, asked)
        } else {
            Some("an interrupted run left it unfinished".to_owned())
        };
        let Some(why) = why else { return self.keep(wanted, &machine) };
        // What was never in service is not protected: it could never be finished otherwise.
        let protected = ready && wanted.managed.protect;
        let hold = if protected {
            Hold::kept(Reason::Protected, format!("protected, so it is not replaced: {why}"))
                .hint("to have it replaced, set protect: false in its manifest")
        } else {
            match self.may_replace(wanted, &machine) {
                Ok(after) => return self.replace(wanted, &machine, why, asked, after),
                Err(hold) => hold,
            }
        };
        self.hold_machine(wanted, &machine, hold);
        // What stays is looked after, unless only the replacement was allowed to touch it.
        let off = matches!(machine.instance.power, Power::Off(_));
        if !ready || !may_touch(&machine.instance.power, false) {
            return;
        }
        if off && protected && machine.instance.missing_disks.is_empty() {
            self.keep(wanted, &machine);
        } else if !machine.instance.transient {
            self.update(wanted, &machine);
        }
    }

    fn hold_machine(&mut self, wanted: &Wanted<'a>, machine: &Machine<'a>, hold: Hold) {
        self.hold(wanted.place, Some(wanted.key), Some(&machine.instance.name), hold);
    }

    /// Whether the machine is in a state in which anything may be said of it.
    fn may_judge(&self, wanted: &Wanted<'a>, machine: &Machine<'a>, asked: bool) -> Result<(), Hold> {
        let mark = machine.mark;
        let newer = |is: &Fingerprint, known: &Fingerprint| is.version > known.version;
        if newer(&mark.spec, &wanted.resolved.spec) || newer(&mark.catalogue, &wanted.resolved.catalogue) {
            return Err(Hold::blocked(Reason::NewerTool, format!("version {} of this program made it", mark.tool))
                .hint("use that version or a later one"));
        }
        if mark.state != MarkState::Ready {
            not_in_progress(wanted.view)?;
        }
        touchable(&machine.instance.power, asked, self.console(wanted.place), &machine.instance.name)
    }

    /// Why a machine must be made anew, if it must. A changed catalogue that is to be ignored is
    /// noted in passing.
    fn replace_reason(&mut self, wanted: &Wanted<'a>, machine: &Machine<'a>, asked: bool) -> Option<String> {
        let (mark, resolved) = (machine.mark, wanted.resolved);
        if asked {
            return Some("asked for by name".to_owned());
        }
        if mark.spec.differs(&resolved.spec) {
            return Some(changed(&mark.spec, &resolved.spec, "the manifest"));
        }
        if !machine.instance.missing_disks.is_empty() {
            return Some(format!("its disk is gone: {}", sorted(&machine.instance.missing_disks).join(", ")));
        }
        if !mark.catalogue.differs(&resolved.catalogue) {
            return None;
        }
        let what = changed(&mark.catalogue, &resolved.catalogue, "the config");
        match self.policy.on_catalogue_change {
            OnCatalogueChange::Replace => Some(format!("the config resolves it anew: {what}")),
            OnCatalogueChange::Ignore => {
                self.outdated.entry(what).or_default().push(wanted.key);
                None
            }
        }
    }

    /// Whether a machine may be made anew, and what must be deleted before. Asked before anything is
    /// deleted: what cannot be made again is left running.
    fn may_replace(&mut self, wanted: &Wanted<'a>, machine: &Machine<'a>) -> Result<Vec<ActionId>, Hold> {
        usable_store(wanted.view)?;
        self.name_free(wanted)?;
        let after = self.addresses_free(wanted, Some(machine))?;
        overlay_fits(wanted)?;
        self.take_room_for_replacement(machine, wanted.resolved)?;
        Ok(after)
    }

    fn replace(&mut self, wanted: &Wanted<'a>, machine: &Machine<'a>, why: String, forced: bool, after: Vec<ActionId>) {
        let instance = machine.instance;
        let removes = sorted(&instance.removes);
        let unfinished = machine.mark.state == MarkState::Creating;
        let make = make(wanted.resolved);
        let kind = ActionKind::Replace { expect: expect(machine), removes, make, forced, unfinished };
        let mut replace = action(wanted.place, wanted.key, &instance.name, kind, why);
        replace.details.push(self.biography(instance, machine.mark));
        if instance.name != wanted.resolved.instance {
            replace.details.push(format!("the new one is named {}", wanted.resolved.instance));
        }
        replace.details.extend(fetches(wanted));
        replace.details.extend(takes_over_addresses(&after));
        self.act(replace);
        for deletion in after {
            self.order(deletion, &id("replace", wanted.key, wanted.place));
        }
    }

    /// Starts a machine that is off; else brings its mark up to date.
    fn keep(&mut self, wanted: &Wanted<'a>, machine: &Machine<'a>) {
        let instance = machine.instance;
        if instance.transient {
            // Its mark cannot be written to a configuration that it does not have.
            let console = self.console(wanted.place);
            let hold = Hold::kept(
                Reason::NotPersistent,
                "it runs, and is not defined on the host any more: it is gone once it stops",
            )
            .hint(format!(
                "to define it again: {console} dumpxml {name} > {name}.xml && {console} define {name}.xml",
                name = instance.name
            ));
            return self.hold_machine(wanted, machine, hold);
        }
        let Power::Off(cause) = &instance.power else { return self.update(wanted, machine) };
        let after = match usable_store(wanted.view).and_then(|()| self.addresses_free(wanted, Some(machine))) {
            Ok(after) => after,
            Err(hold) => return self.hold_machine(wanted, machine, hold),
        };
        let set = self.mark_update(wanted.managed, wanted.resolved, machine.mark);
        let fields = changed_fields(machine.mark, &set);
        let kind = ActionKind::Start { expect: expect(machine), set };
        let mut start = action(wanted.place, wanted.key, &instance.name, kind, format!("it is off ({cause})"));
        if !fields.is_empty() {
            start.details.push(format!("changed in passing: {}", fields.join(", ")));
        }
        start.details.extend(takes_over_addresses(&after));
        self.act(start);
        for deletion in after {
            self.order(deletion, &id("start", wanted.key, wanted.place));
        }
    }

    fn update(&mut self, wanted: &Wanted<'a>, machine: &Machine<'a>) {
        let mark = machine.mark;
        let set = self.mark_update(wanted.managed, wanted.resolved, mark);
        let fields = changed_fields(mark, &set);
        let told = self.held.last().is_some_and(|held| held.key.as_ref() == Some(wanted.key));
        if fields.is_empty() {
            if !told {
                self.unchanged.insert(wanted.key.clone());
            }
            return;
        }
        // A mark needs no store, but the lock under which it is written does.
        if let Err(hold) = usable_store(wanted.view) {
            if !told {
                self.hold_machine(wanted, machine, hold);
            }
            return;
        }
        let kind = ActionKind::Update { expect: expect(machine), set };
        let why = format!("changed in place: {}", fields.join(", "));
        self.act(action(wanted.place, wanted.key, &machine.instance.name, kind, why));
    }

    /// `egress-crawl-2-k3v9q1xz, running for 3 days at 192.0.2.18`.
    fn biography(&self, instance: &Instance, mark: &Mark) -> String {
        let since = |then| age(self.now.duration_since(then).as_secs());
        let state = match (&instance.power, mark.started_at) {
            (Power::Running, Some(started)) => format!("running for {}", since(started)),
            (Power::Running, None) => format!("running, made {} ago", since(mark.created_at)),
            (power, _) => format!("{}, made {} ago", word(power), since(mark.created_at)),
        };
        let at = match &instance.address {
            Address::Known(addresses) => addresses.first().map(|address| format!(" at {address}")),
            Address::NotAsked | Address::Unknown(_) => None,
        };
        format!("{}, {state}{}", instance.name, at.unwrap_or_default())
    }
}

/// The fields of a mark that change in place, for people.
fn changed_fields(mark: &Mark, set: &MarkUpdate) -> Vec<String> {
    let fields = [
        (mark.port != set.port).then(|| format!("port {} → {}", mark.port, set.port)),
        (mark.protect != set.protect).then(|| format!("protect {} → {}", mark.protect, set.protect)),
        (mark.labels != set.labels).then(|| "labels".to_owned()),
        (mark.source != set.source).then(|| "source of manifests".to_owned()),
    ];
    fields.into_iter().flatten().collect()
}

fn word(power: &Power) -> &'static str {
    match power {
        Power::Running => "running",
        Power::ShuttingDown => "shutting down",
        Power::Off(_) => "off",
        Power::Saved => "saved",
        Power::Paused { .. } => "paused",
        Power::InTransition(_) => "between two states",
        Power::Unknown(_) => "in an unknown state",
    }
}

/// `user-data changed (4f1c9a2e → 90ab77d1)`, or that something did, where the parts do not say.
fn changed(is: &Fingerprint, wanted: &Fingerprint, whole: &str) -> String {
    let parts: Vec<String> = is
        .changes(wanted)
        .iter()
        .filter(|change| is.version == wanted.version || (change.is.is_some() && change.wanted.is_some()))
        .map(|change| {
            format!("{} changed ({} → {})", change.name, change.is.unwrap_or("none"), change.wanted.unwrap_or("none"))
        })
        .collect();
    if parts.is_empty() { format!("{whole} changed") } else { parts.join(", ") }
}
