//! What the operations on a host know about where they are.

use std::collections::BTreeSet;

use super::config::PoolReserve;
use super::naming::RunId;
use crate::plan::{HostRef, Label};

/// One host of one entry, for one run of one fleet.
#[derive(Debug, Clone)]
pub(super) struct Site {
    /// The ownership scope.
    pub fleet: Label,
    /// Entry and host.
    pub place: HostRef,
    /// Former names of the host.
    pub aliases: Vec<Label>,
    /// Every place of the config, to tell a stranger from a neighbour.
    pub places: BTreeSet<HostRef>,
    /// Every image id that the entry's config names.
    pub image_ids: BTreeSet<String>,
    /// The run, for its lock.
    pub run: RunId,
    /// The pool's name.
    pub pool: String,
    /// Space of the pool that is never planned away.
    pub reserve: PoolReserve,
    /// Names of the instances that are wanted here.
    pub wanted: BTreeSet<String>,
}
