//! What is found of a proxy: a phase and the condition that goes with it, for each way in which a
//! machine can be absent, off, failed or outdated.

use super::proxy::{ActionReport, ConditionStatus, HeldReport, Phase};
use crate::plan::{Power, Reason};

/// A phase, and the condition `Provisioned` that goes with it.
pub(super) struct Finding {
    pub phase: Phase,
    pub status: ConditionStatus,
    pub reason: Reason,
    pub message: String,
    pub hint: Option<String>,
}

impl Finding {
    pub fn new(phase: Phase, status: ConditionStatus, reason: Reason, message: impl Into<String>) -> Self {
        Self { phase, status, reason, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

/// The reason of a machine that runs: as wanted, or still to be changed.
pub(super) fn outdated(action: Option<&ActionReport>) -> Reason {
    match action {
        Some(action) if !action.succeeded() => action.reason.unwrap_or(Reason::Planned),
        _ => Reason::AsWanted,
    }
}

/// No machine that runs, for a reason that lies in the plan.
pub(super) fn not_there(what: &str, action: Option<&ActionReport>, held: Option<&HeldReport>) -> Finding {
    let (reason, why) = match (action, held) {
        (Some(action), _) => match &action.message {
            Some(message) => (action.reason.unwrap_or(Reason::Planned), format!("{what}: {message}")),
            None => (Reason::Planned, format!("{what}; {} is planned", action.verb)),
        },
        (None, Some(held)) => (held.reason, held.message.clone()),
        (None, None) => (Reason::NotSelected, format!("{what}, and nothing is planned for it")),
    };
    let hint = action.and_then(|action| action.hint.clone()).or_else(|| held.and_then(|held| held.hint.clone()));
    Finding::new(Phase::Pending, ConditionStatus::False, reason, why).hint(hint)
}

/// A machine that is there and does not run.
pub(super) fn stopped(power: &Power, action: Option<&ActionReport>, held: Option<&HeldReport>) -> Finding {
    let (phase, reason, message, hint) = match power {
        Power::Paused { why, hint } => {
            (Phase::Blocked, Reason::Paused, format!("the machine is paused: {why}"), Some(hint.clone()))
        }
        Power::Saved => {
            (Phase::Blocked, Reason::ManagedSave, "the machine is off and its memory is saved".to_owned(), None)
        }
        Power::Unknown(state) => (
            Phase::Blocked,
            Reason::StateUnknown,
            format!("the machine is in a state that is not known here: {state}"),
            None,
        ),
        Power::InTransition(state) => {
            (Phase::Pending, Reason::InTransition, format!("the machine is between two states: {state}"), None)
        }
        Power::ShuttingDown => (Phase::Pending, Reason::InTransition, "the machine is shutting down".to_owned(), None),
        Power::Off(_) | Power::Running => return not_there("the machine is off", action, held),
    };
    Finding::new(phase, ConditionStatus::False, reason, message).hint(hint)
}

/// An action that failed, so that nobody knows what is there.
pub(super) fn failed(action: Option<&ActionReport>) -> Finding {
    let class = action.and_then(|action| action.class.as_deref());
    let (phase, fallback) = match class {
        Some("quota") => (Phase::Blocked, Reason::QuotaExceeded),
        Some("permanent") => (Phase::Failed, Reason::PermanentError),
        _ => (Phase::Failed, Reason::TransientError),
    };
    let reason = action.and_then(|action| action.reason).unwrap_or(fallback);
    let message = action.and_then(|action| action.message.clone()).unwrap_or_else(|| "the action failed".to_owned());
    Finding::new(phase, ConditionStatus::False, reason, message).hint(action.and_then(|action| action.hint.clone()))
}
