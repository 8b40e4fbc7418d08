//! A proxy in the report: its phase, its address, its conditions, and what was done about it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply::{Failure, StageTime, StepResult};
use crate::plan::{HostRef, ProxyKey, Reason, Verdict};

/// A desired proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyReport {
    /// Its key.
    pub key: ProxyKey,
    /// A machine of ours, or an endpoint of somebody else's.
    pub mode: ProxyMode,
    /// Labels of the manifest.
    pub labels: BTreeMap<String, String>,
    /// Where its machine is to be; none for an endpoint.
    pub host: Option<HostRef>,
    /// The machine's name, there or to come.
    pub instance: Option<String>,
    /// UUID of the machine that is there, as far as that is known.
    pub uuid: Option<String>,
    /// Digest over what the manifest says of the machine.
    pub spec_digest: Option<String>,
    /// How far it has come.
    pub phase: Phase,
    /// One line for people about the phase.
    pub message: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The address that clients use, IPv4 first; the first of `addresses`.
    pub ip: Option<IpAddr>,
    /// All its addresses.
    pub addresses: Vec<IpAddr>,
    /// What is known of the addresses.
    pub address_state: AddressState,
    /// The host name or address that the manifest of an endpoint gives.
    pub endpoint: Option<String>,
    /// The TCP port that it listens on.
    pub port: u16,
    /// Whether the inventory lists it: it runs, or its host did not answer and it was listed before,
    /// and it has an address.
    pub usable: bool,
    /// When its machine was made.
    pub created_at: Option<Timestamp>,
    /// When its machine was last started by a run.
    pub started_at: Option<Timestamp>,
    /// `Provisioned` and `Healthy`.
    pub conditions: Vec<Condition>,
    /// What was planned for it.
    pub action: Option<ActionReport>,
    /// What is not done for it, and why.
    pub held: Option<HeldReport>,
}

impl ProxyReport {
    /// A condition.
    #[must_use]
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// The two kinds of proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProxyMode {
    /// A machine that this program makes.
    Managed,
    /// An endpoint that this program only lists and probes.
    External,
}

/// How far a proxy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// There is no running machine yet, and a run will see to it.
    Pending,
    /// The machine runs and has no address yet.
    Provisioning,
    /// The machine runs, or the endpoint is listed; nobody has proven it from outside.
    Running,
    /// It was proven from outside.
    Ready,
    /// It was tried and failed, or it did not come up in time.
    Failed,
    /// A person is needed.
    Blocked,
    /// Its host could not be observed.
    Unknown,
    /// It is about to go.
    Deleting,
}

/// What is known of a proxy's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AddressState {
    /// The host gave them in this run.
    Known,
    /// Nobody who could give them did; these are those of the manifest.
    Configured,
    /// Nobody who could give them did; these are those of the previous report (L10).
    Stale,
    /// The machine has none yet.
    Pending,
    /// Nothing is known.
    Unknown,
}

/// A condition in the shape that Kubernetes gives them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why.
    pub reason: Reason,
    /// One line for people; may be empty.
    pub message: String,
    /// When the status last changed; another reason or message does not move it.
    pub last_transition_time: Timestamp,
    /// `metadata.generation` of the object that this was found for, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The conditions of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionType {
    /// The machine runs and has an address. Unknown while its host is, and kept as it was while the
    /// address cannot be read.
    Provisioned,
    /// It was proven from outside.
    Healthy,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

/// An action of the plan, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionReport {
    /// Its id in the plan.
    pub id: String,
    /// `create`, `start`, `update`, `replace`, `delete`.
    pub verb: String,
    /// Why it was planned.
    pub why: String,
    /// How it ended; none when the run only planned.
    pub outcome: Option<StepResult>,
    /// Why it failed or was not done.
    pub reason: Option<Reason>,
    /// Class of the last failure: `permanent`, `quota`, `transient`, `changed`, `cancelled`.
    pub class: Option<String>,
    /// One line for people, when it failed or was not done.
    pub message: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Every failure of every attempt (L15).
    pub failures: Vec<Failure>,
    /// Seconds from its start to its end.
    pub seconds: Option<f64>,
    /// How long each part took, in order.
    pub stages: Vec<StageTime>,
    /// What was left on the host on purpose.
    pub left_behind: Vec<String>,
}

impl ActionReport {
    /// Whether it was done, or found done.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        matches!(self.outcome, Some(StepResult::Done | StepResult::AlreadyDone))
    }
}

/// Something that is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldReport {
    /// Whether it needs a person.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// One line for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A machine with this fleet's mark that no desired proxy has at its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrphanReport {
    /// Where it is.
    pub host: HostRef,
    /// Its name on the host.
    pub instance: String,
    /// Its UUID.
    pub uuid: String,
    /// The proxy that its mark bears, where it can be read.
    pub key: Option<ProxyKey>,
    /// [`Phase::Deleting`], [`Phase::Blocked`], or [`Phase::Pending`] for one that waits or is kept.
    pub phase: Phase,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// What was planned for it.
    pub action: Option<ActionReport>,
    /// What is not done for it, and why.
    pub held: Option<HeldReport>,
}

impl OrphanReport {
    /// Whether this run deleted it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.action.as_ref().is_some_and(ActionReport::succeeded)
    }
}
