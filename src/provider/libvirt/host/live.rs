//! The two kinds of [`Link`] to a live host: over SSH, and to this machine's own libvirt.
//!
//! Ordinary calls of a run share one SSH connection a host, dialled when it is first needed; each
//! libvirt connection has a channel of its own on it. An upload gets an SSH connection to itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::bridge::Bridge;
use super::calls::{CallError, code, part};
use super::connection::Connection;
use super::link::{DialError, Link, Opened, Purpose, Stage};
use super::progress::{Progress, permanent, transient};
use super::ssh::{Session, SocketError};
use super::target::{LocalTarget, SshTarget};
use crate::plan::Reason;

/// The first dial and two more (L3).
const DIALS_MAX: u32 = 3;
/// Handshakes with one host at a time: its sshd drops connections at random when many are starting.
const DIALS_AT_ONCE: usize = 2;
/// How long closing waits for connections that are taking leave of their server (L1).
const CLOSE_LIMIT: Duration = Duration::from_millis(600);

const LOCK_LIMIT: Duration = Duration::from_millis(200);

/// The way to a host over SSH.
pub struct SshLink {
    target: SshTarget,
    shared: AsyncMutex<Shared>,
    dialling: Semaphore,
    bridges: Bridges,
    closed: CancellationToken,
}

/// The SSH connection that ordinary calls share.
#[derive(Default)]
struct Shared {
    session: Option<Arc<Session>>,
    dials: u32,
    last: Option<DialError>,
}

impl SshLink {
    /// The way to a host. Dials nothing yet.
    #[must_use]
    pub fn new(target: SshTarget) -> Self {
        Self {
            target,
            shared: AsyncMutex::default(),
            dialling: Semaphore::new(DIALS_AT_ONCE),
            bridges: Bridges::default(),
            closed: CancellationToken::new(),
        }
    }

