//! What the hosts answered. Total: a host is known completely, or it is unknown with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::desired::ImageNeed;
use super::fingerprint::Fingerprint;
use super::name::{HostRef, ProxyKey};
use super::reason::Reason;

/// Every host in scope, as it was seen.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Observed {
    /// By host.
    pub hosts: BTreeMap<HostRef, HostState>,
}

impl Observed {
    /// Turns hosts that share a store with another host into unknown ones (L48): whatever was seen
    /// there was seen twice.
    pub fn refuse_shared_stores(&mut self) {
        let mut by_identity: BTreeMap<String, Vec<HostRef>> = BTreeMap::new();
        for (place, state) in &self.hosts {
            if let HostState::Known(view) = state
                && let Some(identity) = &view.store.identity
            {
                by_identity.entry(identity.clone()).or_default().push(place.clone());
            }
        }
        for places in by_identity.into_values().filter(|places| places.len() > 1) {
            let names: Vec<String> = places.iter().map(ToString::to_string).collect();
            for place in places {
                let trouble = HostTrouble {
                    reason: Reason::DuplicateHost,
                    message: format!("{} are one daemon and one pool", names.join(" and ")),
                    hint: Some("give each host of the config a daemon or a pool of its own".to_owned()),
                };
                self.hosts.insert(place, HostState::Unknown(trouble));
            }
        }
    }
}

impl Observed {
    /// Forgets machines that a host shows and that are another host's of the config to judge, since
    /// their marks name it and it shows them too: both are one daemon, with pools of their own. A
    /// misplaced machine that no other host shows stays blocked, unless another run is at work: it may
    /// have made the machine after the other host was looked at.
    pub fn settle_neighbours(&mut self) {
        let misplaced =
            |instance: &Instance| matches!(instance.standing, Standing::Blocked { reason: Reason::Misplaced, .. });
        let at_home: BTreeSet<String> = self
            .hosts
            .values()
            .filter_map(|state| match state {
                HostState::Known(view) => Some(&view.instances),
                HostState::Unknown(_) => None,
            })
            .flatten()
            .filter(|instance| !misplaced(instance))
            .map(|instance| instance.uuid.clone())
            .collect();
        for state in self.hosts.values_mut() {
            let HostState::Known(view) = state else { continue };
            let before = view.instances.len();
            let busy = view.lock.is_some();
            view.instances.retain(|instance| !misplaced(instance) || !(busy || at_home.contains(&instance.uuid)));
            view.others += before - view.instances.len();
        }
    }
}

/// A host is known completely or not at all: a partial listing is an unknown host.
#[derive(Debug, Clone, Serialize)]
pub enum HostState {
    /// Everything that was asked was answered.
    Known(Box<HostView>),
    /// Something was not; nothing is done on this host.
    Unknown(HostTrouble),
}

/// Why a host is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostTrouble {
    /// The reason.
    pub reason: Reason,
    /// One line for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A host that answered.
#[derive(Debug, Clone, Default, Serialize)]
pub struct HostView {
    /// Its software: `libvirt 11.6.0`.
    pub software: String,
    /// Where disks go.
    pub store: Store,
    /// Machines that bear our fleet's mark for this entry, ours or not quite.
    pub instances: Vec<Instance>,
    /// How many machines on the host are not this fleet's.
    pub others: usize,
    /// Names of machines without a mark of ours that look like names of ours.
    pub names_taken: BTreeSet<String>,
    /// Proxy keys by the fleet that marks bear, for fleets other than ours.
    pub other_fleets: BTreeMap<String, BTreeSet<ProxyKey>>,
    /// Machines of this fleet under an entry or host name that the config does not have:
    /// `entry/host`, and the instance's name.
    pub strangers: BTreeSet<(String, String)>,
    /// Usable base images by id.
    pub images: BTreeMap<String, BaseImage>,
    /// Volumes that look like ours and belong to no machine.
    pub leftovers: Vec<Leftover>,
    /// The run that holds the fleet's lock on this host, when it is not this one.
    pub lock: Option<LockHolder>,
}

/// The storage of a host, with figures in bytes as the host last reported them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Store {
    /// `pool default`.
    pub name: String,
    /// What tells it from every other store, so that one store behind two hosts is found out.
    pub identity: Option<String>,
    /// The command that makes it usable when it is not.
    pub start_hint: String,
    /// Whether it can be used; a stopped pool blocks what needs it.
    pub active: bool,
    /// Size.
    pub capacity: u64,
    /// Free space.
    pub available: u64,
    /// What is never planned away.
    pub reserve: u64,
    /// What existing disks of ours may still grow by.
    pub growth: u64,
}

