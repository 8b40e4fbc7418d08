//! What `images prune` removes, and how: never anything that somebody uses, at the moment when it is
//! removed.
//!
//! A proof goes before its base and everything is looked at again in between: another run makes its
//! overlay first and looks for the proof then, so that one of the two always sees the other. And a
//! run of another fleet takes its lock first and looks for proven images then: while it is at work,
//! one that it may have found stays.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::bases::{Base, Pool, is_old};
use super::classify::classify;
use super::host::calls::{Calls, code};
use super::lock::{self, Fence};
use super::naming::{ProofName, disk_owner, looks_like_ours, parse_disk};
use super::observe::{file_length, refresh_pool};
use super::volume_xml;
use crate::plan::{Label, Reason};
use crate::provider::error::{Class, ProviderError};
use crate::provider::images::{ImageState, Prunable, Prunables, PruneKind, Pruned};

/// What may go. `needed` are the ids of images that manifests want on this host; of several whole
/// bases of one, those in use stay, and the first one when none is. `now` is the host's clock.
pub(super) fn prunables(pool: &Pool, needed: &BTreeSet<String>, leftovers: bool, now: Timestamp) -> Prunables {
    let mut items = Vec::new();
    // One that is in use stays anyway and serves new machines as well: no other needs to.
    let in_use = pool.bases().filter(|base| base.is_proven() && !base.users.is_empty());
    let in_use = in_use.filter_map(|base| needed.get(base.name.id()));
    let mut kept: BTreeSet<&String> = in_use.collect();
    for base in pool.bases() {
        let serves = base.is_proven() && needed.get(base.name.id()).is_some_and(|id| kept.insert(id));
        let kind = match base.state(now) {
            _ if serves || !base.users.is_empty() => continue,
            ImageState::Proven => PruneKind::Unused,
            ImageState::Debris => PruneKind::Debris,
            ImageState::Unproven => continue,
        };
        items.push(item(pool, kind, base.file));
    }
    items.extend(pool.lone_proofs().map(|proof| item(pool, PruneKind::LoneProof, &proof.to_string())));
    if leftovers {
        let left = pool.volumes.keys().filter(|file| is_leftover(pool, file, now));
        items.extend(left.map(|file| item(pool, PruneKind::Leftover, file)));
    }
    items.sort();
    let machines = pool.domains.iter().map(|named| named.row.name.clone()).collect();
    Prunables { items, machines }
}

fn item(pool: &Pool, kind: PruneKind, file: &str) -> Prunable {
    let volume = pool.volumes.get(file);
    Prunable {
        kind,
        file: file.to_owned(),
        bytes: volume.map_or(0, |volume| volume.allocation),
        modified: volume.and_then(|volume| volume.modified),
        machine: disk_owner(file).map(str::to_owned),
    }
}

/// Whether a volume is a disk of ours that no domain has. One that was written to lately is somebody's,
/// whatever this host knows: its folder may be another host's too.
fn is_leftover(pool: &Pool, file: &str, now: Timestamp) -> bool {
    looks_like_ours(file)
        && pool.volumes.get(file).is_some_and(|volume| is_old(volume, now))
        && !pool.domains.iter().any(|named| parse_disk(&named.row.name, named.row.uuid, file).is_some())
        && pool.users(file).is_empty()
}

/// Removes one of them if it still may go.
pub(super) fn remove(
    calls: &mut dyn Calls,
    pool_name: &str,
    fence: &Fence,
    item: &Prunable,
) -> Result<Pruned, ProviderError> {
    let now = lock::clock(calls, fence)?;
    // A person may have thought about it for long, and others made files meanwhile.
    refresh_pool(calls, &item.file)?;
    let pool = Pool::read(calls, pool_name)?;
    if !pool.volumes.contains_key(&item.file) {
        return Ok(Pruned::Gone);
    }
    match item.kind {
        PruneKind::Unused | PruneKind::Debris => match pool.base(&item.file) {
            Some(base) => remove_base(calls, pool_name, fence, item.kind, &base, now),
            None => Ok(Pruned::Kept("it is no base image".to_owned())),
        },
        PruneKind::LoneProof if pool.lone_proofs().all(|proof| proof.to_string() != item.file) => {
            Ok(Pruned::Kept("its image is there".to_owned()))
        }
        PruneKind::Leftover if !is_leftover(&pool, &item.file, now) => Ok(Pruned::Kept("it is in use".to_owned())),
        PruneKind::LoneProof | PruneKind::Leftover => delete(calls, &item.file),
    }
}

