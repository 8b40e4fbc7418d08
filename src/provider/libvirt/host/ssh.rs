//! One SSH connection to a host: dialling it, and opening libvirt's socket over it.
//!
//! Nothing is run on the host; the only channels are forwarded unix sockets. Closing never waits
//! for the network: the TCP socket is shut down, whatever the connection was doing (L1).

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use russh::client::{self, Handle, Msg};
use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{AlgorithmKind, ChannelOpenFailure, ChannelStream, Preferred};
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::host_key::HostKeyPolicy;
use super::keys::{expand, read_key, read_known_hosts};
use super::link::{DialError, Stage};
use super::progress::{Progress, permanent, transient};
use super::target::SshTarget;
use crate::plan::Reason;

/// Keepalives without an answer that are waited for; the next one finds the host dead.
const KEEPALIVE_MAX: usize = 3;
/// Keepalives wait behind a write that does not end, so the kernel watches writes: unacknowledged
/// data this old, in milliseconds, ends the connection.
const WRITE_LIMIT_MS: u32 = 25_000;
/// One address of a host may not use up the time for the others.
const ADDRESS_LIMIT: Duration = Duration::from_secs(4);
/// How often a handshake that the server cut off is tried again: `MaxStartups` drops connections at
/// random while many come at once.
const RETRIES: usize = 5;

/// An authenticated SSH connection. Dropping it ends it at once.
pub struct Session {
    handle: Handle<Client>,
    tcp: Tcp,
}

/// Why a socket was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketError {
    /// The server refused this one; the connection is fine.
    Refused,
    /// The connection is gone.
    Lost(String),
}

impl Session {
    /// Dials a host and logs in. Ends when the caller stops waiting; nothing of it stays.
    ///
    /// # Errors
    /// With the stage that failed; never with a secret in the text.
    pub async fn dial(target: &SshTarget, progress: &Progress) -> Result<Self, DialError> {
        progress.enter(Stage::Credentials);
        let key = Arc::new(read_key(&target.key_file).await?);
        let known = match &target.known_hosts {
            Some(path) => Some((expand(path)?, read_known_hosts(path).await?)),
            None => None,
        };
        let policy = HostKeyPolicy::new(target, known);
        let pace = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(2))
            .with_max_times(RETRIES)
            .with_jitter();
        (|| Self::attempt(target, &policy, &key, progress))
            .retry(pace)
            .when(|(_, cut_off)| *cut_off)
            .notify(|(error, _), _| progress.failed(error))
            .await
            .map_err(|(error, _)| error)
    }

    /// One attempt; the flag of an error says that the server cut the handshake off.
    async fn attempt(
        target: &SshTarget,
        policy: &HostKeyPolicy,
        key: &Arc<PrivateKey>,
        progress: &Progress,
    ) -> Result<Self, (DialError, bool)> {
        progress.enter(Stage::Tcp);
        let stream = connect(target).await.map_err(|error| (error, false))?;
        progress.enter(Stage::Ssh);
        let tcp = Tcp::watch(&stream).map_err(|error| (lost(target, &error.to_string()), false))?;
        let client = Client { policy: policy.clone() };
        let handle = client::connect_stream(Arc::new(config(policy, target.keepalive)), stream, client).await;
        let mut handle = handle.map_err(|error| match error {
            ClientError::HostKey(error) => (error, false),
            ClientError::Ssh(error) => (handshake_error(target, &error), cut_off(&error)),
        })?;
        log_in(&mut handle, target, key).await.map_err(|error| (error, false))?;
        Ok(Self { handle, tcp })
    }

    /// Opens a unix socket of the host.
    ///
    /// # Errors
    /// OpenSSH refuses a missing socket, a user who may not open it, `AllowStreamLocalForwarding no`
    /// and a `restrict` key all alike, so a refusal does not say which of them it is.
    pub async fn open_socket(&self, path: &str) -> Result<ChannelStream<Msg>, SocketError> {
        match self.handle.channel_open_direct_streamlocal(path).await {
            Ok(channel) => Ok(channel.into_stream()),
            Err(russh::Error::ChannelOpenFailure(
                ChannelOpenFailure::ConnectFailed | ChannelOpenFailure::AdministrativelyProhibited,
            )) => Err(SocketError::Refused),
            Err(error) => Err(SocketError::Lost(error.to_string())),
        }
    }

    /// Whether the connection is known to be gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Ends the connection at once, whatever it is doing.
    pub fn shut(&self) {
        self.tcp.shut();
    }
}

/// The connection's TCP socket, shut down when this is dropped. The SSH crate's own task holds the
/// stream, and would hold it for as long as a handshake with a silent host takes.
struct Tcp(OwnedFd);

