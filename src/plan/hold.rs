//! What is not done, and why.

use super::change::{Held, Verdict};
use super::name::{HostRef, ProxyKey};
use super::observed::{HostView, Power};
use super::reason::Reason;

/// A thing that is not done, before it is known for whom.
pub(super) struct Hold {
    verdict: Verdict,
    reason: Reason,
    message: String,
    hint: Option<String>,
}

impl Hold {
    pub fn blocked(reason: Reason, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Blocked, reason, message: message.into(), hint: None }
    }

    pub fn waiting(reason: Reason, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Waiting, reason, message: message.into(), hint: None }
    }

    pub fn kept(reason: Reason, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Kept, reason, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn held(self, place: &HostRef, key: Option<&ProxyKey>, instance: Option<&str>) -> Held {
        Held {
            place: Some(place.clone()),
            key: key.cloned(),
            instance: instance.map(str::to_owned),
            verdict: self.verdict,
            reason: self.reason,
            message: self.message,
            hint: self.hint,
        }
    }
}

/// Whether a machine in this state may be acted on. `forced` says that a person asked for it by
/// name: then it may be paused or saved as well, and nothing else.
pub(super) fn may_touch(power: &Power, forced: bool) -> bool {
    match power {
        Power::Running | Power::ShuttingDown | Power::Off(_) => true,
        Power::Paused { .. } | Power::Saved => forced,
        Power::InTransition(_) | Power::Unknown(_) => false,
    }
}

/// Holds what [`may_touch`] does not allow.
pub(super) fn touchable(power: &Power, forced: bool, console: &str, instance: &str) -> Result<(), Hold> {
    if may_touch(power, forced) {
        return Ok(());
    }
    Err(match power {
        Power::Running | Power::ShuttingDown | Power::Off(_) => return Ok(()),
        Power::Paused { why, hint } => {
            Hold::blocked(Reason::Paused, format!("the machine is paused: {why}")).hint(hint.clone())
        }
        Power::Saved => Hold::blocked(Reason::ManagedSave, "the machine is off and its memory is saved")
            .hint(format!(
                "to let it go on: {console} start {instance}; to drop what was saved: {console} managedsave-remove {instance}"
            )),
        Power::InTransition(state) => {
            Hold::waiting(Reason::InTransition, format!("the machine is between two states ({state})"))
        }
        Power::Unknown(state) => {
            Hold::blocked(Reason::StateUnknown, format!("the machine is in a state that is not known here ({state})"))
                .hint(format!("{console} domstate --reason {instance}"))
        }
    })
}

/// Holds what needs a store that is stopped.
pub(super) fn usable_store(view: &HostView) -> Result<(), Hold> {
    if view.store.active {
        return Ok(());
    }
    Err(Hold::blocked(Reason::PoolNotActive, format!("{} is not running", view.store.name))
        .hint(view.store.start_hint.clone()))
}

/// Holds what another run may be in the middle of.
pub(super) fn not_in_progress(view: &HostView) -> Result<(), Hold> {
    match &view.lock {
        Some(lock) => Err(Hold::waiting(Reason::InProgress, format!("run {} is at work on it", lock.run))),
        None => Ok(()),
    }
}
