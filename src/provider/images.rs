//! Base images in a host's store, as every provider tells of them, and what may be removed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A base image, or what is left of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostImage {
    /// Its key in the config.
    pub key: String,
    /// Digest over where it comes from.
    pub id: String,
    /// Its file name.
    pub file: String,
    /// Length of the file in bytes; none for what is no image any more.
    pub bytes: Option<u64>,
    /// Names of the machines and, where no machine has them, of the volumes that use it.
    pub users: BTreeSet<String>,
    /// Whether it may be used.
    pub state: ImageState,
}

/// Whether a base image may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImageState {
    /// Whole, with its proof.
    Proven,
    /// Without a proof, and too young to be called debris, or in use: somebody may be writing it.
    Unproven,
    /// What a dead run left: `images prune` removes it.
    Debris,
}

impl ImageState {
    /// The state as tables spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Unproven => "unproven",
            Self::Debris => "debris",
        }
    }
}

/// Something in a store that may be removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prunable {
    /// Why it may go.
    pub kind: PruneKind,
    /// Its file name.
    pub file: String,
    /// Bytes that it takes on the host.
    pub bytes: u64,
    /// When it was last changed, by the host's clock.
    pub modified: Option<Timestamp>,
    /// Name of the machine that it was made for, for a disk.
    pub machine: Option<String>,
}

/// Why something may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PruneKind {
    /// A whole image that no disk, no machine and no manifest needs.
    Unused,
    /// A part of an image, left by a run that died.
    Debris,
    /// A proof whose image is gone.
    LoneProof,
    /// A disk or a seed that looks like ours and belongs to no machine.
    Leftover,
}

/// What may be removed from one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prunables {
    /// The things, sorted.
    pub items: Vec<Prunable>,
    /// Names of every machine on the host: a disk that looks left over elsewhere may be one of theirs,
    /// where hosts share a folder.
    pub machines: BTreeSet<String>,
}

/// What became of something that was to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pruned {
    /// It was removed.
    Removed,
    /// It was gone already.
    Gone,
    /// It stays, for this reason: something changed since it was chosen.
    Kept(String),
}
