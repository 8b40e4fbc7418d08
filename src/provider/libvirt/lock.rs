//! The run lock on one host: a volume whose name says who, and whose time stamp says since when.
//!
//! The volume is made first and the pool listed then. Since every run does it in this order and one
//! daemon answers all of them, of two runs at least one sees the other. Ages are differences of the
//! host's own time stamps, so that no other clock matters.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jiff::{SignedDuration, Timestamp};

use super::classify::{classify, is_unseen_file};
use super::host::calls::{CallError, Calls, code};
use super::naming::LockName;
use super::site::Site;
use super::volume_xml;
use crate::plan::{Label, LockHolder, Reason};
use crate::provider::LockAttempt;
use crate::provider::error::{Class, ProviderError};

/// How often locks are listed anew because one of them went while it was looked at.
const LISTINGS: usize = 10;

/// How long a lock lives without being renewed.
pub(super) const TTL: Duration = Duration::from_mins(5);

/// The lock of a host during a run. A renewal changes it while steps are under way, so steps share it
/// and look at it anew each time.
#[derive(Debug, Clone, Default)]
pub(super) struct Fence(Arc<Mutex<Option<Held>>>);

impl Fence {
    /// What is held now.
    pub fn held(&self) -> Option<Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, held: Option<Held>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    /// Fails unless this run still holds the lock. Each step that changes something asks first.
    pub fn check(&self, calls: &mut dyn Calls) -> Result<(), ProviderError> {
        loop {
            let Some(held) = self.held() else { return Err(lost("", "this run does not hold the host's lock")) };
            let name = held.name.to_string();
            if held.age() > TTL / 2 {
                return Err(lost(&name, "it was not renewed in time, so nothing more is begun on this host"));
            }
            if calls.volume(&name).map_err(|error| classify("look at the lock", &name, &error))?.is_some() {
                return Ok(());
            }
            // A renewal between the two looks took its place.
            if self.held().is_none_or(|now| now.name == held.name) {
                return Err(lost(&name, "somebody removed it, so nothing more is begun on this host"));
            }
        }
    }
}

fn lost(name: &str, why: &str) -> ProviderError {
    ProviderError::new(Class::Permanent, Reason::InProgress, "keep the lock", name, why)
        .hint("another run may be at work on this host; the next run looks again")
}

/// A lock that this run holds.
#[derive(Debug, Clone)]
pub(super) struct Held {
    name: LockName,
    /// Two clocks: the first stands still while this machine is suspended, the second may be set.
    since: (Instant, SystemTime),
}

impl Held {
    /// How long ago it was made or renewed, by the clock that says more.
    fn age(&self) -> Duration {
        self.since.0.elapsed().max(self.since.1.elapsed().unwrap_or_default())
    }
}

fn name(site: &Site, n: u32) -> LockName {
    let ttl_seconds = u32::try_from(TTL.as_secs()).unwrap_or(u32::MAX);
    LockName { fleet: site.fleet.clone(), ttl_seconds, run: site.run.clone(), n }
}

/// Why the lock was neither taken nor found taken.
#[derive(Debug)]
pub(super) struct NotAcquired {
    pub failure: ProviderError,
    /// A lock of this run that is still there, since the link died.
    pub left: Option<LockName>,
}

impl From<ProviderError> for Box<NotAcquired> {
    fn from(failure: ProviderError) -> Self {
        Self::new(NotAcquired { failure, left: None })
    }
}

/// Tries once to take the lock.
pub(super) fn acquire(calls: &mut dyn Calls, site: &Site) -> Result<(LockAttempt, Option<Held>), Box<NotAcquired>> {
    let mine = name(site, 1);
    let since = (Instant::now(), SystemTime::now());
    match create(calls, &mine) {
        // The lock lies in the pool, so that this is the first that a run hears of a stopped one.
        Err(failure) if failure.reason == Reason::PoolNotActive => return Ok((LockAttempt::NoStore, None)),
        other => other?,
    }
    match rival(calls, site, &mine) {
        Ok(None) => Ok((LockAttempt::Acquired, Some(Held { name: mine, since }))),
        Ok(Some(holder)) => {
            // The conflict is what counts; a lock of ours that cannot be removed now runs out.
            if let Err(error) = remove(calls, &mine.to_string()) {
                tracing::warn!(host = %site.place, %error, "this run's lock could not be removed after a conflict");
            }
            Ok((LockAttempt::HeldBy(holder), None))
        }
        Err(failure) => {
            // The first failure is the one to tell of.
            let left = remove(calls, &mine.to_string()).is_err().then_some(mine);
            Err(Box::new(NotAcquired { failure, left }))
        }
    }
}

