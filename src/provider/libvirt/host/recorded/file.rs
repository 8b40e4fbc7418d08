//! The file of a recorded host: YAML that a person can write, and that is written the same way
//! every time.
//!
//! Nearly everything has a default, so that a host for a test or an example is a few lines. The
//! file holds no secret and no XML of machines that are not egress-plan's; `record` sees to that.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use super::scalar::{Bytes, DomainState, DomainXml, ElementXml, FileMode, Version};
use crate::plan::Reason;

/// The format that this program writes and reads.
pub const FORMAT: &str = "egress-plan.dev/recorded/v1";

/// What a host answered at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct RecordedHost {
    /// Always `egress-plan.dev/recorded/v1`.
    #[serde(deserialize_with = "this_format")]
    pub format: String,
    /// The host's time. Served, it advances by one second with every call that changes something.
    pub recorded_at: Timestamp,
    /// The host's name; the file's, without its ending, where none is given.
    pub hostname: Option<String>,
    /// Version of the daemon.
    pub libvirt: Version,
    /// Version of the hypervisor.
    pub hypervisor: Version,
    /// The kinds of domain that the host can run.
    pub domain_types: Vec<String>,
    /// Whether it has UEFI firmware.
    pub uefi: bool,
    /// Its interfaces, as far as they were asked for; without this, its daemon cannot tell.
    pub interfaces: Option<Vec<String>>,
    /// Where machines that are started here get their addresses from.
    #[schemars(with = "String")]
    pub guest_range: Ipv4Net,
    /// The host answers nothing, for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,
    /// The pool of the host's configuration.
    pub pool: RecordedPool,
    /// Its domains.
    #[serde(deserialize_with = "distinct_domains")]
    pub domains: Vec<RecordedDomain>,
}

/// Why a recorded host answers nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Unreachable {
    /// The reason.
    pub reason: Reason,
    /// One line for people.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct RecordedPool {
    /// There is no pool of that name.
    #[serde(skip_serializing_if = "is_false")]
    pub missing: bool,
    /// Its name, for messages.
    pub name: String,
    /// Its UUID; one that follows from host name and folder where none is given.
    pub uuid: Option<String>,
    /// `dir`, `fs`, `logical`…
    #[serde(rename = "type")]
    pub kind: String,
    /// Its folder.
    pub path: String,
    /// Whether it is running.
    pub active: bool,
    /// Bytes in all.
    pub capacity: Bytes,
    /// Free bytes as of the last refresh; capacity less what the volumes take where none are given.
    pub available: Option<Bytes>,
    /// Free bytes as the next refresh will find them, where that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<Bytes>,
    /// Its folder is gone: the next refresh fails and makes the pool inactive.
    #[serde(skip_serializing_if = "is_false")]
    pub folder_gone: bool,
    /// How many refreshes are refused first because jobs are running in the pool.
    #[serde(skip_serializing_if = "is_zero")]
    pub busy_refreshes: u32,
    /// How many bytes at its end each upload loses, while it is said to have succeeded.
    #[serde(skip_serializing_if = "is_none")]
    pub lost_tail: Bytes,
    /// Its volumes.
    #[serde(deserialize_with = "distinct_volumes")]
    pub volumes: Vec<RecordedVolume>,
}

/// A file in the pool's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecordedVolume {
    /// Its file name.
    pub name: String,
    /// `raw`, `qcow2`, `iso`…
    #[serde(default = "raw")]
    pub format: String,
    /// Bytes that it holds for a reader.
    #[serde(default)]
    pub capacity: Bytes,
    /// Bytes that it takes on the host.
    #[serde(default)]
    pub allocation: Bytes,
    /// Length of the file; for `qcow2` the allocation, for others the capacity where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical: Option<Bytes>,
    /// When the file was last changed; the time of recording where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
    /// Path of the file that it is an overlay of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<String>,
    /// Permission bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<FileMode>,
    /// The file is there and libvirt has not seen it; a refresh lists it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unseen: bool,
}