    async fn reach(&self, purpose: Purpose, progress: &Progress) -> Result<Opened, DialError> {
        loop {
            let session = match purpose {
                Purpose::Calls => self.session(progress).await?,
                Purpose::Upload => Arc::new(self.dial(progress).await?),
            };
            progress.enter(Stage::Socket);
            match self.socket(&session).await {
                Ok(far) => {
                    let bridge = self.bridges.make(far, Arc::clone(&session))?;
                    return connect(bridge, &self.target.pool, &format!("user {}", self.target.user), progress).await;
                }
                // A connection that died unnoticed is dropped and dialled anew (L3); one that was
                // made for this alone has had its chance.
                Err(error) if error.stage == Stage::Ssh && purpose == Purpose::Calls => {
                    progress.failed(&error);
                    self.discard(&session, error).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The shared connection, dialled if there is none that works.
    async fn session(&self, progress: &Progress) -> Result<Arc<Session>, DialError> {
        let mut shared = self.shared.lock().await;
        if let Some(session) = &shared.session {
            if !session.is_closed() {
                return Ok(Arc::clone(session));
            }
            shared.session = None;
            shared.last.get_or_insert_with(|| self.lost("it was closed"));
        }
        if shared.dials >= DIALS_MAX {
            return Err(shared.last.clone().unwrap_or_else(|| self.lost("it was dialled often enough")));
        }
        shared.dials += 1;
        match self.dial(progress).await {
            Ok(session) => {
                let session = Arc::new(session);
                shared.session = Some(Arc::clone(&session));
                Ok(session)
            }
            Err(error) => {
                shared.last = Some(error.clone());
                Err(error)
            }
        }
    }

    async fn dial(&self, progress: &Progress) -> Result<Session, DialError> {
        let turn = self.dialling.acquire().await;
        let session = Session::dial(&self.target, progress).await;
        drop(turn);
        session
    }

    async fn discard(&self, session: &Arc<Session>, error: DialError) {
        session.shut();
        let mut shared = self.shared.lock().await;
        if shared.session.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, session)) {
            shared.session = None;
        }
        shared.last = Some(error);
    }

    async fn socket(&self, session: &Session) -> Result<impl AsyncRead + AsyncWrite + Send + use<>, DialError> {
        for path in &self.target.sockets {
            match session.open_socket(path).await {
                Ok(far) => return Ok(far),
                Err(SocketError::Refused) => {}
                Err(SocketError::Lost(why)) => return Err(self.lost(&why)),
            }
        }
        let SshTarget { user, sockets, .. } = &self.target;
        Err(transient(
            Stage::Socket,
            Reason::Unreachable,
            format!("sshd on {} could open none of the libvirt sockets {}", self.target.address(), sockets.join(", ")),
        )
        .hint(format!(
            "sshd does not say why. Check on the host that libvirtd or virtqemud runs, that {user} may open its socket \
             (group libvirt), that AllowStreamLocalForwarding and AllowTcpForwarding are on and no PermitOpen line \
             forbids it, and that the key in authorized_keys is not restricted (restrict needs port-forwarding beside \
             it)."
        )))
    }

    fn lost(&self, why: &str) -> DialError {
        transient(
            Stage::Ssh,
            Reason::Unreachable,
            format!("the SSH connection to {} was lost: {why}", self.target.address()),
        )
        .hint("Look at the network and at sshd's log on the host.")
    }
}

#[async_trait]
impl Link for SshLink {
    async fn open(&self, purpose: Purpose, budget: Duration) -> Result<Opened, DialError> {
        let SshTarget { user, .. } = &self.target;
        let span = tracing::info_span!(
            "libvirt.dial",
            otel.kind = "client",
            address = self.target.address(),
            user,
            stage = tracing::field::Empty,
        );
        let progress = Progress::default();
        let work = self.reach(purpose, &progress);
        let opened = within(budget, &self.closed, &progress, work).instrument(span.clone()).await;
        // A shared connection that let a whole budget pass over one channel is not asked again.
        if let Err(error) = &opened
            && error.stage == Stage::Socket
            && error.reason == Reason::Timeout
            && purpose == Purpose::Calls
            && let Ok(mut shared) = self.shared.try_lock()
            && let Some(session) = shared.session.take()
        {
            session.shut();
            shared.last = Some(error.clone());
        }
        record(&span, opened)
    }

    async fn close(&self) {
        self.closed.cancel();
        self.bridges.close().await;
        // Whoever is dialling lets go of the lock as soon as it hears of the closing.
        if let Ok(mut shared) = timeout(LOCK_LIMIT, self.shared.lock()).await
            && let Some(session) = shared.session.take()
        {
            session.shut();
        }
    }
}

/// The way to this machine's own libvirt.
pub struct LocalLink {
    target: LocalTarget,
    bridges: Bridges,
    closed: CancellationToken,
}

impl LocalLink {
    /// The way to this machine's libvirt. Opens nothing yet.
    #[must_use]
    pub fn new(target: LocalTarget) -> Self {
        Self { target, bridges: Bridges::default(), closed: CancellationToken::new() }
    }

    async fn reach(&self, progress: &Progress) -> Result<Opened, DialError> {
        progress.enter(Stage::Socket);
        let mut last = String::new();
        for path in &self.target.sockets {
            match UnixStream::connect(path).await {
                Ok(far) => {
                    let bridge = self.bridges.make(far, ())?;
                    return connect(bridge, &self.target.pool, "this user", progress).await;
                }
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    return Err(permanent(
                        Stage::Socket,
                        Reason::Forbidden,
                        format!("this user may not open the libvirt socket {path}"),
                    )
                    .hint("Add the user to the group libvirt, and log in again."));
                }
                Err(error) => last = format!(": {path}: {error}"),
            }
        }
        Err(transient(Stage::Socket, Reason::Unreachable, format!("no libvirt socket of this machine opens{last}"))
            .hint("Check that libvirtd or virtqemud runs."))
    }
}

#[async_trait]
impl Link for LocalLink {
    async fn open(&self, _purpose: Purpose, budget: Duration) -> Result<Opened, DialError> {
        let span = tracing::info_span!("libvirt.dial", otel.kind = "client", stage = tracing::field::Empty);
        let progress = Progress::default();
        let work = self.reach(&progress);
        let opened = within(budget, &self.closed, &progress, work).instrument(span.clone()).await;
        record(&span, opened)
    }

