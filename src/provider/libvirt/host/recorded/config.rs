//! One configuration of a domain, live or persistent: its XML, and the facts in it that a host
//! acts on.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::super::calls::{CallError, CallResult, part};
use super::error;
use super::metadata::Metadata;
use super::xml::{Element, Node};

/// A domain's configuration. The tree holds everything but `<metadata>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DomainConfig {
    pub(super) name: String,
    pub(super) uuid: Uuid,
    pub(super) metadata: Metadata,
    tree: Element,
}

/// A disk, as its XML names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DiskSource {
    /// File or device.
    pub(super) path: Option<String>,
    /// Pool and volume, for a disk that names those.
    pub(super) volume: Option<(String, String)>,
    /// Files that the XML names below it.
    pub(super) chain: Vec<String>,
}

/// An interface, as its XML names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nic {
    pub(super) mac: String,
    pub(super) bridge: Option<String>,
}

/// The agent's channel, by the name that QEMU and the guest know it by.
pub(super) const AGENT_CHANNEL: &str = "org.qemu.guest_agent.0";

impl DomainConfig {
    /// Reads a domain's XML as a define does, with the same refusals.
    pub(super) fn parse(text: &str) -> CallResult<Self> {
        let tree = Element::parse(text)
            .map_err(|malformed| error::malformed(part::DOMAIN, format!("(domain_definition):1: {malformed}")))?;
        Self::from_tree(tree)
    }

    /// The same, from a tree.
    pub(super) fn from_tree(mut tree: Element) -> CallResult<Self> {
        if tree.name != "domain" {
            let what = format!("expecting root element of 'domain', not '{}'", tree.name);
            return Err(error::xml(5, what));
        }
        let name = tree.child("name").map(Element::text).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| error::other(21, part::DOMAIN, "missing name information"))?;
        if name.contains('/') {
            return Err(error::xml(part::DOMAIN, format!("name {name} cannot contain '/'")));
        }
        if name.contains('\n') {
            return Err(error::malformed(5, format!("invalid char in name: {name:?}")));
        }
        let uuid = if let Some(uuid) = tree.child("uuid") {
            Uuid::parse_str(uuid.text().trim()).map_err(|_| error::internal(part::DOMAIN, "malformed uuid element"))?
        } else {
            let uuid = derived_uuid(&["domain", &name]);
            let at = tree.children.len().min(1);
            tree.children.insert(at, Node::Element(Element::with_text("uuid", &uuid.to_string())));
            uuid
        };
        give_macs(&mut tree, &name);
        // Told of an active domain; read, it says nothing.
        for target in agent_targets(&mut tree) {
            target.attributes.retain(|(name, _)| name != "state");
        }
        let metadata = Metadata::take(&mut tree);
        Ok(Self { name, uuid, metadata, tree })
    }

    /// A configuration put together here; the tree holds no metadata.
    pub(super) fn assembled(name: &str, uuid: Uuid, metadata: Metadata, tree: Element) -> Self {
        Self { name: name.to_owned(), uuid, metadata, tree }
    }

    /// Everything but the metadata, to be changed.
    pub(super) fn tree_mut(&mut self) -> &mut Element {
        &mut self.tree
    }

    /// The whole as a tree, metadata included, after the UUID, where libvirt has it.
    pub(super) fn to_tree(&self) -> Element {
        let mut tree = self.tree.clone();
        if let Some(metadata) = self.metadata.to_element() {
            let after = tree.children.iter().position(|node| matches!(node, Node::Element(e) if e.name == "uuid"));
            let at = after.map_or(0, |uuid| uuid.saturating_add(1));
            tree.children.insert(at, Node::Element(metadata));
        }
        tree
    }

    /// The whole as text.
    pub(super) fn to_xml(&self) -> String {
        self.to_tree().write()
    }

    /// The whole as text, as the live configuration of a domain whose agent is there or not.
    pub(super) fn to_live_xml(&self, agent: bool) -> String {
        let mut tree = self.to_tree();
        let state = if agent { "connected" } else { "disconnected" };
        for target in agent_targets(&mut tree) {
            target.attributes.push(("state".to_owned(), state.to_owned()));
        }
        tree.write()
    }

    /// `kvm`, `qemu`…
    pub(super) fn domain_type(&self) -> &str {
        self.tree.attribute("type").unwrap_or_default()
    }

    /// Whether the firmware is chosen by the host and is UEFI, which makes an NVRAM file at start.
    pub(super) fn uefi(&self) -> bool {
        self.tree.child("os").is_some_and(|os| os.attribute("firmware") == Some("efi") || os.child("nvram").is_some())
    }

    /// Whether it has a channel for the agent.
    pub(super) fn agent_channel(&self) -> bool {
        self.devices().any(|device| {
            device.name == "channel"
                && device.child("target").is_some_and(|target| target.attribute("name") == Some(AGENT_CHANNEL))
        })
    }

    /// Its disks, those without a source left out.
    pub(super) fn disks(&self) -> Vec<DiskSource> {
        self.devices().filter(|device| device.name == "disk").filter_map(disk_source).collect()
    }

    /// Its interfaces.
    pub(super) fn nics(&self) -> Vec<Nic> {
        self.devices()
            .filter(|device| device.name == "interface")
            .filter_map(|device| {
                let mac = device.child("mac")?.attribute("address")?.to_ascii_lowercase();
                let bridge = device.child("source").and_then(|source| source.attribute("bridge")).map(str::to_owned);
                Some(Nic { mac, bridge })
            })
            .collect()
    }

    fn devices(&self) -> impl Iterator<Item = &Element> {
        self.tree.elements().filter(|element| element.name == "devices").flat_map(Element::elements)
    }

    /// The refusal for a domain type that the host cannot run.
    pub(super) fn refuse_type(&self) -> CallError {
        error::unsupported(
            part::QEMU,
            format!("Emulator '/usr/bin/qemu-system-x86_64' does not support virt type '{}'", self.domain_type()),
        )
    }
}

