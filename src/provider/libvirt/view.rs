//! Makes the view of a host from what it answered. Calls nothing.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::host::calls::{DomainRow, DomainStats, Which, state};
use super::lock;
use super::mark::{self, Ownership};
use super::naming::{self, LockName};
use super::observe::{MarkText, Survey, version_text};
use super::power::power;
use super::site::Site;
use crate::plan::{
    Address, HostRef, HostView, Instance, Leftover, LockHolder, Mark, MarkState, ProxyKey, Reason, Standing, Store,
};

/// What a domain's marks came to.
enum Seen {
    /// It carries no mark of ours.
    Unmarked,
    /// It is of this fleet, and ours or blocked.
    Fleet(Standing),
    /// It is of another fleet, for this proxy.
    OtherFleet(String, Option<ProxyKey>),
    /// It is of this fleet, for another place.
    Elsewhere(HostRef),
}

/// The mark of a domain, when it is ours, read from what `read_mark` returned.
pub(super) fn own_mark(site: &Site, row: &DomainRow, text: &MarkText) -> Result<Mark, (Reason, String)> {
    match see(site, row, text) {
        Seen::Fleet(Standing::Ours(mark)) => Ok(*mark),
        Seen::Fleet(Standing::Blocked { reason, message, .. }) => Err((reason, message)),
        Seen::Unmarked => Err((Reason::NameTaken, "it carries no mark of ours".to_owned())),
        Seen::OtherFleet(fleet, _) => Err((Reason::NameTaken, format!("it is of fleet {fleet}"))),
        Seen::Elsewhere(place) => Err((Reason::Misplaced, format!("it is of {place}"))),
    }
}

fn see(site: &Site, row: &DomainRow, text: &MarkText) -> Seen {
    let Some(first) = text.persistent.as_deref().or(text.live.as_deref()) else { return Seen::Unmarked };
    let mark = match mark::read(first) {
        Ok(mark) => mark,
        Err(error) => {
            let bears = error.bears();
            if !error.may_be_of(&site.fleet) {
                let fleet = bears.fleet.as_ref().map(ToString::to_string).unwrap_or_default();
                return Seen::OtherFleet(fleet, bears.proxy.clone());
            }
            let reason = match error {
                mark::MarkError::NewerTool { .. } => Reason::NewerTool,
                mark::MarkError::Unreadable { .. } => Reason::UnreadableMark,
            };
            return Seen::Fleet(Standing::Blocked { key: bears.proxy.clone(), reason, message: error.to_string() });
        }
    };
    let HostRef { entry, host } = &site.place;
    match mark::standing(&mark, &site.fleet, entry, host, &site.aliases, &row.name, row.uuid) {
        Ownership::OtherFleet => Seen::OtherFleet(mark.fleet.trim().to_lowercase(), Some(mark.proxy)),
        Ownership::OtherEntryOrHost { entry, host } => Seen::Elsewhere(HostRef { entry, host }),
        Ownership::Blocked { reason, message } => {
            Seen::Fleet(Standing::Blocked { key: Some(mark.proxy), reason, message })
        }
        Ownership::Ours => Seen::Fleet(match differing(&mark, text) {
            Some(message) => Standing::Blocked { key: Some(mark.proxy), reason: Reason::MarkDiffers, message },
            None => Standing::Ours(Box::new(mark)),
        }),
    }
}

/// How the live mark differs from the persistent one, for a domain that has both configurations.
fn differing(mark: &Mark, text: &MarkText) -> Option<String> {
    if text.had != (true, true) {
        return None;
    }
    let Some(live) = text.live.as_deref() else {
        return Some("the running domain carries no mark, while its configuration does".to_owned());
    };
    if text.persistent.is_none() {
        return Some("the running domain carries a mark, while its configuration does not".to_owned());
    }
    match mark::read(live) {
        Ok(live) if live == *mark => None,
        Ok(_) => Some("the running domain's mark differs from the one in its configuration".to_owned()),
        Err(error) => Some(format!("the running domain's mark cannot be read: {error}")),
    }
}