/// A base image that is on the host, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BaseImage {
    /// Its file name.
    pub name: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// The size of the disk that it holds, in bytes, where the host said.
    pub virtual_bytes: Option<u64>,
}

/// A volume that looks like ours and belongs to no machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Leftover {
    /// Its file name.
    pub name: String,
    /// Its size in bytes, where the host said.
    pub bytes: Option<u64>,
}

/// Who holds a fleet's lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockHolder {
    /// The run's id.
    pub run: String,
    /// When the lock ends unless it is renewed.
    pub until: Option<Timestamp>,
    /// The command that removes it by hand, for one that the host stamped in the future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<String>,
}

/// A machine that bears our fleet's mark.
#[derive(Debug, Clone, Serialize)]
pub struct Instance {
    /// Its name on the host.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Whether it is ours.
    pub standing: Standing,
    /// What the host says it is doing.
    pub power: Power,
    /// It runs and is not defined any more: it is gone once it stops (C19).
    pub transient: bool,
    /// Bytes of the store that its disks take up and may still grow to, their capacity; 0 when they
    /// are not there. Replacing it gives them back.
    pub disk_bytes: u64,
    /// Names of its disks that the store does not hold.
    pub missing_disks: Vec<String>,
    /// What deleting it removes: file names.
    pub removes: Vec<String>,
    /// Its addresses.
    pub address: Address,
}

/// Whether a machine with our fleet's mark is ours.
#[derive(Debug, Clone, Serialize)]
pub enum Standing {
    /// The mark is whole and belongs to the machine that carries it.
    Ours(Box<Mark>),
    /// It is not, for this reason; nobody touches it.
    Blocked {
        /// The key that the mark bears, where it can be read.
        key: Option<ProxyKey>,
        /// Why.
        reason: Reason,
        /// One line for people.
        message: String,
    },
}

/// The mark: what a run wrote into the machine's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// The ownership scope.
    pub fleet: String,
    /// The provider entry.
    pub provider: String,
    /// The host within the entry.
    pub host: String,
    /// The proxy that the machine realises.
    pub proxy: ProxyKey,
    /// UUID of the machine that this mark was written for.
    pub machine: String,
    /// How far its life has come.
    pub state: MarkState,
    /// What the manifest said when it was made.
    pub spec: Fingerprint,
    /// What the config resolved that to.
    pub catalogue: Fingerprint,
    /// Static addresses.
    pub addresses: Vec<String>,
    /// The proxy's port.
    pub port: u16,
    /// Digest of the labels.
    pub labels: String,
    /// No run replaces or deletes it.
    pub protect: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last started by a run.
    pub started_at: Option<Timestamp>,
    /// The source of manifests, where there is one.
    pub source: Option<String>,
    /// Version of the program that wrote the mark.
    pub tool: String,
    /// A cluster's object uid, for people.
    pub uid: Option<String>,
}

/// The life of a machine of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MarkState {
    /// Being made; a dead run leaves it so.
    Creating,
    /// In service.
    Ready,
    /// About to go.
    Draining,
    /// Being deleted; a dead run leaves it so.
    Deleting,
}

/// What a machine is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Power {
    /// It runs.
    Running,
    /// It is on its way to being off.
    ShuttingDown,
    /// It is off, whatever the cause; the text is the host's word for it.
    Off(String),
    /// It is off and holds a saved memory image.
    Saved,
    /// It does not run and is not off; the text is the host's word for why.
    Paused {
        /// The host's word for it: `ioerror`, `user`.
        why: String,
        /// What to do about it, the command included.
        hint: String,
    },
    /// It is between two states and will leave them by itself.
    InTransition(String),
    /// A state that this program has no name for.
    Unknown(String),
}

/// The addresses of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Address {
    /// Nobody asked.
    NotAsked,
    /// The host answered; empty while a machine boots. IPv4 first.
    Known(Vec<IpAddr>),
    /// Nobody who could answer did; says nothing about the machine.
    Unknown(String),
}

impl HostView {
    /// The base image for `need`, when it is on the host.
    #[must_use]
    pub fn image(&self, need: &ImageNeed) -> Option<&BaseImage> {
        self.images.get(&need.id)
    }
}

impl Instance {
    /// The mark, when the machine is ours.
    #[must_use]
    pub fn mark(&self) -> Option<&Mark> {
        match &self.standing {
            Standing::Ours(mark) => Some(mark),
            Standing::Blocked { .. } => None,
        }
    }
}
