//! Between a domain's configurations and the file: what is recorded of a domain, and what is made
//! of that again.
//!
//! Never recorded: secrets, and of machines that bear no mark of egress-plan's anything but name,
//! state, interfaces, disk paths and the namespaces of their metadata.

use uuid::Uuid;

use super::config::{AGENT_CHANNEL, DomainConfig};
use super::file::{RecordedDisk, RecordedDomain, RecordedMetadata, RecordedNic};
use super::metadata::Metadata;
use super::scalar::{Bytes, DomainXml, ElementXml};
use super::xml::{Element, Node};

/// The namespace of the mark.
pub const MARK_NAMESPACE: &str = "https://egress-plan.dev/ns/libvirt/1";

/// Elements that may hold a secret, wherever they are.
const SECRET_ELEMENTS: [&str; 11] = [
    "auth",
    "secret",
    "encryption",
    "cookies",
    "cookie",
    "initarg",
    "initenv",
    "cmdline",
    "oemStrings",
    "description",
    "launchSecurity",
];

/// Attributes that may hold a secret, wherever they are.
const SECRET_ATTRIBUTES: [&str; 7] = ["passwd", "password", "passphrase", "secret", "key", "keyfile", "query"];

/// The live and the persistent configuration that a file's domain has.
#[derive(Debug, Default)]
pub(super) struct Configs {
    pub(super) persistent: Option<DomainConfig>,
    pub(super) live: Option<DomainConfig>,
}

/// The configurations of a file's domain.
pub(super) fn configs(domain: &RecordedDomain, uuid: Uuid, active: bool) -> Configs {
    let first = match &domain.xml {
        Some(xml) => xml.0.clone(),
        None => assembled(domain, uuid, &domain.metadata),
    };
    let live = active.then(|| match (&domain.live_xml, &domain.live_metadata) {
        (Some(xml), _) => xml.0.clone(),
        (None, Some(metadata)) => assembled(domain, uuid, metadata),
        (None, None) => first.clone(),
    });
    Configs { persistent: domain.persistent.then_some(first), live }
}

/// A configuration made of the fields of the file.
fn assembled(domain: &RecordedDomain, uuid: Uuid, recorded: &[RecordedMetadata]) -> DomainConfig {
    let mut metadata = Metadata::default();
    for element in recorded {
        let unknown = || Element::new("x:unknown", &[("xmlns:x", &element.uri)]);
        metadata.put(&element.uri, element.xml.as_ref().map_or_else(unknown, |xml| xml.0.clone()));
    }
    let mut devices = Element::new("devices", &[]);
    for disk in &domain.disks {
        devices = devices.with(disk_element(disk));
    }
    for nic in &domain.nics {
        let interface = Element::new("interface", &[("type", if nic.bridge.is_some() { "bridge" } else { "user" })])
            .with(Element::new("mac", &[("address", &nic.mac)]));
        devices = devices.with(match &nic.bridge {
            Some(bridge) => interface.with(Element::new("source", &[("bridge", bridge)])),
            None => interface,
        });
    }
    if metadata.has(MARK_NAMESPACE) {
        let target = Element::new("target", &[("type", "virtio"), ("name", AGENT_CHANNEL)]);
        devices = devices.with(Element::new("channel", &[("type", "unix")]).with(target));
    }
    let tree = Element::new("domain", &[("type", domain.kind.as_deref().unwrap_or("kvm"))])
        .with(Element::with_text("name", &domain.name))
        .with(Element::with_text("uuid", &uuid.to_string()))
        .with(devices);
    DomainConfig::assembled(&domain.name, uuid, metadata, tree)
}

fn disk_element(disk: &RecordedDisk) -> Element {
    let (kind, source) = match (&disk.path, &disk.pool, &disk.volume) {
        (None, Some(pool), Some(volume)) => ("volume", Element::new("source", &[("pool", pool), ("volume", volume)])),
        (path, ..) => ("file", Element::new("source", &[("file", path.as_deref().unwrap_or_default())])),
    };
    let chain = disk.chain.iter().rev().fold(Element::new("backingStore", &[]), |below, path| {
        Element::new("backingStore", &[("type", "file")]).with(Element::new("source", &[("file", path)])).with(below)
    });
    Element::new("disk", &[("type", kind), ("device", "disk")]).with(source).with(chain)
}

