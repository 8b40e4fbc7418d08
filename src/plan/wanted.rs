//! What becomes of each proxy that is wanted: whether there is a machine for it, and if not,
//! whether one may be made.

use super::change::ActionKind;
use super::desired::{Managed, Mode, Proxy, Resolved};
use super::draft::{Draft, action, id, make};
use super::hold::{Hold, usable_store};
use super::name::{HostRef, ProxyKey};
use super::observed::{HostState, HostView, Instance, Standing};
use super::reason::Reason;
use super::units::exact;

/// One wanted machine and where it goes.
pub(super) struct Wanted<'a> {
    pub key: &'a ProxyKey,
    pub managed: &'a Managed,
    pub place: &'a HostRef,
    pub view: &'a HostView,
    pub resolved: &'a Resolved,
}

impl<'a> Draft<'a> {
    pub fn plan_wanted(&mut self) {
        let desired = self.desired;
        for proxy in desired.proxies.values() {
            if let Mode::Managed(managed) = &proxy.mode {
                self.plan_proxy(proxy, managed);
            }
        }
    }

    fn plan_proxy(&mut self, proxy: &'a Proxy, managed: &'a Managed) {
        let key = &proxy.key;
        let wanted = match self.locate(key, managed) {
            Ok(wanted) => wanted,
            Err(hold) => return self.hold(&managed.place, Some(key), None, hold),
        };
        if let Some(machine) = self.realises(key) {
            self.plan_existing(&wanted, machine);
        } else if !self.in_the_way(&wanted) {
            self.plan_absent(&wanted);
        }
    }

    /// Finds the host and what the config made of the manifest.
    fn locate(&self, key: &'a ProxyKey, managed: &'a Managed) -> Result<Wanted<'a>, Hold> {
        let place = &managed.place;
        let resolved = managed.resolved.as_ref().map_err(|problem| {
            Hold::blocked(Reason::Unresolved, problem.clone()).hint("correct the manifest or the config")
        })?;
        let Some(settings) = self.desired.hosts.get(place) else {
            return Err(Hold::blocked(Reason::Unresolved, format!("{place} is not a host of the config"))
                .hint("add the host to the config, or give the manifest another placement.zone"));
        };
        if settings.retired {
            return Err(Hold::blocked(Reason::Unresolved, format!("{place} is retired and takes no machines"))
                .hint("give the manifest another placement.zone"));
        }
        match self.observed.hosts.get(place) {
            Some(HostState::Known(view)) => Ok(Wanted { key, managed, place, view, resolved }),
            // Why it is unknown is told once, of the host.
            Some(HostState::Unknown(_)) => Err(Hold::waiting(Reason::HostUnknown, format!("{place} is unknown"))),
            None => Err(Hold::waiting(Reason::HostUnknown, format!("{place} was not looked at"))),
        }
    }

    /// Whether a machine that nobody touches stands where the wanted one would be built: no twin is
    /// built beside it. It is told of where blocked machines are, once.
    ///
    /// On another host, one is in the way when the two would meet on the network: they have one
    /// name, and so one MAC address, or one static address.
    fn in_the_way(&self, wanted: &Wanted<'a>) -> bool {
        let meets = |place: &HostRef, instance: &Instance| {
            let Standing::Blocked { key, .. } = &instance.standing else { return false };
            let named = instance.name == wanted.resolved.instance;
            let marked = key.as_ref() == Some(wanted.key);
            if place == wanted.place {
                named || marked
            } else {
                named || marked && wanted.managed.spec.network.is_some()
            }
        };
        self.views().any(|(place, view)| view.instances.iter().any(|instance| meets(place, instance)))
    }

    fn plan_absent(&mut self, wanted: &Wanted<'a>) {
        let (key, place, name) = (wanted.key, wanted.place, &wanted.resolved.instance);
        if let Err(hold) = self.name_free(wanted) {
            return self.hold(place, Some(key), Some(name), hold);
        }
        let after = match self.may_create(wanted) {
            Ok(after) => after,
            Err(hold) => return self.hold(place, Some(key), None, hold),
        };
        let why = match self.machines_of(key).first() {
            Some(former) => format!("moves here from {}: {}", former.place, wanted.resolved.summary),
            None => wanted.resolved.summary.clone(),
        };
        let mut create = action(place, key, name, ActionKind::Create { make: make(wanted.resolved) }, why);
        create.details.extend(fetches(wanted));
        create.details.extend(takes_over_addresses(&after));
        self.act(create);
        for deletion in after {
            self.order(deletion, &id("create", key, place));
        }
    }

    fn may_create(&mut self, wanted: &Wanted<'a>) -> Result<Vec<super::change::ActionId>, Hold> {
        usable_store(wanted.view)?;
        let after = self.addresses_free(wanted, None)?;
        overlay_fits(wanted)?;
        self.take_room_for_new(wanted.place, wanted.view, wanted.resolved)?;
        Ok(after)
    }

    /// Whether the name of the machine to be made is free on its host.
    pub fn name_free(&self, wanted: &Wanted<'a>) -> Result<(), Hold> {
        let name = &wanted.resolved.instance;
        let taken = |instance: &Instance| instance.name == *name && instance.mark().is_none();
        if !wanted.view.names_taken.contains(name) && !wanted.view.instances.iter().any(taken) {
            return Ok(());
        }
        let console = self.console(wanted.place);
        Err(Hold::blocked(Reason::NameTaken, format!("a machine named {name} is there without our mark"))
            .hint(format!("find out whose it is, then rename or remove it by hand: {console} dumpxml {name}")))
    }
}

/// Holds what would be shorter than the image that it starts from (L29, R13).
pub(super) fn overlay_fits(wanted: &Wanted<'_>) -> Result<(), Hold> {
    let (disk, image) = (wanted.resolved.disk_bytes, &wanted.resolved.image);
    match wanted.view.image(image).and_then(|image| image.virtual_bytes) {
        Some(base) if base > disk => Err(Hold::blocked(
            Reason::OverlayTooShort,
            format!("its disk ({}) would be shorter than the image {} ({})", exact(disk), image.key, exact(base)),
        )
        .hint("raise diskSizeGb in the config")),
        _ => Ok(()),
    }
}

/// The line that tells of deletions that come first, so that no two machines have one address.
pub(super) fn takes_over_addresses(after: &[super::change::ActionId]) -> Option<String> {
    let names: Vec<&str> = after.iter().map(|id| id.0.as_str()).collect();
    (!names.is_empty()).then(|| format!("after its static address is free: {}", names.join(", ")))
}

/// The line that tells of an image to be fetched.
pub(super) fn fetches(wanted: &Wanted<'_>) -> Option<String> {
    let image = &wanted.resolved.image;
    wanted.view.image(image).is_none().then(|| format!("{} is not on this host and will be fetched", image.key))
}
