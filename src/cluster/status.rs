//! `status` of a Proxy and of a ProxySet.

use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::source::Snapshot;
use crate::plan::{HostRef, ProxyKey};
use crate::report::document as report;
use crate::report::document::{ConditionStatus, ConditionType, Memory, ProxyReport, Remembered};

/// How far a proxy has come, and where its machine is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub phase: Option<String>,
    /// The address that clients use; none while they should not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub ip: Option<String>,
    /// The TCP port that it listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// `entry/host` of its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub host: Option<String>,
    /// The machine's name on that host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub instance: Option<String>,
    /// The machine's UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uuid: Option<String>,
    /// Since when, at the latest, the machine has been running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub started_at: Option<Timestamp>,
    /// Digest over what the manifest says of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub spec_hash: Option<String>,
}

/// What runs have come to for a Proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyStatus {
    /// How far it has come, and where its machine is.
    #[serde(flatten)]
    pub machine: Machine,
    /// `metadata.generation` that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Provisioned` and `Healthy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// What runs have come to for a ProxySet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxySetStatus {
    /// How many members are wanted.
    #[serde(default)]
    pub replicas: i32,
    /// How many of them run and have an address.
    #[serde(default)]
    pub ready_replicas: i32,
    /// The members, by index; of a larger set the first thousand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    pub members: Vec<MemberStatus>,
    /// `metadata.generation` that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Provisioned`: of all members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// What runs have come to for a member of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its name, `<set>-<index>`.
    #[schemars(length(max = 63))]
    pub name: String,
    /// How far it has come, and where its machine is.
    #[serde(flatten)]
    pub machine: Machine,
}

/// A condition, in the shape of `meta/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Provisioned` or `Healthy`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// One word, see the list of reasons.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// One line for people.
    #[schemars(length(max = 32_768))]
    pub message: String,
    /// When `status` last changed.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// `metadata.generation` that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The most characters of a message: enough for people, far below what the API takes.
const MESSAGE: usize = 1_024;
/// The most members that a set's status lists, since an object may have about a megabyte.
const MEMBERS: usize = 1_000;

/// What a report says of a proxy, as its status. What the status said before decides when a condition
/// last changed.
#[must_use]
pub fn of_proxy(report: &ProxyReport, before: &ProxyStatus, generation: i64) -> ProxyStatus {
    ProxyStatus {
        machine: machine(report, Some(&before.machine)),
        observed_generation: Some(generation),
        conditions: report.conditions.iter().map(|it| condition(it, &before.conditions, generation)).collect(),
    }
}

fn machine(report: &ProxyReport, before: Option<&Machine>) -> Machine {
    let there = report.uuid.is_some();
    Machine {
        phase: Some(word(&report.phase)),
        ip: report.ip.filter(|_| report.usable).map(|ip| ip.to_string()),
        port: (report.port > 0).then_some(report.port),
        host: report.host.as_ref().map(ToString::to_string),
        instance: report.instance.clone().filter(|_| there),
        uuid: report.uuid.clone(),
        started_at: started_at(report, before).filter(|_| there),
        spec_hash: report.spec_digest.clone(),
    }
}

/// Since when a machine has been running. The run that starts one knows its own end alone, and a later
/// one the beginning of the start: of the same machine the later time stays, so that nothing is written
/// for the difference.
fn started_at(report: &ProxyReport, before: Option<&Machine>) -> Option<Timestamp> {
    let before = before.filter(|before| before.uuid == report.uuid).and_then(|before| before.started_at);
    report.started_at.or(report.created_at).max(before)
}

