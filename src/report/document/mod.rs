//! The report of a run, `egress-plan.dev/report/v1`: one structure that text, tables, the inventory
//! and a cluster's status are all made from.
//!
//! It holds no secrets: digests, lengths and messages that were cleaned where they came in. A later
//! version of the program may add fields; a reader ignores those that it does not know.

mod build;
mod finding;
mod judge;
mod memory;
mod missing;
mod proxy;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use build::build;
pub use memory::{Memory, Remembered};
pub use proxy::{
    ActionReport, AddressState, Condition, ConditionStatus, ConditionType, HeldReport, OrphanReport, Phase, ProxyMode,
    ProxyReport,
};

use crate::apply::{ActionOutcome, Outcome};
use crate::plan::{
    Address, Counts, Desired, HostRef, ImageNeed, Label, LockHolder, Observed, Plan, ProxyKey, Reason, Refusal,
};

/// A machine that has had no address for so long after its start has failed, where an entry says
/// nothing else.
pub const BOOT_DEADLINE: SignedDuration = SignedDuration::from_mins(15);

/// Everything that a report is made from.
#[derive(Debug, Clone, Copy)]
pub struct ReportInput<'a> {
    /// The run.
    pub run: &'a RunInfo,
    /// What was wanted.
    pub desired: &'a Desired,
    /// What was seen, before anything was done.
    pub observed: &'a Observed,
    /// What was to be done.
    pub plan: &'a Plan,
    /// What came of it; none for a run that only looked.
    pub outcome: Option<&'a Outcome>,
    /// Addresses read after the plan was carried out. They win over those of `observed` and of
    /// `outcome`; a proxy that is not here keeps those.
    pub addresses: &'a BTreeMap<ProxyKey, Address>,
    /// How each host was met.
    pub figures: &'a BTreeMap<HostRef, HostFigures>,
    /// `bootDeadline` of each entry; [`BOOT_DEADLINE`] for one that is not here.
    pub boot_deadlines: &'a BTreeMap<Label, SignedDuration>,
    /// `metadata.generation` of proxies that came from a cluster.
    pub generations: &'a BTreeMap<ProxyKey, i64>,
    /// What is remembered of the time before.
    pub before: Option<&'a Memory>,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Always [`Report::SCHEMA`].
    pub schema: String,
    /// The run.
    pub run: RunInfo,
    /// The figures of the run.
    pub summary: Summary,
    /// Guards that refused the plan.
    pub guards: Vec<Refusal>,
    /// What a reader should know and nobody needs to act on.
    pub notes: Vec<String>,
    /// Every host in scope, by name.
    pub hosts: Vec<HostReport>,
    /// Images that were brought to hosts in this run.
    pub images: Vec<ImageReport>,
    /// Every desired proxy, by key.
    pub proxies: Vec<ProxyReport>,
    /// Machines with this fleet's mark that no desired proxy has at their place.
    pub orphans: Vec<OrphanReport>,
    /// Volumes that look like ours and belong to no machine.
    pub leftovers: Vec<LeftoverReport>,
    /// Hosts that hold, or held, machines of this fleet and that the config does not have (L22).
    pub missing_hosts: Vec<MissingHost>,
}

impl Report {
    /// The format that this program writes and reads.
    pub const SCHEMA: &'static str = "egress-plan.dev/report/v1";

    /// The entry of a proxy.
    #[must_use]
    pub fn proxy(&self, key: &ProxyKey) -> Option<&ProxyReport> {
        self.proxies.iter().find(|proxy| proxy.key == *key)
    }

    /// Leaves out what is not asked for, in the figures of proxies too. Hosts and machines that nobody
    /// wants stay.
    pub fn narrow(&mut self, keep: impl Fn(&ProxyReport) -> bool) {
        self.proxies.retain(keep);
        self.summary.desired = self.proxies.len();
        self.summary.usable = self.proxies.iter().filter(|proxy| proxy.usable).count();
        self.summary.phases.clear();
        for proxy in &self.proxies {
            *self.summary.phases.entry(proxy.phase).or_default() += 1;
        }
    }

