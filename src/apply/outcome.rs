//! What came of a plan: plain data for the report, made by the executor alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{ActionId, Address, HostRef, HostTrouble, ImageAction, LockHolder, Reason};

/// What came of carrying out a plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Images that were brought to hosts.
    pub images: Vec<ImageOutcome>,
    /// Every action of the plan, done or not.
    pub actions: BTreeMap<String, ActionOutcome>,
    /// Hosts that were stopped during the run, and why.
    pub stopped_hosts: BTreeMap<HostRef, String>,
    /// A fault of this program that ended a step.
    pub fault: Option<String>,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
    /// Proxies whose machine was not ready within the time that `--wait` gave.
    pub not_ready: Vec<ActionId>,
}

impl Outcome {
    /// Whether an action or an image failed, or was not done because somebody else had changed the host
    /// after the plan was made.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        let bad = |result: &StepResult| matches!(result, StepResult::Failed | StepResult::Changed);
        self.images.iter().any(|image| bad(&image.what.result))
            || self.actions.values().any(|action| bad(&action.result))
    }
}

/// An image and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageOutcome {
    /// Which image, where to.
    pub action: ImageAction,
    /// What came of it.
    pub what: ActionOutcome,
}

/// What came of one action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionOutcome {
    /// How it ended.
    pub result: StepResult,
    /// Why it was skipped or failed.
    pub reason: Option<Reason>,
    /// One line for people, when it was skipped or failed.
    pub message: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Every failure of every attempt (L15).
    pub failures: Vec<Failure>,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// How long each part took, in order.
    pub stages: Vec<StageTime>,
    /// UUID of the machine that is there now.
    pub uuid: Option<String>,
    /// Addresses, where the run waited for them.
    pub address: Option<Address>,
    /// What was left on the host on purpose.
    pub left_behind: Vec<String>,
}

impl ActionOutcome {
    /// An action that was not tried.
    #[must_use]
    pub fn skipped(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            result: StepResult::Skipped,
            reason: Some(reason),
            message: Some(message.into()),
            hint: None,
            failures: Vec::new(),
            seconds: 0.0,
            stages: Vec::new(),
            uuid: None,
            address: None,
            left_behind: Vec::new(),
        }
    }
}

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StepResult {
    /// It was done.
    Done,
    /// It was done already when the step looked.
    AlreadyDone,
    /// The world was not what the plan saw; nothing was done.
    Changed,
    /// It was tried and failed.
    Failed,
    /// It was not tried.
    Skipped,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// `permanent`, `quota`, `transient`, `changed`, `cancelled`.
    pub class: String,
    /// The reason.
    pub reason: Reason,
    /// What was tried on what, and what came back.
    pub message: String,
}

/// How long a part of a step took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageTime {
    /// `define`, `overlay`, `seed`, `start`, `running`.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
}

/// Why an apply did nothing at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStarted {
    /// Another run holds a host.
    #[error("another run is at work on {place}: run {}", holder.run)]
    Locked {
        /// Where.
        place: HostRef,
        /// Who, and until when.
        holder: LockHolder,
        /// Hosts that could not be reached either.
        unreachable: BTreeMap<HostRef, HostTrouble>,
    },
    /// A signal came first.
    #[error("the run was interrupted before anything was done")]
    Interrupted,
}
