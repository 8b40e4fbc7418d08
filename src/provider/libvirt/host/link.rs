//! The way to a host: where connections come from, and how a call on one of them is ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::calls::Calls;
use crate::plan::Reason;
use crate::provider::error::Class;

/// What a connection is for. Uploads have an SSH connection of their own, so that a full window
/// delays no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Ordinary calls.
    Calls,
    /// The upload of an image.
    Upload,
}

/// Ends a connection at once: the call in flight fails, and so does every later one. May be called
/// from any thread, any number of times, and returns without waiting for the network.
pub type Kill = Arc<dyn Fn() + Send + Sync>;

/// One libvirt connection.
pub struct Opened {
    /// Its calls.
    pub calls: Box<dyn Calls>,
    /// How to end it.
    pub kill: Kill,
}

/// The stages of reaching a host, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reading key and known_hosts.
    Credentials,
    /// Connecting.
    Tcp,
    /// Handshake, host key, authentication.
    Ssh,
    /// The libvirt socket at the far end.
    Socket,
    /// libvirt's own handshake.
    Libvirt,
}

impl Stage {
    /// The stage as logs and `check` spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Tcp => "tcp",
            Self::Ssh => "ssh",
            Self::Socket => "socket",
            Self::Libvirt => "libvirt",
        }
    }
}

/// Why a host could not be reached.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct DialError {
    /// The stage that failed.
    pub stage: Stage,
    /// What it means for the run.
    pub class: Class,
    /// The reason in reports and `check`.
    pub reason: Reason,
    /// One line for people, without any secret.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// The way to one host. Dropping it closes nothing that still works; [`Link::close`] does.
#[async_trait]
pub trait Link: Send + Sync {
    /// Opens a libvirt connection. The whole of it ends within `budget`.
    ///
    /// # Errors
    /// With the stage that failed. When time ran out, the reason is the stage's own if it has one.
    async fn open(&self, purpose: Purpose, budget: Duration) -> Result<Opened, DialError>;

    /// Ends every connection and the way itself, in under a second whatever the network does (L1).
    async fn close(&self);
}