    async fn close(&self) {
        self.closed.cancel();
        self.bridges.close().await;
    }
}

async fn within<T>(
    budget: Duration,
    closed: &CancellationToken,
    progress: &Progress,
    work: impl Future<Output = Result<T, DialError>>,
) -> Result<T, DialError> {
    tokio::select! {
        biased;
        () = closed.cancelled() => {
            Err(transient(progress.stage(), Reason::Interrupted, "this program has closed its connections to the host"))
        }
        outcome = timeout(budget, work) => outcome.unwrap_or_else(|_| Err(progress.expired())),
    }
}

fn record(span: &tracing::Span, opened: Result<Opened, DialError>) -> Result<Opened, DialError> {
    if let Err(error) = &opened {
        span.record("stage", error.stage.as_str());
        tracing::debug!(parent: span, stage = error.stage.as_str(), error = error.message, "dial failed");
    }
    opened
}

/// The bridges of a link that have not ended yet.
#[derive(Default)]
struct Bridges(Mutex<Vec<Bridge>>);

impl Bridges {
    fn make<F, K>(&self, far: F, keep: K) -> Result<Bridge, DialError>
    where
        F: AsyncRead + AsyncWrite + Send + 'static,
        K: Send + 'static,
    {
        let bridge = Bridge::new(far, keep).map_err(|error| {
            transient(Stage::Socket, Reason::TransientError, format!("no local socket can be made: {error}")).hint(
                "Check that XDG_RUNTIME_DIR or TMPDIR is a folder that this user may write to, with a short path.",
            )
        })?;
        let mut bridges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bridges.retain(|bridge| !bridge.is_dead());
        bridges.push(bridge.clone());
        Ok(bridge)
    }

    /// Cuts what is still in use at once, and gives those that are taking leave a moment.
    async fn close(&self) {
        let bridges = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let leaving = futures::future::join_all(bridges.iter().filter(|bridge| bridge.is_leaving()).map(Bridge::gone));
        for bridge in bridges.iter().filter(|bridge| !bridge.is_leaving()) {
            bridge.kill();
        }
        let _ = timeout(CLOSE_LIMIT, leaving).await;
        for bridge in &bridges {
            bridge.kill();
        }
    }
}

/// libvirt's own handshake. The bridge is killed when this is dropped before it is done, which ends
/// the blocking call.
async fn connect(bridge: Bridge, pool: &str, who: &str, progress: &Progress) -> Result<Opened, DialError> {
    progress.enter(Stage::Libvirt);
    let guard = KillOnDrop(Some(bridge.clone()));
    let (theirs, pool) = (bridge.clone(), pool.to_owned());
    let runtime = Handle::current();
    let opened = tokio::task::spawn_blocking(move || Connection::open(theirs, pool, runtime)).await;
    let connection = opened
        .map_err(|_| transient(Stage::Libvirt, Reason::TransientError, "the thread that opened libvirt failed"))?
        .map_err(|error| refused(&error, who))?;
    guard.disarm();
    Ok(Opened { calls: Box::new(connection), kill: Arc::new(move || bridge.kill()) })
}

struct KillOnDrop(Option<Bridge>);

impl KillOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(bridge) = &self.0 {
            bridge.kill();
        }
    }
}

/// What a failure of libvirt's own handshake means.
fn refused(error: &CallError, who: &str) -> DialError {
    let text = format!("libvirt could not be opened: {}", error.message);
    match error.code {
        code::OPERATION_DENIED
        | code::AUTH_FAILED
        | code::AUTH_CANCELLED
        | code::ACCESS_DENIED
        | code::AUTH_UNAVAILABLE => {
            let text = format!("libvirt refuses {who}: {}", error.message);
            permanent(Stage::Libvirt, Reason::Forbidden, text)
                .hint("Add the user to the group libvirt on the host, or allow org.libvirt.unix.manage in polkit.")
        }
        _ if error.domain == part::RPC => transient(Stage::Libvirt, Reason::Unreachable, text)
            .hint("Check that what listens on the socket is libvirtd or virtqemud, and its log on the host."),
        _ => transient(Stage::Libvirt, Reason::APIError, text).hint("See libvirtd's log on the host."),
    }
}
