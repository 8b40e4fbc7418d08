//! Observing a host: a few bulk calls, a mark for each domain, and a view made of both.
//!
//! Total: any answer that fails makes the whole host unknown, for a partial listing would look like
//! machines that are gone (L13).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use uuid::Uuid;

use super::classify::{classify, is_busy_pool};
use super::host::calls::{CallError, Calls, Config, DomainRow, DomainStats, PoolInfo, Volume, Which, code, state};
use super::mark::NAMESPACE;
use super::naming::{LockName, ProofName};
use super::power::SAVED;
use super::site::Site;
use crate::plan::{BaseImage, HostTrouble, Reason};
use crate::provider::error::ProviderError;

/// The oldest libvirt that has all calls that are needed: 7.2.
pub(super) const OLDEST_LIBVIRT: u64 = 7_002_000;

/// How often a refresh of a busy pool is tried.
const REFRESHES: u32 = 20;

/// What is on a host.
pub(super) struct Listing {
    pub version: u64,
    pub pool: PoolInfo,
    pub domains: Vec<(DomainRow, Which)>,
}

/// Domains whose marks are still to be read, by whoever comes next.
pub(super) struct Unread(Mutex<std::vec::IntoIter<(DomainRow, Which)>>);

impl Unread {
    pub fn new(domains: Vec<(DomainRow, Which)>) -> Self {
        Self(Mutex::new(domains.into_iter()))
    }

    /// The next one, until none is left.
    pub fn rest(&self) -> impl Iterator<Item = (DomainRow, Which)> {
        std::iter::from_fn(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next())
    }
}

/// What the bulk calls answered.
pub(super) struct Survey {
    pub version: u64,
    pub pool: PoolInfo,
    /// Empty when the pool is not running.
    pub volumes: BTreeSet<String>,
    pub domains: Vec<(DomainRow, Which)>,
    pub stats: BTreeMap<Uuid, DomainStats>,
    /// Proven base images by id.
    pub images: BTreeMap<String, BaseImage>,
    /// Lock volumes of the fleet, and when each was made.
    pub locks: Vec<(String, Timestamp)>,
}

/// A domain's mark, as text, from the configurations that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkText {
    pub persistent: Option<String>,
    pub live: Option<String>,
    /// Which of the two were there to be read.
    pub had: (bool, bool),
}

fn trouble(operation: &'static str, object: &str, error: &CallError) -> HostTrouble {
    unknown(classify(operation, object, error))
}

/// A host about which something could not be learnt.
pub(super) fn unknown(failure: ProviderError) -> HostTrouble {
    HostTrouble { reason: failure.reason, message: failure.to_string(), hint: failure.hint }
}

/// Asks what is there: the first calls of a look.
pub(super) fn listing(calls: &mut dyn Calls) -> Result<Listing, HostTrouble> {
    let version = calls.libvirt_version().map_err(|error| trouble("ask for the version", "", &error))?;
    if version < OLDEST_LIBVIRT {
        return Err(HostTrouble {
            reason: Reason::VersionUnsupported,
            message: format!("libvirt {} is too old", version_text(version)),
            hint: Some("7.2 or later is needed on the host".to_owned()),
        });
    }
    let pool = calls.pool().map_err(|error| trouble("look at the pool", "", &error))?;
    if !matches!(pool.kind.as_str(), "dir" | "fs") {
        return Err(HostTrouble {
            reason: Reason::PoolUnsupported,
            message: format!("the pool is of type {}", pool.kind),
            hint: Some("name a pool of type dir or fs in hosts[].pool".to_owned()),
        });
    }
    let mut domains = Vec::new();
    for which in [Which::Persistent, Which::Transient] {
        let rows = calls.list_domains(which).map_err(|error| trouble("list the domains", "", &error))?;
        domains.extend(rows.into_iter().map(|row| (row, which)));
    }
    Ok(Listing { version, pool, domains })
}

/// Makes the bulk calls. With `refresh`, figures are made fresh when something is to be created.
pub(super) fn survey(
    calls: &mut dyn Calls,
    site: &Site,
    listing: Listing,
    refresh: bool,
) -> Result<Survey, HostTrouble> {
    let Listing { version, mut pool, domains } = listing;
    let stats = calls.domain_stats().map_err(|error| trouble("read the domains' figures", "", &error))?;
    let saved = calls.list_domains(Which::Saved).map_err(|error| trouble("list the saved domains", "", &error))?;
    let saved = saved.into_iter().map(|row| row.uuid);
    let mut volumes = list_volumes(calls, &pool)?;
    let creates = site.wanted.iter().any(|name| !domains.iter().any(|(row, _)| row.name == *name));
    if refresh && pool.active && creates && !looks_unmounted(&volumes, &domains, site) {
        refresh_pool(calls, "").map_err(unknown)?;
        pool = calls.pool().map_err(|error| trouble("look at the pool", "", &error))?;
        volumes = list_volumes(calls, &pool)?;
    }
    let images = proven_images(calls, &volumes, &site.image_ids)?;
    let mut locks = Vec::new();
    for name in volumes
        .iter()
        .filter(|name| LockName::parse(name).is_some_and(|lock| lock.fleet == site.fleet && lock.run != site.run))
    {
        if let Some(made) = read_volume(calls, name)?.and_then(|volume| volume.modified) {
            locks.push((name.clone(), made));
        }
    }
    let mut stats: BTreeMap<Uuid, DomainStats> = stats.into_iter().map(|stats| (stats.uuid, stats)).collect();
    for uuid in saved {
        if let Some(stats) = stats.get_mut(&uuid).filter(|stats| stats.state == state::SHUTOFF) {
            stats.reason = SAVED;
        }
    }
    Ok(Survey { version, pool, volumes, domains, stats, images, locks })
}