fn remove_base(
    calls: &mut dyn Calls,
    pool_name: &str,
    fence: &Fence,
    kind: PruneKind,
    base: &Base<'_>,
    now: Timestamp,
) -> Result<Pruned, ProviderError> {
    if let Some(pruned) = in_use(&base.users) {
        return Ok(pruned);
    }
    if kind == PruneKind::Unused
        && let Some(fleet) = lock::other_fleet(calls, fence, now)?
    {
        return Ok(at_work(&fleet));
    }
    match (kind, base.state(now)) {
        (PruneKind::Debris, ImageState::Proven) => return Ok(Pruned::Kept("it was proven meanwhile".to_owned())),
        (_, ImageState::Unproven) => return Ok(Pruned::Kept("somebody else is at work on it".to_owned())),
        _ => {}
    }
    let mut proofs = base.wrong_proofs.iter().chain(&base.proofs);
    let unproven = proofs.try_for_each(|proof| delete(calls, &proof.to_string()).map(drop));
    let again = unproven.and_then(|()| fence.check(calls)).and_then(|()| {
        let rival = if kind == PruneKind::Unused { lock::other_fleet(calls, fence, now)? } else { None };
        let pool = Pool::read(calls, pool_name)?;
        Ok(in_use(&pool.users(base.file)).or_else(|| rival.as_ref().map(at_work)))
    });
    let ended = again.and_then(|used| match used {
        Some(kept) => Ok(kept),
        None => delete(calls, base.file),
    });
    // Whatever was not removed may be used, so that it gets back what vouched for it.
    match ended {
        Ok(Pruned::Removed | Pruned::Gone) => ended,
        Ok(kept) => put_back(calls, base).map(|()| kept),
        Err(failure) => {
            if let Err(error) = put_back(calls, base) {
                tracing::warn!(volume = base.file, %error, "an image lost its proof and is not used for new machines any more");
            }
            Err(failure)
        }
    }
}

fn in_use(users: &BTreeSet<String>) -> Option<Pruned> {
    users.first().map(|user| Pruned::Kept(format!("{user} uses it")))
}

fn at_work(fleet: &Label) -> Pruned {
    Pruned::Kept(format!("a run of the fleet {fleet} is at work on the host"))
}

fn delete(calls: &mut dyn Calls, file: &str) -> Result<Pruned, ProviderError> {
    match calls.delete_volume(file) {
        Ok(()) => Ok(Pruned::Removed),
        Err(error) if error.code == code::NO_STORAGE_VOL && !error.dead => Ok(Pruned::Gone),
        Err(error) => Err(classify("remove the file", file, &error)),
    }
}

fn put_back(calls: &mut dyn Calls, base: &Base<'_>) -> Result<(), ProviderError> {
    let length = file_length(base.volume);
    let put = |calls: &mut dyn Calls, proof: &ProofName| {
        let text = proof.to_string();
        let xml = volume_xml::proof(proof, length).map_err(|error| {
            ProviderError::new(Class::Permanent, Reason::PermanentError, "put the proof back", &text, error.to_string())
        })?;
        match calls.create_volume(&xml) {
            Err(error) if error.code == code::STORAGE_VOL_EXIST && !error.dead => Ok(()),
            other => other.map_err(|error| {
                classify("put the proof back", &text, &error)
                    .hint("machines that use the image are not harmed; the next run that needs it brings another")
            }),
        }
    };
    // One that said another length vouched for nothing and stays away.
    base.proofs.iter().try_for_each(|proof| put(calls, proof))
}

#[cfg(test)]
#[path = "prune_tests.rs"]
mod tests;
