//! Providers: what turns a plan into machines, and hosts into observations.
//!
//! A provider decides nothing that the plan has not decided. It may use `plan` and nothing else of
//! the crate. A new provider is a folder here, a line in the registry, and a pass of the conformance
//! suite.

pub mod check;
pub mod document;
pub mod error;
pub mod images;
pub mod libvirt;
pub mod outbound;
pub mod registry;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::plan::{Action, Address, HostRef, HostTrouble, HostView, ImageNeed, Label, LockHolder, Managed, Proxy};
pub use check::{CheckReport, CheckStage};
pub use error::{Class, ProviderError};
pub use images::{HostImage, ImageState, Prunable, Prunables, PruneKind, Pruned};
pub use registry::Providers;

/// How deep an observation looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What a plan needs.
    Plan,
    /// The same under the run's lock: figures are refreshed where something is to be created, and
    /// machines left half-made are taken for what a dead run left.
    Locked,
    /// What a plan needs, and the addresses of running machines.
    Addresses,
}

/// A transfer under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// To the spool of this machine, or from it to a host.
    pub direction: Direction,
    /// Image key.
    pub image: String,
    /// The host, for an upload.
    pub place: Option<HostRef>,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all, where that is known.
    pub total: Option<u64>,
}

/// Which way an image goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From its URL to this machine.
    Download,
    /// From this machine to a host.
    Upload,
}

/// What a step tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A new part of the step begins: `overlay`, `seed`, `start`.
    Stage(&'static str),
    /// Bytes went.
    Transfer(Transfer),
}

/// What every action is given: how to stop, whom to tell, how far to wait.
#[derive(Clone)]
pub struct StepContext {
    /// Cancelled by the second signal: transfers end at once, calls at their next boundary.
    pub cancel: CancellationToken,
    /// Told of progress; must return at once.
    pub tell: Arc<dyn Fn(Progress) + Send + Sync>,
}

/// What an action did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// It was done already when the step looked.
    pub already: bool,
    /// UUID of the machine that is there now.
    pub uuid: Option<String>,
    /// What was left behind on purpose: disks that somebody attached, for one.
    pub left_behind: Vec<String>,
    /// How long each part took.
    pub stages: Vec<(&'static str, Duration)>,
}

/// What came of an attempt to lock a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAttempt {
    /// The host is this run's until the lock is released or runs out.
    Acquired,
    /// Another run is at work there; nothing of ours is left behind.
    HeldBy(LockHolder),
    /// Its store is stopped. The lock would lie there, so that nothing is held and nothing can be done;
    /// the host can be looked at all the same.
    NoStore,
}

/// One entry of `providers:`.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The entry's name.
    fn entry(&self) -> &Label;

    /// Names of the entry's hosts.
    fn hosts(&self) -> Vec<Label>;

    /// Makes sure that a host can be reached; what is opened is used later.
    ///
    /// # Errors
    /// With the stage that failed.
    async fn reach(&self, host: &Label) -> Result<(), HostTrouble>;

    /// Tries once to take the fleet's lock on a host. The first look of a run at a host.
    ///
    /// # Errors
    /// The host could not be reached or did not answer: it is unknown for this run.
    async fn lock(&self, host: &Label) -> Result<LockAttempt, HostTrouble>;

    /// Renews the lock. From half its life without a renewal on, nothing more is begun there.
    async fn renew(&self, host: &Label) -> Result<(), ProviderError>;

    /// Gives the lock back. After a call with an unknown outcome it is left to run out instead.
    async fn unlock(&self, host: &Label);

    /// Looks at a host. Total: everything or a reason.
    ///
    /// # Errors
    /// Anything that was not answered makes the host unknown.
    async fn observe(&self, host: &Label, depth: Depth) -> Result<HostView, HostTrouble>;

    /// Brings a base image to a host, whole and proven, or finds it there.
    async fn ensure_image(&self, host: &Label, need: &ImageNeed, context: &StepContext) -> Result<Done, ProviderError>;

    /// Does one action: looks again, acts, verifies. `proxy` is what is wanted, for all but a delete.
    ///
    /// # Errors
    /// [`Class::Changed`] when the world is not what the plan saw; nothing was done then.
    async fn act(
        &self,
        action: &Action,
        proxy: Option<(&Proxy, &Managed)>,
        context: &StepContext,
    ) -> Result<Done, ProviderError>;

    /// Addresses of a running machine, within a short budget.
    async fn address(&self, host: &Label, uuid: &str) -> Address;

    /// Checks whether a host is ready. Changes and refreshes nothing.
    async fn check(&self, host: &Label, budget: Duration) -> CheckReport;

    /// The base images in a host's store and who uses them. Changes and refreshes nothing; what is old
    /// is judged by this machine's clock.
    ///
    /// # Errors
    /// Anything that was not answered makes the host unknown.
    async fn images(&self, host: &Label) -> Result<Vec<HostImage>, HostTrouble>;

    /// What may be removed from the store of a host that this run has locked: images whose id is not in
    /// `needed` and that nobody uses, what dead runs left of them and, with `leftovers`, disks of no
    /// machine. Figures are refreshed, and what is old is judged by the host's clock.
    ///
    /// # Errors
    /// Anything that was not answered makes the host unknown.
    async fn prunables(
        &self,
        host: &Label,
        needed: &BTreeSet<String>,
        leftovers: bool,
    ) -> Result<Prunables, HostTrouble>;

    /// Removes something that [`Provider::prunables`] named, if it still may go: looks again, more than
    /// once.
    async fn prune(&self, host: &Label, item: &Prunable, cancel: &CancellationToken) -> Result<Pruned, ProviderError>;

    /// Calls made to a host so far.
    fn calls(&self, host: &Label) -> u64;

    /// How long the run's first look at a host took; nothing when it was not looked at.
    fn looked_for(&self, host: &Label) -> Option<Duration>;

    /// Ends every connection, each in under a second.
    async fn close(&self);
}

/// Addresses in the order in which they are shown and preferred: IPv4 first, then by value.
#[must_use]
pub fn sorted_addresses(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort_by_key(|address| (address.is_ipv6(), *address));
    addresses.dedup();
    addresses
}