/// Makes the view. `Err` says that the pool looks unmounted.
pub(super) fn view(
    site: &Site,
    survey: &Survey,
    marks: &[(Uuid, MarkText)],
    now: jiff::Timestamp,
) -> Result<HostView, String> {
    let texts: BTreeMap<Uuid, &MarkText> = marks.iter().map(|(uuid, text)| (*uuid, text)).collect();
    let mut view = HostView { software: format!("libvirt {}", version_text(survey.version)), ..HostView::default() };
    let mut growth = 0_u64;
    let mut ready_with_disks = false;
    for (row, which) in &survey.domains {
        // A domain without a text vanished while the host was looked at.
        let Some(text) = texts.get(&row.uuid) else { continue };
        match see(site, row, text) {
            Seen::Unmarked => {
                view.others += 1;
                if naming::looks_like_instance(&row.name) {
                    view.names_taken.insert(row.name.clone());
                }
            }
            Seen::OtherFleet(fleet, key) => {
                view.others += 1;
                view.other_fleets.entry(fleet).or_default().extend(key);
            }
            Seen::Elsewhere(place) if site.places.contains(&place) => {
                // Whether that place is another view of this daemon is known when all hosts are.
                let message = format!("its mark names {place}, and it is here");
                let standing = Standing::Blocked { key: None, reason: Reason::Misplaced, message };
                view.instances.push(instance(row, *which, standing, survey));
            }
            Seen::Elsewhere(place) => {
                view.others += 1;
                view.strangers.insert((place.to_string(), row.name.clone()));
            }
            Seen::Fleet(standing) => {
                let machine = instance(row, *which, standing, survey);
                if machine.mark().is_some_and(|mark| mark.state == MarkState::Ready) && survey.pool.active {
                    ready_with_disks = true;
                }
                growth = growth.saturating_add(room_to_grow(survey.stats.get(&row.uuid)));
                view.instances.push(machine);
            }
        }
    }
    view.lock = rival_lock(site, survey, now);
    if view.lock.is_some() {
        // What that run deletes between the listing of domains and that of volumes is not lost.
        for machine in &mut view.instances {
            machine.missing_disks.clear();
        }
    } else if ready_with_disks && !survey.volumes.iter().any(|name| naming::looks_like_ours(name)) {
        return Err(format!("machines name volumes in {}, and the pool holds none of them", survey.pool.path));
    }
    view.instances.sort_by(|a, b| a.name.cmp(&b.name));
    view.leftovers = leftovers(survey);
    view.images.clone_from(&survey.images);
    view.store = store(site, survey, growth);
    Ok(view)
}

/// The disks that a domain of ours has, by name.
fn disk_names(row: &DomainRow) -> [String; 2] {
    [naming::overlay_name(&row.name, row.uuid), naming::seed_name(&row.name, row.uuid)]
}

fn instance(row: &DomainRow, which: Which, standing: Standing, survey: &Survey) -> Instance {
    let (domain_state, reason) =
        survey.stats.get(&row.uuid).map_or((state::NOSTATE, 0), |stats| (stats.state, stats.reason));
    let expected = disk_names(row);
    let mut removes: Vec<String> = expected.iter().filter(|name| survey.volumes.contains(*name)).cloned().collect();
    removes.sort();
    let complete = |standing: &Standing| matches!(standing, Standing::Ours(mark) if mark.state == MarkState::Ready);
    let missing_disks = if survey.pool.active && complete(&standing) {
        expected.into_iter().filter(|name| !survey.volumes.contains(name)).collect()
    } else {
        Vec::new()
    };
    Instance {
        name: row.name.clone(),
        uuid: row.uuid.to_string(),
        standing,
        power: power(domain_state, reason, &row.name),
        transient: which == Which::Transient,
        disk_bytes: survey.stats.get(&row.uuid).map_or(0, disk_bytes),
        missing_disks,
        removes,
        address: Address::NotAsked,
    }
}

/// Bytes that the disks of a domain take up and may still grow to.
fn disk_bytes(stats: &DomainStats) -> u64 {
    stats.disks.iter().map(|disk| disk.capacity.max(disk.allocation)).fold(0, u64::saturating_add)
}

/// Bytes by which the disks of a domain may still grow.
fn room_to_grow(stats: Option<&DomainStats>) -> u64 {
    stats.map_or(0, |stats| {
        stats.disks.iter().map(|disk| disk.capacity.saturating_sub(disk.allocation)).fold(0, u64::saturating_add)
    })
}

/// Volumes that look like ours, whose domain is not there and that no other domain names: a renamed
/// machine still has the disks of its former name.
fn leftovers(survey: &Survey) -> Vec<Leftover> {
    let folder = survey.pool.path.trim_end_matches('/');
    let named: BTreeSet<&str> = survey
        .stats
        .values()
        .flat_map(|stats| &stats.disks)
        .filter_map(|disk| disk.path.as_deref()?.strip_prefix(folder)?.strip_prefix('/'))
        .collect();
    let claimed: BTreeSet<String> = survey.domains.iter().flat_map(|(row, _)| disk_names(row)).collect();
    survey
        .volumes
        .iter()
        .filter(|name| naming::looks_like_ours(name) && !claimed.contains(*name) && !named.contains(name.as_str()))
        .map(|name| Leftover { name: name.clone(), bytes: None })
        .collect()
}

/// A lock of the fleet that seems to be alive by this machine's clock. Good enough to be shown; a
/// run that wants the lock judges by the host's clock alone.
fn rival_lock(site: &Site, survey: &Survey, now: jiff::Timestamp) -> Option<LockHolder> {
    survey
        .locks
        .iter()
        .filter_map(|(name, made)| Some((LockName::parse(name)?, made)))
        .filter(|(lock, _)| lock.fleet == site.fleet && lock.run != site.run)
        .map(|(lock, made)| LockHolder { removal: None, ..lock::holder(site, &lock, Some(*made), now) })
        .find(|holder| holder.until.is_some_and(|until| until > now))
}

fn store(site: &Site, survey: &Survey, growth: u64) -> Store {
    let pool = &survey.pool;
    Store {
        name: format!("pool {}", site.pool),
        identity: Some(pool.uuid.clone()),
        start_hint: format!("virsh -c qemu:///system pool-start {}", site.pool),
        active: pool.active,
        capacity: pool.capacity,
        available: pool.available,
        reserve: site.reserve.bytes(pool.capacity),
        growth,
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