/// A domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecordedDomain {
    /// Its name.
    pub name: String,
    /// Its UUID; one that follows from the name where none is given.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub uuid: Option<Uuid>,
    /// Its state.
    #[serde(default = "shutoff")]
    pub state: DomainState,
    /// The reason for the state, by libvirt's number; 1 while running, 0 otherwise, where none is
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<i32>,
    /// Whether it is active, where the state does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// Whether it has a persistent configuration.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub persistent: bool,
    /// Whether the host starts it with itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub autostart: bool,
    /// It has an NVRAM file.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nvram: bool,
    /// It has a saved memory image.
    #[serde(default, skip_serializing_if = "is_false")]
    pub managed_save: bool,
    /// How many snapshots it has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub snapshots: u32,
    /// How many checkpoints it has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checkpoints: u32,
    /// Its guest does nothing when asked to power off.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignores_shutdown: bool,
    /// `kvm` or `qemu`, for a domain without `xml`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Metadata of a domain without `xml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<RecordedMetadata>,
    /// Metadata of its live configuration, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_metadata: Option<Vec<RecordedMetadata>>,
    /// Its disks; with `xml`, only the figures of those that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<RecordedDisk>,
    /// Interfaces of a domain without `xml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<RecordedNic>,
    /// What its address sources answer; without this, its agent gives one address a NIC from the
    /// guest range while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<RecordedAddresses>,
    /// The XML of a domain of ours: of its persistent configuration, or its only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xml: Option<DomainXml>,
    /// The XML of its live configuration, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_xml: Option<DomainXml>,
}

/// An element of a domain's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecordedMetadata {
    /// The URI of its namespace.
    pub uri: String,
    /// The element, where it is egress-plan's; others are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xml: Option<ElementXml>,
}

/// A disk of a domain: a path, or a pool and a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct RecordedDisk {
    /// Its path on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its pool, with `volume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Its volume, with `pool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Paths of the files below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Bytes that the guest sees; the volume's where it is in the pool.
    #[serde(skip_serializing_if = "is_none")]
    pub capacity: Bytes,
    /// Bytes that it takes on the host; the volume's where it is in the pool.
    #[serde(skip_serializing_if = "is_none")]
    pub allocation: Bytes,
}

/// An interface of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecordedNic {
    /// Its MAC.
    pub mac: String,
    /// The bridge that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
}

/// What the sources of addresses answer. A source that is left out has nothing: the agent is not
/// connected, the others give an empty list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct RecordedAddresses {
    /// The agent in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Vec<RecordedInterface>>,
    /// libvirt's own DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Vec<RecordedInterface>>,
    /// The host's neighbour table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arp: Option<Vec<RecordedInterface>>,
}

/// The addresses of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecordedInterface {
    /// Its MAC.
    pub mac: String,
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
}

/// Why a recorded host's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the recorded host {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It says something that this program does not understand.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1; 0 where it is not known.
        line: u64,
        /// Column, from 1; 0 where it is not known.
        column: u64,
        /// What is wrong.
        message: String,
    },
    /// It cannot be written.
    #[error("cannot write the recorded host {}: {message}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

impl Default for RecordedHost {
    fn default() -> Self {
        Self {
            format: FORMAT.to_owned(),
            recorded_at: Timestamp::constant(1_767_225_600, 0),
            hostname: None,
            libvirt: Version { number: 11_006_000 },
            hypervisor: Version { number: 10_001_000 },
            domain_types: vec!["kvm".to_owned(), "qemu".to_owned()],
            uefi: true,
            interfaces: None,
            guest_range: Ipv4Net::new_assert(std::net::Ipv4Addr::new(192, 0, 2, 0), 24),
            unreachable: None,
            pool: RecordedPool::default(),
            domains: Vec::new(),
        }
    }
}

impl Default for RecordedDomain {
    fn default() -> Self {
        Self {
            name: String::new(),
            uuid: None,
            state: shutoff(),
            reason: None,
            active: None,
            persistent: true,
            autostart: false,
            nvram: false,
            managed_save: false,
            snapshots: 0,
            checkpoints: 0,
            ignores_shutdown: false,
            kind: None,
            metadata: Vec::new(),
            live_metadata: None,
            disks: Vec::new(),
            nics: Vec::new(),
            addresses: None,
            xml: None,
            live_xml: None,
        }
    }
}