fn disk_source(disk: &Element) -> Option<DiskSource> {
    let source = disk.child("source")?;
    let path = source.attribute("file").or_else(|| source.attribute("dev")).map(str::to_owned);
    let volume = match (source.attribute("pool"), source.attribute("volume")) {
        (Some(pool), Some(volume)) => Some((pool.to_owned(), volume.to_owned())),
        _ => None,
    };
    let mut chain = Vec::new();
    let mut below = disk.child("backingStore");
    while let Some(store) = below {
        if let Some(file) = store.child("source").and_then(|source| source.attribute("file")) {
            chain.push(file.to_owned());
        }
        below = store.child("backingStore");
    }
    (path.is_some() || volume.is_some()).then_some(DiskSource { path, volume, chain })
}

/// The far ends of the channels to the agent.
fn agent_targets(tree: &mut Element) -> impl Iterator<Item = &mut Element> {
    tree.elements_mut()
        .filter(|element| element.name == "devices")
        .flat_map(Element::elements_mut)
        .filter(|device| device.name == "channel")
        .flat_map(Element::elements_mut)
        .filter(|element| element.name == "target" && element.attribute("name") == Some(AGENT_CHANNEL))
}

/// Gives each interface without a MAC one, always the same for the same domain. libvirt draws it.
fn give_macs(tree: &mut Element, name: &str) {
    let devices = tree.elements_mut().filter(|element| element.name == "devices");
    let nics = devices.flat_map(Element::elements_mut).filter(|element| element.name == "interface");
    for (index, nic) in nics.enumerate() {
        if nic.child("mac").is_none() {
            let bytes = Sha256::digest(format!("mac\0{name}\0{index}"));
            let mut address = "52:54:00".to_owned();
            for byte in bytes.iter().take(3) {
                address.push(':');
                address.push_str(&hex::encode([*byte]));
            }
            let mac = Element::new("mac", &[("address", &address)]);
            nic.children.insert(0, Node::Element(mac));
        }
    }
}

/// A UUID that follows from `parts` alone: a recorded host draws nothing.
pub(super) fn derived_uuid(parts: &[&str]) -> Uuid {
    let digest = Sha256::digest(parts.join("\0"));
    let mut bytes = [0_u8; 16];
    for (byte, drawn) in bytes.iter_mut().zip(digest.iter()) {
        *byte = *drawn;
    }
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_tells_what_a_host_acts_on() {
        let config = DomainConfig::parse(
            "<domain type='kvm'><name>a</name><uuid>00000000-0000-4000-8000-000000000001</uuid>
            <metadata><x:m xmlns:x='urn:x'/></metadata><os firmware='efi'/><devices>
            <disk><source file='/p/a'/><backingStore><source file='/p/b'/><backingStore/></backingStore></disk>
            <disk><source pool='p' volume='v'/></disk><disk device='cdrom'/>
            <disk type='network'><source protocol='rbd' name='x'/></disk>
            <interface type='bridge'><mac address='52:54:00:AA:00:01'/><source bridge='br0'/></interface>
            <interface type='user'/>
            <channel><target name='org.qemu.guest_agent.0'/></channel></devices></domain>",
        )
        .unwrap();
        assert_eq!((config.domain_type(), config.uefi(), config.agent_channel()), ("kvm", true, true));
        assert_eq!(
            config.disks(),
            [
                DiskSource { path: Some("/p/a".into()), volume: None, chain: vec!["/p/b".into()] },
                DiskSource { path: None, volume: Some(("p".into(), "v".into())), chain: vec![] },
            ]
        );
        let nics = config.nics();
        assert_eq!(nics[0], Nic { mac: "52:54:00:aa:00:01".into(), bridge: Some("br0".into()) });
        assert!(nics[1].mac.starts_with("52:54:00:"), "{nics:?}");
        assert_eq!(DomainConfig::parse(&config.to_xml()).unwrap(), config);
    }

    #[test]
    fn what_cannot_be_defined_is_refused_with_libvirts_code() {
        for (text, code, domain) in [
            ("<domain", 35, 20),
            ("<foo/>", 27, 5),
            ("<domain/>", 21, 20),
            ("<domain><name>a/b</name></domain>", 27, 20),
            ("<domain><name>a\nb</name></domain>", 35, 5),
            ("<domain><name>a</name><uuid>zz</uuid></domain>", 1, 20),
        ] {
            let error = DomainConfig::parse(text).unwrap_err();
            assert_eq!((error.code, error.domain), (code, domain), "{text}: {error}");
        }
    }
}