fn create(calls: &mut dyn Calls, lock: &LockName) -> Result<(), ProviderError> {
    let text = lock.to_string();
    let xml = volume_xml::lock(lock).map_err(|error| {
        ProviderError::new(Class::Permanent, Reason::PermanentError, "write the lock's XML", &text, error.to_string())
    })?;
    let mut made = calls.create_volume(&xml);
    if made.as_ref().is_err_and(|error| error.code == code::STORAGE_VOL_EXIST && !error.dead) {
        // An earlier attempt of this run left it there: made anew, its age counts from now on.
        remove(calls, &text)?;
        made = calls.create_volume(&xml);
    }
    match made {
        // Nobody else makes a file of this run's name, and this pool has not seen it made.
        Err(error) if is_unseen_file(&error) => {
            let why = "this run's lock lies in the pool's folder already: it is another host's pool as well";
            Err(ProviderError::new(Class::Permanent, Reason::DuplicateHost, "take the lock", &text, why)
                .hint("give each host of the config a pool with a folder of its own"))
        }
        other => other.map_err(|error| classify("take the lock", &text, &error)),
    }
}

fn remove(calls: &mut dyn Calls, volume: &str) -> Result<(), ProviderError> {
    match calls.delete_volume(volume) {
        Err(error) if error.code != code::NO_STORAGE_VOL => Err(classify("remove the lock", volume, &error)),
        _ => Ok(()),
    }
}

/// Removes a lock of this run that it could not hold.
pub(super) fn withdraw(calls: &mut dyn Calls, lock: &LockName) -> Result<(), ProviderError> {
    remove(calls, &lock.to_string())
}

/// The holder of a live lock of the fleet that is not this run's. Dead ones are cleared away.
fn rival(calls: &mut dyn Calls, site: &Site, mine: &LockName) -> Result<Option<LockHolder>, ProviderError> {
    let failed = |error: CallError| classify("look for other locks", &mine.to_string(), &error);
    let mut gone = None;
    for _ in 0..LISTINGS {
        let others: Vec<LockName> = calls
            .volume_names()
            .map_err(failed)?
            .iter()
            .filter_map(|volume| LockName::parse(volume))
            .filter(|other| other.fleet == site.fleet && other.run != site.run)
            .collect();
        if others.is_empty() {
            return Ok(None);
        }
        let fresh = calls.volume(&mine.to_string()).map_err(failed)?.and_then(|volume| volume.modified);
        let now = fresh.ok_or_else(|| {
            let text = "the host does not say when a volume was made";
            ProviderError::new(Class::Transient, Reason::APIError, "take the lock", mine.to_string(), text)
        })?;
        gone = None;
        for other in others {
            let volume = other.to_string();
            let Some(there) = calls.volume(&volume).map_err(failed)? else {
                gone = Some(other);
                continue;
            };
            if is_alive(&other, there.modified, now) {
                return Ok(Some(holder(site, &other, there.modified, now)));
            }
            tracing::warn!(host = %site.place, run = %other.run, "removing the lock of a run that ended without giving it back");
            remove(calls, &volume)?;
        }
        // One that is gone was given back, or renewed under another name that the list does not have.
        if gone.is_none() {
            return Ok(None);
        }
    }
    Ok(gone.map(|other| LockHolder { run: other.run.to_string(), until: None, removal: None }))
}

fn life(lock: &LockName) -> SignedDuration {
    SignedDuration::from_secs(i64::from(lock.ttl_seconds))
}

/// Of one without a time stamp nobody can say that it is dead.
fn is_alive(lock: &LockName, made: Option<Timestamp>, now: Timestamp) -> bool {
    made.is_none_or(|made| now.duration_since(made) <= life(lock))
}