fn list_volumes(calls: &mut dyn Calls, pool: &PoolInfo) -> Result<BTreeSet<String>, HostTrouble> {
    if !pool.active {
        return Ok(BTreeSet::new());
    }
    let names = calls.volume_names().map_err(|error| trouble("list the volumes", "", &error))?;
    Ok(names.into_iter().collect())
}

/// Whether wanted machines are there while the pool holds nothing of ours: then a refresh, which
/// deactivates a pool whose folder is gone, is not asked for.
fn looks_unmounted(volumes: &BTreeSet<String>, domains: &[(DomainRow, Which)], site: &Site) -> bool {
    domains.iter().any(|(row, _)| site.wanted.contains(&row.name))
        && !volumes.iter().any(|name| super::naming::looks_like_ours(name))
}

/// Makes libvirt look at the files of the pool. One that stays busy is no failure: what is known of it
/// is what the last refresh saw.
pub(super) fn refresh_pool(calls: &mut dyn Calls, object: &str) -> Result<(), ProviderError> {
    let mut tries = 0;
    loop {
        match calls.refresh_pool() {
            Err(error) if is_busy_pool(&error) && tries < REFRESHES => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(250));
            }
            Err(error) if !is_busy_pool(&error) => return Err(classify("refresh the pool", object, &error)),
            _ => return Ok(()),
        }
    }
}

/// Base images that are whole: there is a proof, and the file is as long as the proof says.
pub(super) fn proven_images(
    calls: &mut dyn Calls,
    volumes: &BTreeSet<String>,
    ids: &BTreeSet<String>,
) -> Result<BTreeMap<String, BaseImage>, HostTrouble> {
    let mut images: BTreeMap<String, BaseImage> = BTreeMap::new();
    // Sorted, so that of several bases for one image the smallest name wins on every host and run.
    for proof in volumes.iter().filter_map(|name| ProofName::parse(name)) {
        let base = proof.base.to_string();
        if !ids.contains(proof.base.id()) || images.contains_key(proof.base.id()) || !volumes.contains(&base) {
            continue;
        }
        let found = read_volume(calls, &base)?.zip(read_volume(calls, &proof.to_string())?);
        let Some((base_volume, proof_volume)) = found else { continue };
        let length = file_length(&base_volume);
        if length != proof_volume.capacity {
            tracing::warn!(volume = %base, length, proven = proof_volume.capacity, "a base image is not as long as its proof says; it is not used");
            continue;
        }
        let virtual_bytes = Some(base_volume.capacity);
        images.insert(proof.base.id().to_owned(), BaseImage { name: base, bytes: length, virtual_bytes });
    }
    Ok(images)
}

fn read_volume(calls: &mut dyn Calls, name: &str) -> Result<Option<Volume>, HostTrouble> {
    calls.volume(name).map_err(|error| trouble("look at the volume", name, &error))
}

/// Length of a volume's file. The capacity of a raw file is its length; that of a qcow2 file is not.
pub(super) fn file_length(volume: &Volume) -> u64 {
    volume.physical.unwrap_or(volume.capacity)
}

/// Reads the mark of each domain. Domains that vanished meanwhile are left out.
pub(super) fn read_marks(
    calls: &mut dyn Calls,
    domains: impl IntoIterator<Item = (DomainRow, Which)>,
) -> Result<Vec<(Uuid, MarkText)>, HostTrouble> {
    let mut marks = Vec::new();
    for (row, which) in domains {
        if let Some(mark) = read_mark(calls, row.uuid, row.active, which == Which::Persistent)
            .map_err(|error| trouble("read the mark", &row.name, &error))?
        {
            marks.push((row.uuid, mark));
        }
    }
    Ok(marks)
}

/// Reads one domain's mark; `None` when the domain is gone.
pub(super) fn read_mark(
    calls: &mut dyn Calls,
    uuid: Uuid,
    active: bool,
    persistent: bool,
) -> Result<Option<MarkText>, CallError> {
    let mut text = MarkText { persistent: None, live: None, had: (false, false) };
    for (wanted, config) in [(persistent, Config::Persistent), (active, Config::Live)] {
        if !wanted {
            continue;
        }
        match calls.metadata(uuid, config, NAMESPACE) {
            Ok(found) => match config {
                Config::Persistent => (text.persistent, text.had.0) = (found, true),
                Config::Live => (text.live, text.had.1) = (found, true),
            },
            Err(error) if error.code == code::NO_DOMAIN && !error.dead => {
                return if calls.domain_exists(uuid)? { Err(error) } else { Ok(None) };
            }
            // It stopped or started between the listing and this call: the other configuration says
            // enough, and it is read again before anything is done.
            Err(error) if error.code == code::OPERATION_INVALID && !error.dead => {}
            Err(error) => return Err(error),
        }
    }
    if text.had == (false, false) {
        return if calls.domain_exists(uuid)? {
            Err(CallError {
                code: code::OPERATION_INVALID,
                domain: 0,
                message: "the domain changed its state while it was looked at".to_owned(),
                dead: false,
                ended: None,
            })
        } else {
            Ok(None)
        };
    }
    Ok(Some(text))
}

/// `11.6.0` for 11,006,000.
pub(super) fn version_text(version: u64) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}
