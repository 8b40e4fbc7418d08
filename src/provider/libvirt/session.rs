//! A host during a run: the way to it, its idle connections, and the lock that this run holds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::host::calls::Calls;
use super::host::link::{DialError, Link, Purpose};
use super::host::traced::{Budgets, Labels, Traced};
use super::lock::Fence;
use super::site::Site;
use crate::plan::Reason;
use crate::provider::error::{Class, ProviderError};

/// The most libvirt connections of one run to one host, uploads and the lock's own not counted: a server takes five
/// calls of one client at a time and stops reading at the sixth.
const CONNECTIONS: usize = 4;

/// One host during a run.
pub(super) struct Session {
    pub site: Site,
    link: Arc<dyn Link>,
    budgets: Budgets,
    dial_budget: Duration,
    idle: Mutex<Vec<Traced>>,
    room: Semaphore,
    lock_room: Semaphore,
    calls: Arc<AtomicU64>,
    /// The lock that this run holds here.
    pub fence: Fence,
    /// A call that may have changed something lost its answer: the lock is left to run out.
    suspect: AtomicBool,
    /// How long the first look took.
    pub looked: OnceLock<Duration>,
}

impl Session {
    pub fn new(site: Site, link: Arc<dyn Link>, budgets: Budgets, dial_budget: Duration) -> Self {
        Self {
            site,
            link,
            budgets,
            dial_budget,
            idle: Mutex::default(),
            room: Semaphore::new(CONNECTIONS),
            lock_room: Semaphore::new(1),
            calls: Arc::default(),
            fence: Fence::default(),
            suspect: AtomicBool::new(false),
            looked: OnceLock::new(),
        }
    }

    /// Calls made so far.
    pub fn call_count(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether the lock must be left to run out.
    pub fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// Opens a connection that is not shared.
    pub async fn open(
        &self,
        purpose: Purpose,
        cancel: &CancellationToken,
        budget: Duration,
    ) -> Result<Traced, DialError> {
        let opened = self.link.open(purpose, budget).await?;
        let labels = Labels {
            provider: self.site.place.entry.to_string(),
            host: self.site.place.host.to_string(),
            pool: self.site.pool.clone(),
        };
        Ok(Traced::new(opened, labels, self.budgets, cancel.clone(), Arc::clone(&self.calls)))
    }

    /// Runs `work` on a connection of its own, on a thread that may block.
    pub async fn with<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        work: impl FnOnce(&mut dyn Calls) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let _permit = self.room.acquire().await;
        self.run(cancel, work).await
    }

    /// The same for the lock, which must not wait behind steps: those may be at it for minutes.
    pub async fn with_lock<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Calls) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let _permit = self.lock_room.acquire().await;
        self.run(&CancellationToken::new(), work).await
    }

    async fn run<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        work: impl FnOnce(&mut dyn Calls) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open(Purpose::Calls, cancel, self.dial_budget).await.map_err(|error| dial_failure(&error))?,
        };
        let (result, connection) = on_thread(connection, work).await?;
        self.heed(&connection);
        if connection.is_dead() {
            // What ended one has probably ended its idle neighbours too (L3).
            let neighbours = std::mem::take(&mut *self.idle());
            drop_on_thread((connection, neighbours)).await;
        } else {
            self.idle().push(connection);
        }
        result
    }

    /// Notes whether an answer was lost on a connection.
    pub fn heed(&self, connection: &Traced) {
        if connection.is_suspect() {
            self.suspect.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the next call goes over a connection that was opened earlier.
    pub fn has_idle(&self) -> bool {
        !self.idle().is_empty()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Traced>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every connection and the way.
    pub async fn close(&self) {
        // Connections first: each takes its leave, for half a second at most.
        let idle = std::mem::take(&mut *self.idle());
        drop_on_thread(idle).await;
        self.link.close().await;
    }
}

/// Runs blocking work and gives the connection back.
pub(super) async fn on_thread<T: Send + 'static>(
    mut connection: Traced,
    work: impl FnOnce(&mut dyn Calls) -> Result<T, ProviderError> + Send + 'static,
) -> Result<(Result<T, ProviderError>, Traced), ProviderError> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || {
        let _inside = span.enter();
        let result = work(&mut connection);
        (result, connection)
    })
    .await
    .map_err(|error| {
        ProviderError::new(
            Class::Bug,
            Reason::PermanentError,
            "run a step",
            "",
            format!("a fault of this program: {error}"),
        )
    })
}

/// Ends connections where blocking is allowed.
pub(super) async fn drop_on_thread<T: Send + 'static>(connections: T) {
    tokio::task::spawn_blocking(move || drop(connections)).await.ok();
}

/// A host that could not be reached, as the failure of a step.
pub(super) fn dial_failure(error: &DialError) -> ProviderError {
    let mut failure = ProviderError::new(error.class, error.reason, "reach the host", "", error.message.clone());
    failure.hint.clone_from(&error.hint);
    failure
}
