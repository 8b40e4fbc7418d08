//! The base images of a pool: what is there, what vouches for it and who uses it. Reading asks the
//! host; judging is a function of what it answered.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::classify::classify;
use super::host::calls::{CallError, Calls, Volume};
use super::naming::{BaseName, LockName, ProofName};
use super::observe::file_length;
use super::users::{Named, named, users_of};
use crate::plan::{Label, Reason};
use crate::provider::error::{Class, ProviderError};
use crate::provider::images::{HostImage, ImageState};

/// A base without a proof may be one that somebody writes, until it is older than this: far longer
/// than the budget of an upload.
pub(super) const DEBRIS_AGE: SignedDuration = SignedDuration::from_hours(2);

/// A pool and the domains of its host, at one moment.
pub(super) struct Pool {
    /// Its volumes by name, locks left out.
    pub volumes: BTreeMap<String, Volume>,
    /// What the domains name.
    pub domains: Vec<Named>,
}

/// A base image.
pub(super) struct Base<'a> {
    pub name: BaseName,
    pub file: &'a str,
    pub volume: &'a Volume,
    /// Its proofs that say its length.
    pub proofs: Vec<ProofName>,
    /// Its proofs that say another one.
    pub wrong_proofs: Vec<ProofName>,
    pub users: BTreeSet<String>,
}

impl Pool {
    /// Asks for every volume and every domain's configurations: any answer that fails makes the
    /// whole fail, for a user that was not seen is a user all the same.
    pub fn read(calls: &mut dyn Calls, site_pool: &str) -> Result<Self, ProviderError> {
        let failed = |error: CallError| classify("look at the pool", site_pool, &error);
        let pool = calls.pool().map_err(failed)?;
        if !pool.active {
            let text = "the pool is not running";
            return Err(ProviderError::new(
                Class::Permanent,
                Reason::PoolNotActive,
                "look at the pool",
                site_pool,
                text,
            )
            .hint(format!("virsh -c qemu:///system pool-start {site_pool}")));
        }
        let mut volumes = BTreeMap::new();
        for name in calls.volume_names().map_err(failed)? {
            if LockName::parse(&name).is_some() {
                continue;
            }
            if let Some(volume) = calls.volume(&name).map_err(|error| classify("look at the volume", &name, &error))? {
                volumes.insert(name, volume);
            }
        }
        Ok(Self { volumes, domains: named(calls, None)? })
    }

    /// Names of those that use a file.
    pub fn users(&self, file: &str) -> BTreeSet<String> {
        users_of(file, &self.volumes, &self.domains)
    }

    /// The bases, by name.
    pub fn bases(&self) -> impl Iterator<Item = Base<'_>> {
        self.volumes.iter().filter_map(|(file, volume)| {
            let name = BaseName::parse(file)?;
            let says_length = |proof: &ProofName| {
                self.volumes.get(&proof.to_string()).is_some_and(|proof| proof.capacity == file_length(volume))
            };
            let (proofs, wrong_proofs) = self.proofs().filter(|proof| proof.base == name).partition(says_length);
            Some(Base { name, file, volume, proofs, wrong_proofs, users: self.users(file) })
        })
    }

    /// The base of that file name.
    pub fn base(&self, file: &str) -> Option<Base<'_>> {
        self.bases().find(|base| base.file == file)
    }

    /// Proofs whose base is not there.
    pub fn lone_proofs(&self) -> impl Iterator<Item = ProofName> {
        self.proofs().filter(|proof| !self.volumes.contains_key(&proof.base.to_string()))
    }

    fn proofs(&self) -> impl Iterator<Item = ProofName> {
        self.volumes.keys().filter_map(|name| ProofName::parse(name))
    }

    /// What `images list` shows. `now` is close to the host's clock.
    pub fn images(&self, entry: &Label, now: Timestamp) -> Vec<HostImage> {
        let key = |name: &BaseName| {
            let prefix = format!("{entry}-");
            name.owner().strip_prefix(&prefix).unwrap_or(name.owner()).to_owned()
        };
        let bases = self.bases().map(|base| HostImage {
            key: key(&base.name),
            id: base.name.id().to_owned(),
            file: base.file.to_owned(),
            bytes: Some(file_length(base.volume)),
            state: base.state(now),
            users: base.users,
        });
        let lone = self.lone_proofs().map(|proof| HostImage {
            key: key(&proof.base),
            id: proof.base.id().to_owned(),
            file: proof.to_string(),
            bytes: None,
            users: BTreeSet::new(),
            state: ImageState::Debris,
        });
        let mut images: Vec<HostImage> = bases.chain(lone).collect();
        images.sort();
        images
    }
}

impl Base<'_> {
    /// Whether a proof vouches for it.
    pub fn is_proven(&self) -> bool {
        !self.proofs.is_empty()
    }

    /// Whether it may be used. One whose proof says another length is used by nobody that looks, and
    /// is judged like one without.
    pub fn state(&self, now: Timestamp) -> ImageState {
        if self.is_proven() {
            ImageState::Proven
        } else if self.users.is_empty() && is_old(self.volume, now) {
            ImageState::Debris
        } else {
            ImageState::Unproven
        }
    }
}

/// Whether a file is older than [`DEBRIS_AGE`]. One whose time is not known is not.
pub(super) fn is_old(volume: &Volume, now: Timestamp) -> bool {
    volume.modified.is_some_and(|modified| now.duration_since(modified) > DEBRIS_AGE)
}