    /// Names of the machines that the report knows by host, those that the run deleted left out: what
    /// the next run compares with to see what vanished.
    #[must_use]
    pub fn instances(&self) -> BTreeMap<HostRef, std::collections::BTreeSet<String>> {
        let mut known: BTreeMap<HostRef, std::collections::BTreeSet<String>> = BTreeMap::new();
        let proxies = self
            .proxies
            .iter()
            .filter(|proxy| proxy.uuid.is_some())
            .filter_map(|proxy| Some((proxy.host.as_ref()?, proxy.instance.as_ref()?)));
        let orphans =
            self.orphans.iter().filter(|orphan| !orphan.is_gone()).map(|orphan| (&orphan.host, &orphan.instance));
        for (host, instance) in proxies.chain(orphans) {
            known.entry(host.clone()).or_default().insert(instance.clone());
        }
        known
    }
}

/// The run itself, filled in by the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// The command: `diff`, `apply`, `destroy`, `status`.
    pub command: String,
    /// The ownership scope.
    pub fleet: Label,
    /// Version of the program.
    pub tool: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When the report was made.
    pub ended_at: Timestamp,
    /// How it ended.
    pub result: RunResult,
    /// The code that the process exits with.
    pub exit_code: u8,
    /// Whether files answered for the hosts.
    pub recorded: bool,
}

/// How a run ended, a word for each exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunResult {
    /// Everything is, or is planned to be, as wanted (0).
    Succeeded,
    /// It failed as a whole (1).
    Error,
    /// Changes are pending (2).
    ChangesPending,
    /// A host is unknown or a proxy blocked (3).
    Incomplete,
    /// A guard refused the plan (4).
    Refused,
    /// The saved plan no longer stands (5).
    Stale,
    /// Another run holds the lock (6).
    Locked,
    /// Some actions failed (7).
    ActionsFailed,
    /// The wait for readiness timed out (8).
    NotReady,
    /// A signal ended it (130).
    Interrupted,
}

/// How a host was met, measured by the command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostFigures {
    /// Seconds that looking at it took, before anything was planned.
    pub observe_seconds: Option<f64>,
    /// Calls made to it in the run.
    pub calls: u64,
}

/// A host in scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    /// `entry/host`.
    pub host: HostRef,
    /// Whether it answered completely.
    pub reachable: bool,
    /// [`Reason::Reachable`], or why it is unknown.
    pub reason: Reason,
    /// One line for people, when it is unknown.
    pub message: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// What it is, when it answered.
    pub facts: Option<HostFacts>,
    /// Another run that was at work there.
    pub lock: Option<LockHolder>,
    /// Why no more was begun there during the run.
    pub stopped: Option<String>,
    /// How it was met.
    pub figures: HostFigures,
}

/// What a host is. Figures of the store are those that it last reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostFacts {
    /// `libvirt 11.6.0`.
    pub software: String,
    /// `pool default`.
    pub store: String,
    /// Bytes in all.
    pub capacity_bytes: u64,
    /// Free bytes.
    pub available_bytes: u64,
    /// Machines with this fleet's mark.
    pub ours: usize,
    /// Other machines.
    pub others: usize,
}

/// An image that was brought to a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageReport {
    /// The host.
    pub host: HostRef,
    /// The image.
    pub image: ImageNeed,
    /// What came of it.
    pub outcome: ActionOutcome,
}

/// A volume that looks like ours and belongs to no machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftoverReport {
    /// The host.
    pub host: HostRef,
    /// Its file name.
    pub name: String,
    /// Its size in bytes, where the host said.
    pub bytes: Option<u64>,
}

/// A host name that the config does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissingHost {
    /// `entry/host`, as a mark or the memory of the time before names it.
    pub host: String,
    /// The host of the config on which its machines were seen; none when only the time
    /// before knew of them.
    pub seen_on: Option<HostRef>,
    /// Names of the machines.
    pub instances: Vec<String>,
    /// One line for people.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// The figures of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Hosts in scope.
    pub hosts: usize,
    /// Hosts that did not answer completely.
    pub unknown_hosts: usize,
    /// Desired proxies.
    pub desired: usize,
    /// Proxies that the inventory lists.
    pub usable: usize,
    /// Proxies by phase; a phase that none is in is left out.
    pub phases: BTreeMap<Phase, usize>,
    /// What the plan held.
    pub planned: Counts,
    /// Proxies that were as wanted.
    pub unchanged: usize,
    /// Actions that were done, or found done.
    pub done: usize,
    /// Actions that failed.
    pub failed: usize,
    /// Actions that were not done, for whatever reason.
    pub skipped: usize,
    /// Machines that no desired proxy has, as long as they are there.
    pub orphans: usize,
    /// Volumes of no machine.
    pub leftovers: usize,
}

#[cfg(test)]
mod tests;
