//! Base images on a host: finding one that is whole, and bringing one there.
//!
//! Two runs, two fleets, or a person with `virsh` may meet on one pool, and libvirt guards none of
//! it. So a base is used only when a proof stands beside it, a proof is made only after the file's
//! length was looked at on the host, and nothing is removed that this call did not make.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use super::classify::classify;
use super::config::PoolReserve;
use super::host::calls::{CallError, Calls, code};
use super::lock::Fence;
use super::naming::{BaseName, ProofName};
use super::observe::{file_length, proven_images, refresh_pool};
use super::volume_xml;
use crate::plan::{BaseImage, ImageNeed, Label, Reason};
use crate::provider::error::{Class, ProviderError};

/// An image in the spool, verified.
#[derive(Debug, Clone)]
pub(super) struct Spooled {
    pub path: PathBuf,
    pub bytes: u64,
    pub sha256: String,
    pub format: super::naming::Format,
}

/// The proven base for an image, if the host has one.
pub(super) fn find(calls: &mut dyn Calls, need: &ImageNeed) -> Result<Option<BaseImage>, ProviderError> {
    let failed = |error: CallError| classify("look for the base image", &need.key, &error);
    let volumes: BTreeSet<String> = calls.volume_names().map_err(failed)?.into_iter().collect();
    let ids = BTreeSet::from([need.id.clone()]);
    proven_images(calls, &volumes, &ids).map(|mut images| images.remove(&need.id)).map_err(|trouble| {
        ProviderError::new(Class::Transient, trouble.reason, "look for the base image", &need.key, trouble.message)
    })
}

/// Whether a base and its proof are still there.
pub(super) fn still_there(calls: &mut dyn Calls, image: &BaseImage) -> Result<bool, ProviderError> {
    let names = calls.volume_names().map_err(|error| classify("look for the base image", &image.name, &error))?;
    let proof = |name: &String| ProofName::parse(name).is_some_and(|proof| proof.base.to_string() == image.name);
    Ok(names.contains(&image.name) && names.iter().any(proof))
}

/// Refuses an image that does not fit beside the reserve.
pub(super) fn check_space(
    calls: &mut dyn Calls,
    need: &ImageNeed,
    bytes: u64,
    reserve: PoolReserve,
) -> Result<(), ProviderError> {
    let pool = calls.pool().map_err(|error| classify("look at the pool", "", &error))?;
    let reserve = reserve.bytes(pool.capacity);
    let room = pool.available.saturating_sub(reserve);
    if bytes > room {
        let text =
            format!("the image has {bytes} bytes and the pool has room for {room} beside its reserve of {reserve}");
        return Err(ProviderError::new(Class::Quota, Reason::QuotaExceeded, "bring the image", &need.key, text)
            .hint("free space in the pool, or make it larger"));
    }
    Ok(())
}

/// Uploads a spooled image under a fresh name, looks at what arrived, and proves it. On failure only
/// the volume that this call made is removed; the caller gives a connection that still works.
pub(super) fn put(
    calls: &mut dyn Calls,
    fence: &Fence,
    entry: &Label,
    need: &ImageNeed,
    spooled: &Spooled,
    nonce: &str,
    sent: &mut dyn FnMut(u64),
) -> Result<(), (ProviderError, Option<String>)> {
    let key: Label = need.key.parse().map_err(|_| (odd("its key is not a label", &need.key), None))?;
    let name = BaseName::new(entry, &key, &need.id, nonce, spooled.format)
        .ok_or_else(|| (odd("its id is not 32 hex digits", &need.key), None))?;
    let base = name.to_string();
    let xml = volume_xml::raw(&base, 0).map_err(|error| (odd(&error.to_string(), &base), None))?;
    // A lost answer may hide that it was made; its name is fresh, so that nobody else made it.
    calls.create_volume(&xml).map_err(|error| {
        let unfinished = error.dead.then(|| base.clone());
        (classify("make the base image", &base, &error), unfinished)
    })?;
    fill(calls, fence, &name, spooled, sent).map_err(|failure| (failure, Some(base.clone())))?;
    prove(calls, &name, spooled)
}

fn odd(text: &str, object: &str) -> ProviderError {
    ProviderError::new(Class::Permanent, Reason::PermanentError, "name the base image", object, text)
}

fn fill(
    calls: &mut dyn Calls,
    fence: &Fence,
    name: &BaseName,
    spooled: &Spooled,
    sent: &mut dyn FnMut(u64),
) -> Result<(), ProviderError> {
    let base = name.to_string();
    let local = |error: std::io::Error| {
        ProviderError::new(Class::Transient, Reason::TransientError, "read the spooled image", &base, error.to_string())
    };
    let file = File::open(&spooled.path).map_err(local)?;
    calls
        .upload(&base, &mut BufReader::with_capacity(256 << 10, file), spooled.bytes, sent)
        .map_err(|error| classify("upload the base image", &base, &error))?;
    refresh_pool(calls, &base)?;
    let volume = calls.volume(&base).map_err(|error| classify("look at the base image", &base, &error))?;
    let Some(volume) = volume else {
        let text = "somebody removed it while it was being uploaded";
        return Err(ProviderError::new(Class::Transient, Reason::TransientError, "upload the base image", &base, text));
    };
    let arrived = file_length(&volume);
    if arrived != spooled.bytes {
        // A full disk can swallow the last bytes and still report success.
        let text = format!("{arrived} of {} bytes arrived; the disk of the pool is probably full", spooled.bytes);
        return Err(ProviderError::new(Class::Quota, Reason::QuotaExceeded, "upload the base image", &base, text)
            .hint("free space in the pool, or make it larger"));
    }
    // An upload takes minutes. A run that lost its lock meanwhile leaves the image to the one that took
    // it, which has brought its own by now.
    fence.check(calls)
}

/// Makes the proof. Where its answer is lost, the daemon may still be about to make it, and somebody to
/// use what it proves, so that the image is no unfinished one then.
fn prove(calls: &mut dyn Calls, name: &BaseName, spooled: &Spooled) -> Result<(), (ProviderError, Option<String>)> {
    let base = name.to_string();
    let proof = ProofName { base: name.clone(), sha256: spooled.sha256.clone() };
    let xml = volume_xml::proof(&proof, spooled.bytes)
        .map_err(|error| (odd(&error.to_string(), &base), Some(base.clone())))?;
    match calls.create_volume(&xml) {
        Err(error) if error.code == code::STORAGE_VOL_EXIST => Ok(()),
        other => other.map_err(|error| {
            let unfinished = (!error.dead).then(|| base.clone());
            (classify("prove the base image", &base, &error), unfinished)
        }),
    }
}

/// Removes a base that a failed upload of this run made. One that has a proof all the same, since only
/// the answer was lost, may be in use by now and stays.
pub(super) fn discard(calls: &mut dyn Calls, base: &str) -> Result<(), ProviderError> {
    let names = calls.volume_names().map_err(|error| classify("look for the proof", base, &error))?;
    if names.iter().any(|name| ProofName::parse(name).is_some_and(|proof| proof.base.to_string() == base)) {
        return Ok(());
    }
    match calls.delete_volume(base) {
        Err(error) if error.code != code::NO_STORAGE_VOL => {
            Err(classify("remove the unfinished base image", base, &error))
        }
        _ => Ok(()),
    }
}