/// Who holds a lock that was made or renewed at `made`, at `now` by the same clock.
pub(super) fn holder(site: &Site, lock: &LockName, made: Option<Timestamp>, now: Timestamp) -> LockHolder {
    let life = life(lock);
    let removal = || format!("virsh -c qemu:///system vol-delete --pool {} {lock}", site.pool);
    LockHolder {
        run: lock.run.to_string(),
        until: made.and_then(|made| made.checked_add(life).ok()),
        // One that was renewed since is ahead as well, and by no more than its life.
        removal: made.filter(|made| made.duration_since(now) > life).map(|_| removal()),
    }
}

/// Renews the lock: the next volume is made before the former goes, and steps learn of it in between.
pub(super) fn renew(calls: &mut dyn Calls, site: &Site, fence: &Fence) -> Result<(), ProviderError> {
    let Some(held) = fence.held() else { return Ok(()) };
    let former = held.name.to_string();
    let failed = |error: CallError| classify("look at the lock", &former, &error);
    let Some(there) = calls.volume(&former).map_err(failed)? else {
        return Err(lost(&former, "somebody removed it, so nothing more is begun on this host"));
    };
    let next = name(site, held.name.n.saturating_add(1));
    let since = (Instant::now(), SystemTime::now());
    create(calls, &next)?;
    let now = calls.volume(&next.to_string()).map_err(failed)?.and_then(|volume| volume.modified);
    let by_the_host = now.zip(there.modified).map_or(SignedDuration::MAX, |(now, made)| now.duration_since(made));
    // So late, another run may have found the former one dead. It has a lock of its own then.
    if (held.age() > TTL / 2 || by_the_host.unsigned_abs() > TTL / 2)
        && let Some(holder) = rival(calls, site, &next)?
    {
        remove(calls, &next.to_string())?;
        return Err(lost(&former, &format!("run {} took the host meanwhile", holder.run)));
    }
    fence.set(Some(Held { name: next, since }));
    remove(calls, &former)
}

/// The host's clock, as the time stamp of the lock tells it: never ahead, and behind by no more than
/// the time since the lock was made or renewed.
pub(super) fn clock(calls: &mut dyn Calls, fence: &Fence) -> Result<Timestamp, ProviderError> {
    fence.check(calls)?;
    let text = fence.held().map(|held| held.name.to_string()).unwrap_or_default();
    let lock = calls.volume(&text).map_err(|error| classify("look at the lock", &text, &error))?;
    lock.and_then(|lock| lock.modified).ok_or_else(|| {
        let why = "the host does not say when the lock was made";
        ProviderError::new(Class::Transient, Reason::APIError, "look at the lock", &text, why)
    })
}

/// A fleet other than this run's whose lock is alive on the host at `now`. Its run may be about to use
/// what nobody uses yet. A lock whose age is not known counts.
pub(super) fn other_fleet(
    calls: &mut dyn Calls,
    fence: &Fence,
    now: Timestamp,
) -> Result<Option<Label>, ProviderError> {
    let mine = fence.held().map(|held| held.name.fleet);
    let failed = |error: CallError| classify("look for other locks", "", &error);
    for volume in calls.volume_names().map_err(failed)? {
        let Some(lock) = LockName::parse(&volume).filter(|lock| Some(&lock.fleet) != mine.as_ref()) else { continue };
        let Some(there) = calls.volume(&volume).map_err(failed)? else { continue };
        if is_alive(&lock, there.modified, now) {
            return Ok(Some(lock.fleet));
        }
    }
    Ok(None)
}

/// Gives the lock back: every lock volume of this run, a former one that a renewal could not remove
/// included.
pub(super) fn release(calls: &mut dyn Calls, held: &Held) -> Result<(), ProviderError> {
    let names = calls.volume_names().map_err(|error| classify("give the lock back", &held.name.to_string(), &error))?;
    let ours = |name: &String| {
        LockName::parse(name).is_some_and(|lock| lock.fleet == held.name.fleet && lock.run == held.name.run)
    };
    names.iter().filter(|name| ours(name)).try_for_each(|name| remove(calls, name))
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