impl Tcp {
    fn watch(stream: &TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        #[cfg(target_os = "linux")]
        sockopt::set_tcp_user_timeout(stream, WRITE_LIMIT_MS)?;
        Ok(Self(stream.as_fd().try_clone_to_owned()?))
    }

    fn shut(&self) {
        // A socket that the peer has closed already is as good.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.shut();
    }
}

struct Client {
    policy: HostKeyPolicy,
}

#[derive(Debug)]
enum ClientError {
    HostKey(DialError),
    Ssh(russh::Error),
}

impl From<russh::Error> for ClientError {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl client::Handler for Client {
    type Error = ClientError;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, ClientError> {
        self.policy.check(shown).map(|()| true).map_err(ClientError::HostKey)
    }
}

fn config(policy: &HostKeyPolicy, keepalive: Duration) -> client::Config {
    let (keys, certificates) = policy.algorithms();
    client::Config {
        keepalive_interval: Some(keepalive),
        keepalive_max: KEEPALIVE_MAX,
        nodelay: true,
        preferred: Preferred {
            key: Cow::Owned(keys),
            host_key_certificates: Cow::Owned(certificates),
            ..Preferred::default()
        },
        ..client::Config::default()
    }
}

async fn connect(target: &SshTarget) -> Result<TcpStream, DialError> {
    let unreachable = |message| transient(Stage::Tcp, Reason::Unreachable, message);
    let address = target.address();
    let addresses = tokio::net::lookup_host((target.host.as_str(), target.port)).await.map_err(|error| {
        unreachable(format!("the name {} cannot be resolved: {error}", target.host)).hint("Check the host's address.")
    })?;
    let mut last = None;
    for found in addresses {
        match timeout(ADDRESS_LIMIT, TcpStream::connect(found)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = Some(error.to_string()),
            Err(_) => last = Some("no answer".to_owned()),
        }
    }
    let why = last.unwrap_or_else(|| "the name has no address".to_owned());
    Err(unreachable(format!("no connection to {address}: {why}"))
        .hint("Check that the host is up, that sshd listens on that port, and the firewall between."))
}

async fn log_in(handle: &mut Handle<Client>, target: &SshTarget, key: &Arc<PrivateKey>) -> Result<(), DialError> {
    let hash = if key.algorithm().is_rsa() {
        // A server that names no algorithms is an old one, and takes SHA-2 all the same.
        let named = handle.best_supported_rsa_hash().await.ok().flatten().flatten();
        Some(named.unwrap_or(HashAlg::Sha512))
    } else {
        None
    };
    let key = PrivateKeyWithHashAlg::new(Arc::clone(key), hash);
    let fingerprint = key.public_key().fingerprint(HashAlg::Sha256);
    let outcome = handle
        .authenticate_publickey(target.user.clone(), key)
        .await
        .map_err(|error| lost(target, &error.to_string()))?;
    match outcome {
        client::AuthResult::Success => Ok(()),
        client::AuthResult::Failure { partial_success, .. } => {
            let user = &target.user;
            let what = if partial_success { "wants another proof besides" } else { "refused" };
            Err(permanent(
                Stage::Ssh,
                Reason::Unauthorized,
                format!("{} {what} the key {fingerprint} for user {user}", target.address()),
            )
            .hint(format!(
                "Put the public key into authorized_keys of {user} on the host; sshd's log says why it refused."
            )))
        }
    }
}

/// A server that drops connections, because too many are starting, does so before the key exchange
/// is over.
fn cut_off(error: &russh::Error) -> bool {
    matches!(error, russh::Error::HUP | russh::Error::Disconnect | russh::Error::IO(_) | russh::Error::SendError)
}

fn handshake_error(target: &SshTarget, error: &russh::Error) -> DialError {
    let address = target.address();
    match error {
        russh::Error::NoCommonAlgo { kind, .. } => {
            let what = match kind {
                AlgorithmKind::Key => "host key",
                AlgorithmKind::Kex => "key exchange",
                AlgorithmKind::Cipher => "cipher",
                AlgorithmKind::Mac => "message authentication",
                AlgorithmKind::Compression => "compression",
            };
            permanent(Stage::Ssh, Reason::Unreachable, format!("{address} and this program share no {what} algorithm"))
                .hint("Give the host an ed25519 key, or update its sshd.")
        }
        russh::Error::Version => {
            transient(Stage::Ssh, Reason::Unreachable, format!("{address} does not speak SSH")).hint("Check the port.")
        }
        error => lost(target, &error.to_string()),
    }
}

fn lost(target: &SshTarget, why: &str) -> DialError {
    transient(Stage::Ssh, Reason::Unreachable, format!("the SSH connection to {} was lost: {why}", target.address()))
        .hint("Look at sshd's log on the host, and at its MaxStartups when many connect at once.")
}

#[cfg(test)]
mod tests;