impl Default for RecordedPool {
    fn default() -> Self {
        Self {
            missing: false,
            name: "default".to_owned(),
            uuid: None,
            kind: "dir".to_owned(),
            path: "/var/lib/libvirt/images".to_owned(),
            active: true,
            capacity: Bytes(100 << 30),
            available: None,
            free: None,
            folder_gone: false,
            busy_refreshes: 0,
            lost_tail: Bytes(0),
            volumes: Vec::new(),
        }
    }
}

impl RecordedHost {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        let mut host = Self::parse(&text, path)?;
        if host.hostname.is_none() {
            host.hostname = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        }
        Ok(host)
    }

    /// Reads a file's text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        // A host of thousands of machines is larger than what the reader takes by itself.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_events: 10_000_000, max_nodes: 5_000_000, max_total_scalar_bytes: 1 << 29 },
        };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let at = error.location();
            FileError::Syntax {
                path: path.to_owned(),
                line: at.map_or(0, |at| at.line()),
                column: at.map_or(0, |at| at.column()),
                message: sentence(&error),
            }
        })
    }

    /// The file's text: sorted, the same bytes for the same host.
    ///
    /// # Errors
    /// When a value cannot be written as YAML, which no value of this type should bring about.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        let mut host = self.clone();
        host.pool.volumes.sort_by(|a, b| a.name.cmp(&b.name));
        host.domains.sort_by(|a, b| (&a.name, a.uuid).cmp(&(&b.name, b.uuid)));
        // Only XML is given a block of its own; a long path or message stays on its line.
        let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
        serde_saphyr::to_string_with_options(&host, options)
    }

    /// Writes the file whole or not at all: beside its place first, then renamed.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        let failed = |message: String| FileError::Write { path: path.to_owned(), message };
        let text = self.to_yaml().map_err(|error| failed(error.to_string()))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(error.to_string()))?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| failed(error.to_string()))?;
        file.persist(path).map_err(|error| failed(error.to_string()))?;
        Ok(())
    }
}

/// The message alone: neither a snippet of the file nor the position, which is told before it.
fn sentence(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    text.rsplit_once(" at line ").map_or(text, |(message, _)| message).to_owned()
}

fn this_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let found = String::deserialize(deserializer)?;
    if found == FORMAT { Ok(found) } else { Err(D::Error::custom(format!("expected the format {FORMAT}"))) }
}

fn distinct_volumes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RecordedVolume>, D::Error> {
    let volumes = Vec::<RecordedVolume>::deserialize(deserializer)?;
    let mut names = BTreeSet::new();
    match volumes.iter().find(|volume| !names.insert(&volume.name)) {
        Some(twice) => Err(D::Error::custom(format!("the volume {} is there twice", twice.name))),
        None => Ok(volumes),
    }
}

fn distinct_domains<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RecordedDomain>, D::Error> {
    let domains = Vec::<RecordedDomain>::deserialize(deserializer)?;
    let (mut names, mut uuids) = (BTreeSet::new(), BTreeSet::new());
    for domain in &domains {
        let name = &domain.name;
        let refused = |what: &str| Err(D::Error::custom(format!("the domain {name} {what}")));
        if !names.insert(name) {
            return refused("is there twice");
        }
        if domain.uuid.is_some_and(|uuid| !uuids.insert(uuid)) {
            return refused("has the UUID of another");
        }
        for xml in domain.xml.iter().chain(&domain.live_xml) {
            if xml.0.name != *name || domain.uuid.is_some_and(|uuid| uuid != xml.0.uuid) {
                return refused("has XML of another name or UUID");
            }
        }
        let fields = domain.kind.is_some()
            || domain.live_metadata.is_some()
            || !domain.metadata.is_empty()
            || !domain.nics.is_empty();
        if domain.xml.is_some() && fields {
            return refused("has `xml`, which already says its type, metadata and nics");
        }
        if domain.xml.is_none() && domain.live_xml.is_some() {
            return refused("has `liveXml` without `xml`");
        }
    }
    Ok(domains)
}

fn raw() -> String {
    "raw".to_owned()
}

fn shutoff() -> DomainState {
    DomainState(super::super::calls::state::SHUTOFF)
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(value: &Bytes) -> bool {
    value.0 == 0
}