/// What statuses remember for the next run, as a report does (L10): a host that does not answer, or an
/// agent that restarts, takes no proxy out of use.
#[must_use]
pub fn memory(snapshot: &Snapshot) -> Memory {
    let mut memory = Memory::default();
    let mut remember = |key: ProxyKey, machine: Machine, conditions: &[Condition]| {
        let host: Option<HostRef> = machine.host.and_then(|host| host.parse().ok());
        if let (Some(_), Some(instance), Some(host)) = (&machine.uuid, machine.instance, &host) {
            memory.machines.entry(host.clone()).or_default().insert(instance);
        }
        let addresses: Vec<IpAddr> = machine.ip.and_then(|ip| ip.parse().ok()).into_iter().collect();
        let remembered = Remembered {
            host,
            uuid: machine.uuid,
            usable: !addresses.is_empty(),
            addresses,
            conditions: conditions.iter().filter_map(Condition::read).collect(),
            at: machine.started_at,
        };
        // A Proxy that was a member before has no status of its own yet.
        if remembered.uuid.is_some() || !memory.proxies.contains_key(&key) {
            memory.proxies.insert(key, remembered);
        }
    };
    for (set, known) in &snapshot.sets {
        let status: ProxySetStatus = known.status();
        for member in status.members {
            if let Ok(key) = ProxyKey::new(set.namespace(), &member.name) {
                remember(key, member.machine, &[]);
            }
        }
    }
    for (key, known) in &snapshot.proxies {
        let status: ProxyStatus = known.status();
        remember(key.clone(), status.machine, &status.conditions);
    }
    memory
}

/// What a report says of a set's members, as the set's status.
#[must_use]
pub fn of_set(members: &[&ProxyReport], before: &ProxySetStatus, generation: i64, now: Timestamp) -> ProxySetStatus {
    let provisioned = |member: &&&ProxyReport| {
        member.condition(ConditionType::Provisioned).is_some_and(|it| it.status == ConditionStatus::True)
    };
    let done = members.iter().filter(provisioned).count();
    let other = members.iter().find(|member| !provisioned(member));
    let state = other.and_then(|member| member.condition(ConditionType::Provisioned));
    let (status, reason) = state.map_or_else(
        || ("True".to_owned(), "Provisioned".to_owned()),
        |state| (word(&state.status), word(&state.reason)),
    );
    let message = match (other, state) {
        (Some(member), Some(state)) => {
            format!("{done} of {} are provisioned; {}: {}", members.len(), member.key.name(), state.message)
        }
        _ => format!("{done} of {} are provisioned", members.len()),
    };
    let condition = Condition {
        kind: "Provisioned".to_owned(),
        last_transition_time: since(&before.conditions, "Provisioned", &status).unwrap_or_else(|| seconds(now)),
        status,
        reason,
        message: cut(&message),
        observed_generation: Some(generation),
    };
    let mut by_index = members.to_vec();
    by_index.sort_by_key(|member| (member.key.name().len(), member.key.name()));
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    ProxySetStatus {
        replicas: count(members.len()),
        ready_replicas: count(members.iter().filter(|member| member.usable).count()),
        members: by_index.iter().take(MEMBERS).map(|member| of_member(member, &before.members)).collect(),
        observed_generation: Some(generation),
        conditions: vec![condition],
    }
}

fn of_member(report: &ProxyReport, before: &[MemberStatus]) -> MemberStatus {
    let name = report.key.name();
    let before = before.iter().find(|member| member.name == name).map(|member| &member.machine);
    MemberStatus { name: name.to_owned(), machine: machine(report, before) }
}

impl Condition {
    /// As a report has it; none of a kind or a word that this version does not know.
    fn read(&self) -> Option<report::Condition> {
        Some(report::Condition {
            kind: from_word(&self.kind)?,
            status: from_word(&self.status)?,
            reason: from_word(&self.reason)?,
            message: self.message.clone(),
            last_transition_time: self.last_transition_time.parse().ok()?,
            observed_generation: self.observed_generation,
        })
    }
}

fn condition(found: &report::Condition, before: &[Condition], generation: i64) -> Condition {
    let (kind, status) = (word(&found.kind), word(&found.status));
    Condition {
        last_transition_time: since(before, &kind, &status).unwrap_or_else(|| seconds(found.last_transition_time)),
        kind,
        status,
        reason: word(&found.reason),
        message: cut(&found.message),
        observed_generation: Some(generation),
    }
}

/// Since when a condition has had its status, where it has it already.
fn since(before: &[Condition], kind: &str, status: &str) -> Option<String> {
    let there = before.iter().find(|condition| condition.kind == kind && condition.status == status)?;
    Some(there.last_transition_time.clone())
}

/// To the second, as `metav1.Time` is.
fn seconds(time: Timestamp) -> String {
    time.round(jiff::Unit::Second).unwrap_or(time).to_string()
}

fn cut(text: &str) -> String {
    text.chars().take(MESSAGE).collect()
}

fn from_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

/// The word under which a unit variant is written.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "Unknown".to_owned(),
    }
}
