//! How far a dial has come, so that a deadline does not hide the reason of the stage (L44).
//!
//! Also the one place that builds a [`DialError`].

use std::sync::{Mutex, PoisonError};

use super::link::{DialError, Stage};
use crate::plan::Reason;
use crate::provider::error::{Class, clean};

/// How far a dial has come, and the last failure that it is trying to get over.
#[derive(Debug)]
pub struct Progress(Mutex<State>);

#[derive(Debug)]
struct State {
    stage: Stage,
    last: Option<DialError>,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Mutex::new(State { stage: Stage::Credentials, last: None }))
    }
}

impl Progress {
    /// A stage was entered.
    pub fn enter(&self, stage: Stage) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stage = stage;
    }

    /// The stage that was entered last.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stage
    }

    /// A failure that is about to be tried again.
    pub fn failed(&self, error: &DialError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last = Some(error.clone());
    }

    /// The error of a dial whose time ran out: the failure that it was trying to get over, if there
    /// was one, and `Timeout` only when the host said nothing at all.
    #[must_use]
    pub fn expired(&self) -> DialError {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &state.last {
            return last.clone();
        }
        let (waited, hint) = match state.stage {
            Stage::Credentials => ("the key files to be read", "Look at the file system that holds them."),
            Stage::Tcp => ("the host to answer", "Look at the host's name, its network, and the firewall between."),
            Stage::Ssh => ("the SSH handshake", "Look at the load of the host and at its sshd."),
            Stage::Socket => ("sshd to open the libvirt socket", "Look at the load of the host and at its sshd."),
            Stage::Libvirt => {
                ("libvirt to answer", "Look at libvirtd on the host: it takes connections and says nothing.")
            }
        };
        transient(state.stage, Reason::Timeout, format!("the time ran out while waiting for {waited}")).hint(hint)
    }
}

/// A failure that needs somebody to change something.
#[must_use]
pub fn permanent(stage: Stage, reason: Reason, message: impl AsRef<str>) -> DialError {
    DialError { stage, class: Class::Permanent, reason, message: clean(message.as_ref()), hint: None }
}

/// A failure that may not happen again.
#[must_use]
pub fn transient(stage: Stage, reason: Reason, message: impl AsRef<str>) -> DialError {
    DialError { stage, class: Class::Transient, reason, message: clean(message.as_ref()), hint: None }
}

impl DialError {
    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l44_the_reason_of_the_stage_wins_over_the_deadline() {
        let progress = Progress::default();
        progress.enter(Stage::Ssh);
        assert_eq!(progress.expired().reason, Reason::Timeout);
        assert_eq!(progress.expired().stage, Stage::Ssh);
        progress.failed(&transient(Stage::Ssh, Reason::Unreachable, "the host hung up"));
        progress.enter(Stage::Tcp);
        let error = progress.expired();
        assert_eq!(
            (error.stage, error.reason, error.message.as_str()),
            (Stage::Ssh, Reason::Unreachable, "the host hung up")
        );
    }
}
