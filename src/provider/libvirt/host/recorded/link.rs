//! The way to a recorded host: connections to one world in memory.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::super::link::{DialError, Kill, Link, Opened, Purpose, Stage};
use super::connection::{Connection, Line, lock};
use super::fault::Effect;
use super::file::Unreachable;
use super::world::World;
use crate::plan::Reason;
use crate::provider::error::Class;

/// The way to a recorded host. Any number of connections, and any number of links, may share a world.
pub struct RecordedLink {
    world: Arc<Mutex<World>>,
    lines: Mutex<Vec<Weak<Line>>>,
    closed: AtomicBool,
}

impl fmt::Debug for RecordedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedLink").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl RecordedLink {
    /// A way to `world`.
    #[must_use]
    pub fn new(world: Arc<Mutex<World>>) -> Self {
        Self { world, lines: Mutex::new(Vec::new()), closed: AtomicBool::new(false) }
    }
}

#[async_trait]
impl Link for RecordedLink {
    async fn open(&self, _purpose: Purpose, _budget: Duration) -> Result<Opened, DialError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(refused(&Unreachable {
                reason: Reason::Unreachable,
                message: "the way to this host was closed".to_owned(),
                hint: None,
            }));
        }
        let effects = lock(&self.world).note_open();
        for effect in effects {
            befall(effect)?;
        }
        if let Some(unreachable) = &lock(&self.world).facts().unreachable {
            return Err(refused(unreachable));
        }
        let line = Arc::new(Line::default());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| line.strong_count() > 0);
        lines.push(Arc::downgrade(&line));
        drop(lines);
        let calls = Box::new(Connection::new(Arc::clone(&self.world), Arc::clone(&line)));
        let kill: Kill = Arc::new(move || line.kill());
        Ok(Opened { calls, kill })
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines.iter().filter_map(Weak::upgrade) {
            line.kill();
        }
    }
}

/// What a fault does to the opening of a connection. Nobody waits here: a dial that hangs has used
/// its time up.
fn befall(effect: Effect) -> Result<(), DialError> {
    let failed = |reason, message: String| Err(refused(&Unreachable { reason, message, hint: None }));
    match effect {
        Effect::Refuse(error) => failed(Reason::Unreachable, error.to_string()),
        Effect::CutBefore | Effect::CutAfter => failed(Reason::Unreachable, "the connection was cut".to_owned()),
        Effect::Hang => failed(Reason::Timeout, "the time ran out while connecting".to_owned()),
        Effect::Before(point) | Effect::After(point) => {
            point();
            Ok(())
        }
        Effect::LoseTail(_) | Effect::CutUpload(_) | Effect::DuringUpload(..) => Ok(()),
    }
}

/// The failure of a dial, as the live host's would be for that reason.
fn refused(unreachable: &Unreachable) -> DialError {
    let (stage, class) = match unreachable.reason {
        Reason::CredentialsUnavailable => (Stage::Credentials, Class::Transient),
        Reason::HostKeyMismatch | Reason::Unauthorized => (Stage::Ssh, Class::Permanent),
        Reason::Forbidden | Reason::VersionUnsupported => (Stage::Libvirt, Class::Permanent),
        _ => (Stage::Tcp, Class::Transient),
    };
    DialError {
        stage,
        class,
        reason: unreachable.reason,
        message: unreachable.message.clone(),
        hint: unreachable.hint.clone(),
    }
}
