//! Where a host is: what the configuration says about reaching it, resolved and checked.
//!
//! Plain data; nothing here dials.

use std::path::PathBuf;
use std::time::Duration;

use super::host_name::HostName;

/// Between two keepalives, where the config says nothing else: a silent host is noticed within 30 s (L5).
pub const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(7);

/// Sockets that are tried in this order when the configuration names none: a modular daemon's
/// first, since where both exist the other one belongs to a proxy in front of it.
pub const DEFAULT_SOCKETS: [&str; 3] =
    ["/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock", "/var/run/libvirt/libvirt-sock"];

/// A host that is reached over SSH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshTarget {
    /// Name or address, an IPv6 address without brackets.
    pub host: String,
    /// Port of its SSH server.
    pub port: u16,
    /// The name to look up in `known_hosts` instead of host and port.
    pub host_key_alias: Option<String>,
    /// The user to log in as.
    pub user: String,
    /// The private key, read on every dial. A leading `~/` is the home folder.
    pub key_file: PathBuf,
    /// The `known_hosts` file, read on every dial; `None` takes any host key.
    pub known_hosts: Option<PathBuf>,
    /// libvirt's sockets on the host, tried in this order.
    pub sockets: Vec<String>,
    /// The storage pool that calls on volumes are about.
    pub pool: String,
    /// Between two keepalives; a silent host is dead after four of them.
    pub keepalive: Duration,
}

impl SshTarget {
    /// Host and port as they are shown: `host:port`, an IPv6 address in brackets.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The name that its keys have in `known_hosts`.
    #[must_use]
    pub fn host_name(&self) -> HostName {
        self.host_key_alias.as_deref().map_or_else(|| HostName::new(&self.host, self.port), HostName::alias)
    }
}

/// The machine that this program runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTarget {
    /// libvirt's sockets, tried in this order.
    pub sockets: Vec<String>,
    /// The storage pool that calls on volumes are about.
    pub pool: String,
}
