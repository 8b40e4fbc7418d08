//! `status` of a Proxy and of a ProxySet.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::document as report;
use crate::report::document::{AddressState, ConditionStatus, ConditionType, ProxyReport};

/// What runs have come to for a Proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyStatus {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub phase: Option<String>,
    /// The address that clients use.
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
    /// Digest over what the Proxy says of its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub spec_hash: Option<String>,
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
    /// `metadata.generation` that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Provisioned`: of all members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
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

/// What a report says of a proxy, as its status. What the status said before decides when a condition
/// last changed, and is kept where nothing newer is known (L10).
#[must_use]
pub fn of_proxy(report: &ProxyReport, before: &ProxyStatus, generation: i64) -> ProxyStatus {
    let kept = |known: Option<String>, before: &Option<String>| known.or_else(|| before.clone());
    let nothing_newer = matches!(report.address_state, AddressState::Unknown | AddressState::Stale);
    let ip = report.ip.map(|ip| ip.to_string());
    ProxyStatus {
        phase: Some(word(&report.phase)),
        ip: if nothing_newer { kept(ip, &before.ip) } else { ip },
        port: (report.port > 0).then_some(report.port),
        host: report.host.as_ref().map(ToString::to_string),
        instance: report.uuid.is_some().then(|| report.instance.clone()).flatten(),
        spec_hash: report.spec_digest.clone(),
        observed_generation: Some(generation),
        conditions: report.conditions.iter().map(|it| condition(it, &before.conditions, generation)).collect(),
    }
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
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    ProxySetStatus {
        replicas: count(members.len()),
        ready_replicas: count(members.iter().filter(|member| member.usable).count()),
        observed_generation: Some(generation),
        conditions: vec![condition],
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

/// The word under which a unit variant is written.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "Unknown".to_owned(),
    }
}
