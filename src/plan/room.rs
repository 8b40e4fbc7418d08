//! Room on a host: bytes and machines that may still be planned there.

use std::collections::BTreeSet;

use super::desired::{HostSettings, Resolved};
use super::draft::{Draft, Machine};
use super::hold::Hold;
use super::name::HostRef;
use super::observed::{HostView, Store};
use super::reason::Reason;
use super::units::{count, gib};

/// Bytes set aside for a seed: an ISO image with at most 1 MiB of user-data, vendor-data and its
/// tables.
pub(super) const SEED_BYTES: u64 = 4 << 20;

/// What may still be planned on a host.
pub(super) struct Room<'a> {
    bytes: u64,
    machines: Option<u32>,
    /// Images that room is set aside for already, by id.
    images: BTreeSet<&'a str>,
}

impl Room<'_> {
    pub fn of(view: &HostView, settings: Option<&HostSettings>) -> Self {
        let used = u32::try_from(view.instances.len()).unwrap_or(u32::MAX);
        Self {
            bytes: spare(&view.store),
            machines: settings.and_then(|host| host.max_instances).map(|max| max.saturating_sub(used)),
            images: BTreeSet::new(),
        }
    }
}

/// Bytes that may be planned away: what is free, less the reserve and what disks may still grow by.
pub(super) fn spare(store: &Store) -> u64 {
    store.available.saturating_sub(store.reserve).saturating_sub(store.growth)
}

impl<'a> Draft<'a> {
    /// Sets room for a new machine aside, or says what is lacking.
    pub fn take_room_for_new(&mut self, place: &'a HostRef, view: &HostView, what: &'a Resolved) -> Result<(), Hold> {
        if self.room.get(place).is_some_and(|room| room.machines == Some(0)) {
            let max = self.desired.hosts.get(place).and_then(|host| host.max_instances);
            let max = usize::try_from(max.unwrap_or(0)).unwrap_or(usize::MAX);
            return Err(Hold::blocked(
                Reason::QuotaExceeded,
                format!("{place} may hold {} and has as many (maxInstances)", count(max, "machine")),
            )
            .hint("raise maxInstances, or place the proxy on another host"));
        }
        self.take_bytes(place, view, what, what.reserve_bytes.saturating_add(SEED_BYTES))?;
        if let Some(room) = self.room.get_mut(place) {
            room.machines = room.machines.map(|left| left.saturating_sub(1));
        }
        Ok(())
    }

    /// Sets room aside for what a replacement needs beyond what its former machine gives back.
    pub fn take_room_for_replacement(&mut self, machine: &Machine<'a>, what: &'a Resolved) -> Result<(), Hold> {
        let beyond = what.reserve_bytes.saturating_sub(machine.instance.disk_bytes);
        self.take_bytes(machine.place, machine.view, what, beyond)
    }

    fn take_bytes(&mut self, place: &'a HostRef, view: &HostView, what: &'a Resolved, disk: u64) -> Result<(), Hold> {
        let image = if view.image(&what.image).is_some() { 0 } else { self.known_length(what) };
        let Some(room) = self.room.get_mut(place) else { return Ok(()) };
        let image = if room.images.contains(what.image.id.as_str()) { 0 } else { image };
        let needed = disk.saturating_add(image);
        if needed > room.bytes {
            let store = &view.store;
            return Err(Hold::blocked(
                Reason::QuotaExceeded,
                format!(
                    "{} on {place} has room for {} more, and {} are needed ({} free, {} kept in reserve, {} for existing disks to grow)",
                    store.name,
                    gib(room.bytes),
                    gib(needed),
                    gib(store.available),
                    gib(store.reserve),
                    gib(store.growth),
                ),
            )
            .hint("free space in the pool, make it larger, or place the proxy on another host"));
        }
        room.bytes -= needed;
        room.images.insert(&what.image.id);
        Ok(())
    }

    /// The length of an image that some host has; 0 when none does, since planning asks no image
    /// server. Bringing it to a host looks at the room there again.
    fn known_length(&self, what: &Resolved) -> u64 {
        self.views().filter_map(|(_, view)| view.image(&what.image)).map(|image| image.bytes).max().unwrap_or(0)
    }
}