/// Fills in what the file holds of a domain's configurations.
pub(super) fn record(
    domain: &mut RecordedDomain,
    persistent: Option<&DomainConfig>,
    live: Option<&DomainConfig>,
    figures: impl Fn(&str) -> (u64, u64),
) {
    let both = || persistent.into_iter().chain(live);
    let Some(first) = both().next() else { return };
    domain.disks = disks(both(), figures);
    if both().any(|config| config.metadata.has(MARK_NAMESPACE)) {
        let redacted = redact(first);
        let live = live.map(redact).filter(|live| *live != redacted);
        domain.xml = Some(DomainXml(redacted));
        domain.live_xml = live.map(DomainXml);
        return;
    }
    domain.kind = Some(first.domain_type().to_owned()).filter(|kind| !kind.is_empty());
    domain.nics = first.nics().into_iter().map(|nic| RecordedNic { mac: nic.mac, bridge: nic.bridge }).collect();
    domain.metadata = namespaces(first);
    domain.live_metadata = live.map(namespaces).filter(|live| *live != domain.metadata);
}

/// Each disk once, whichever configuration names it.
fn disks<'a>(
    configs: impl Iterator<Item = &'a DomainConfig>,
    figures: impl Fn(&str) -> (u64, u64),
) -> Vec<RecordedDisk> {
    let mut found: Vec<RecordedDisk> = Vec::new();
    for disk in configs.flat_map(DomainConfig::disks) {
        let (pool, volume) = disk.volume.unzip();
        let same = |known: &&mut RecordedDisk| (&known.path, &known.volume) == (&disk.path, &volume);
        if let Some(known) = found.iter_mut().find(same) {
            if known.chain.is_empty() {
                known.chain = disk.chain;
            }
            continue;
        }
        let (capacity, allocation) = disk.path.as_deref().map(&figures).unwrap_or_default();
        let (capacity, allocation) = (Bytes(capacity), Bytes(allocation));
        found.push(RecordedDisk { path: disk.path, pool, volume, chain: disk.chain, capacity, allocation });
    }
    found
}

/// The namespaces of a configuration's metadata; the element only where it is the mark's.
fn namespaces(config: &DomainConfig) -> Vec<RecordedMetadata> {
    let mut found: Vec<_> = config
        .metadata
        .iter()
        .map(|(uri, element)| RecordedMetadata {
            uri: uri.to_owned(),
            xml: (uri == MARK_NAMESPACE).then(|| ElementXml(element.clone())),
        })
        .collect();
    found.sort_by(|a, b| a.uri.cmp(&b.uri));
    found
}

/// The configuration without anything that may be a secret: other programs' extensions and the
/// content of their metadata go, and so do elements and attributes that hold keys or free text.
fn redact(config: &DomainConfig) -> DomainConfig {
    let mut redacted = config.clone();
    for (uri, element) in redacted.metadata.iter_mut() {
        if uri != MARK_NAMESPACE {
            *element = Element::new("x:unknown", &[("xmlns:x", uri)]);
        }
    }
    remove_secrets(redacted.tree_mut());
    redacted
}

fn remove_secrets(element: &mut Element) {
    element.attributes.retain(|(name, _)| !SECRET_ATTRIBUTES.contains(&name.as_str()));
    element.children.retain(|node| match node {
        Node::Element(child) => {
            let firmware_blob = child.name == "sysinfo" && child.attribute("type") == Some("fwcfg");
            !firmware_blob && !child.name.contains(':') && !SECRET_ELEMENTS.contains(&child.name.as_str())
        }
        Node::Text(_) => true,
    });
    for child in element.elements_mut() {
        remove_secrets(child);
    }
}
