//! What the manifests and the config ask for, checked and resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::fingerprint::Fingerprint;
use super::name::{HostRef, Label, ProxyKey};

/// Everything that is wanted, and where it may be put.
#[derive(Debug, Clone, Serialize)]
pub struct Desired {
    /// The ownership scope.
    pub fleet: Label,
    /// The id of the source of manifests, where there is one (a cluster's uid); none for files.
    pub source: Option<String>,
    /// Whether the list of proxies is known to be whole. A partial one deletes nothing.
    pub complete: bool,
    /// The namespaces of a cluster that were listed in full; none where everything was. An orphan of
    /// another namespace is no orphan: nobody looked whether it is wanted.
    pub namespaces: Option<BTreeSet<String>>,
    /// The proxies by key.
    pub proxies: BTreeMap<ProxyKey, Proxy>,
    /// Every host of the config.
    pub hosts: BTreeMap<HostRef, HostSettings>,
}

impl Desired {
    /// Whether a cluster's lists broke off, so that nobody knows all that is wanted.
    #[must_use]
    pub fn broke_off(&self) -> bool {
        !self.complete && self.source.is_some()
    }

    /// Whether the config has a host, under its name or a former one.
    #[must_use]
    pub fn has_host(&self, host: &HostRef) -> bool {
        self.hosts.iter().any(|(place, settings)| {
            place.entry == host.entry && (place.host == host.host || settings.aliases.contains(&host.host))
        })
    }
}

/// What the config says about a host that matters for planning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostSettings {
    /// Former names of the host: marks that bear one are still of this host.
    pub aliases: Vec<Label>,
    /// Nothing is wanted on this host any more.
    pub retired: bool,
    /// The most instances of this fleet; none means no bound of ours.
    pub max_instances: Option<u32>,
    /// Whether a file answers for the host instead of a hypervisor.
    pub recorded: bool,
    /// How people address the host's manager, for printed commands: `virsh -c qemu:///system`.
    pub console: String,
}

/// One desired proxy.
#[derive(Debug, Clone, Serialize)]
pub struct Proxy {
    /// Its key.
    pub key: ProxyKey,
    /// Where it was read: `file:line`, or the cluster.
    pub origin: String,
    /// Labels of the manifest.
    pub labels: BTreeMap<String, String>,
    /// Whether it is a machine of ours or an endpoint of somebody else's.
    pub mode: Mode,
}

/// The two kinds of proxy.
#[derive(Debug, Clone, Serialize)]
pub enum Mode {
    /// A machine that this program makes.
    Managed(Box<Managed>),
    /// An endpoint that this program only lists and probes.
    External {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
}

/// A machine that is wanted.
#[derive(Debug, Clone, Serialize)]
pub struct Managed {
    /// Where it goes.
    pub place: HostRef,
    /// The TCP port that the proxy listens on.
    pub port: u16,
    /// No run replaces or deletes it.
    pub protect: bool,
    /// What the manifest says of the machine.
    pub spec: MachineSpec,
    /// What the provider made of it. An error (from a cluster only) blocks this proxy alone.
    pub resolved: Result<Resolved, String>,
}

/// What a manifest says about a machine, before a provider resolved it.
#[derive(Debug, Clone, Serialize)]
pub struct MachineSpec {
    /// A key of the config's images, or a URL where the config allows that.
    pub image: String,
    /// A key of the config's machine types.
    pub machine_type: String,
    /// Delivered to the machine byte for byte; absent when the manifest gives none.
    pub user_data: Option<UserData>,
    /// Static addresses; DHCP when absent.
    pub network: Option<Network>,
}

/// `spec.network` of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Addresses with their prefix lengths; at least one.
    pub addresses: Vec<IpNet>,
    /// The default gateway.
    pub gateway: Option<IpAddr>,
    /// Name servers.
    pub nameservers: Vec<IpAddr>,
}

/// User-data: secret bytes. Printing or serialising shows length and digest alone.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData(Vec<u8>);

impl UserData {
    /// The most bytes that are accepted: 1 MiB.
    pub const MAX: usize = 1 << 20;

    /// Wraps the bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes, for the seed and for digests only.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Length and short digest, fit to be shown.
    #[must_use]
    pub fn describe(&self) -> String {
        let digest = hex::encode(Sha256::digest(&self.0));
        format!("{} bytes, sha256 {}", self.0.len(), digest.get(..8).unwrap_or_default())
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserData({})", self.describe())
    }
}

impl Serialize for UserData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.describe())
    }
}

/// What a provider made of a machine's spec without asking any host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// Name of the instance.
    pub instance: String,
    /// Digest over what the manifest says of the machine.
    pub spec: Fingerprint,
    /// Digest over what the config resolves that to.
    pub catalogue: Fingerprint,
    /// The base image that it starts from.
    pub image: ImageNeed,
    /// Capacity of its disk in bytes.
    pub disk_bytes: u64,
    /// Bytes of the pool that are set aside for the disk (less than its capacity when the config
    /// allows overcommitting).
    pub reserve_bytes: u64,
    /// Digest of the labels, as the mark keeps it.
    pub labels: String,
    /// For people: `small (1 vCPU, 1024 MiB), debian-13, 10 GiB disk`.
    pub summary: String,
}

/// A base image, as the plan names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize, JsonSchema)]
pub struct ImageNeed {
    /// Key in the config, or `url-<hash>`.
    pub key: String,
    /// Digest over where it comes from (32 hex digits): another URL or checksum is another image.
    pub id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_shows_its_length_and_digest_alone() {
        let secret = UserData::new(b"password: hunter2".to_vec());
        let shown = format!("{secret:?} {}", serde_json::to_string(&secret).expect("serialises"));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("17 bytes"), "{shown}");
    }
}
