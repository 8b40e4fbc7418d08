//! What the executor tells while it works. Terminal, log lines and traces listen; the executor
//! itself prints nothing.

use crate::plan::{ActionId, HostRef, ProxyKey};
use crate::provider::Transfer;

use super::outcome::ActionOutcome;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// An image or an action begins.
    Started(Subject),
    /// A new part of it begins.
    Stage(Subject, &'static str),
    /// An attempt failed and another follows.
    Retrying(Subject, String),
    /// Bytes of an image went.
    Transfer(Transfer),
    /// It ended.
    Finished(Subject, Box<ActionOutcome>),
    /// Waiting for another run to give a host back.
    WaitingForLock {
        /// Where.
        place: HostRef,
        /// Who.
        run: String,
    },
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// An image on its way to a host.
    Image {
        /// The host.
        place: HostRef,
        /// The image's key.
        key: String,
    },
    /// An action on a machine.
    Action {
        /// Its id in the plan.
        id: ActionId,
        /// `create`, `start`, `update`, `replace`, `delete`.
        verb: &'static str,
        /// For which proxy.
        proxy: ProxyKey,
        /// Where.
        place: HostRef,
        /// The machine's name.
        instance: String,
    },
}

/// Where events go. Called from many tasks; must return at once.
pub trait Listener: Send + Sync {
    /// Takes an event.
    fn on(&self, event: &Event);
}
