//! What a domain's XML says that matters here: the files and volumes that it names, its
//! network cards, its guest agent. For our own domains and for foreign ones of any shape.
//!
//! Errs on the side of use: whatever looks like a path counts as named, so that nothing is deleted
//! that some domain might need. Reads text alone, asks no host, and keeps nothing of the XML but
//! paths, names and addresses.

use std::collections::BTreeSet;

use super::xml::{Element, XmlError};

/// What a domain's XML says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DomainFacts {
    /// Its disks in order, empty drives included.
    pub disks: Vec<DiskFacts>,
    /// Its network cards.
    pub nics: Vec<Nic>,
    /// Whether the guest's agent can be asked.
    pub agent: Agent,
    paths: BTreeSet<String>,
    volumes: BTreeSet<(String, String)>,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFacts {
    /// `vda`.
    pub target: Option<String>,
    /// What is in it.
    pub source: Source,
    /// What that is an overlay of, nearest first. libvirt tells this of active domains alone.
    pub backing: Vec<Source>,
}

/// Where a disk's content is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file or block device by its path.
    Path(String),
    /// A volume by its pool's name and its own.
    Volume {
        /// The pool.
        pool: String,
        /// The volume.
        volume: String,
    },
    /// Somewhere that is not a file of the host, on the network for one.
    Elsewhere,
    /// An empty drive.
    Empty,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// Its MAC address, lower-case.
    pub mac: Option<String>,
    /// The libvirt network that it is plugged into; a bridge of the host's own is none.
    pub network: Option<String>,
}

/// The channel to the guest's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Agent {
    /// The domain has no channel.
    #[default]
    None,
    /// It has one, and nobody in the guest has opened it (as far as the XML says).
    Disconnected,
    /// The agent listens.
    Connected,
}

impl DomainFacts {
    /// Reads a domain's XML.
    pub fn read(xml: &str) -> Result<Self, XmlError> {
        let root = Element::read(xml)?;
        let mut facts = Self::default();
        facts.collect(&root);
        for device in root.first("devices").map(Element::every).unwrap_or_default() {
            match device.name() {
                "disk" => facts.disks.push(DiskFacts {
                    target: device.first("target").and_then(|target| target.attribute("dev")).map(str::to_owned),
                    source: source(device),
                    backing: backing(device),
                }),
                "interface" => facts.nics.push(Nic {
                    mac: device.first("mac").and_then(|mac| mac.attribute("address")).map(str::to_lowercase),
                    network: device.first("source").and_then(|from| from.attribute("network")).map(str::to_owned),
                }),
                "channel" => facts.agent = agent(device).unwrap_or(facts.agent),
                _ => {}
            }
        }
        Ok(facts)
    }

    /// Whether the domain names a volume, by any path that ends in its file name or by pool and
    /// volume. Folder and pool are not compared: one folder may have two paths and two pools.
    #[must_use]
    pub fn names_volume(&self, volume: &str) -> bool {
        self.volumes.iter().any(|(_, name)| name == volume)
            || self.paths.iter().any(|path| path.rsplit('/').next() == Some(volume))
    }

    /// Every path that the domain's XML holds outside of its metadata, sorted.
    #[must_use]
    pub fn paths(&self) -> &BTreeSet<String> {
        &self.paths
    }

    /// Every pair of pool and volume that it names, sorted.
    #[must_use]
    pub fn volumes(&self) -> &BTreeSet<(String, String)> {
        &self.volumes
    }

    /// MAC addresses of its cards, lower-case.
    pub fn macs(&self) -> impl Iterator<Item = &str> {
        self.nics.iter().filter_map(|nic| nic.mac.as_deref())
    }

    fn collect(&mut self, element: &Element) {
        // Metadata is other programs' notes, not something that the domain opens.
        if element.name() == "metadata" {
            return;
        }
        if let (Some(pool), Some(volume)) = (element.attribute("pool"), element.attribute("volume")) {
            self.volumes.insert((pool.to_owned(), volume.to_owned()));
        }
        let values = ["file", "dev", "dir", "path", "name"].iter().filter_map(|name| element.attribute(name));
        self.paths.extend(values.chain([element.value()]).filter(|value| value.starts_with('/')).map(str::to_owned));
        for child in element.every() {
            self.collect(child);
        }
    }
}

fn source(disk: &Element) -> Source {
    let Some(source) = disk.first("source") else { return Source::Empty };
    let attribute = |name| source.attribute(name).filter(|value| !value.is_empty()).map(str::to_owned);
    if let (Some(pool), Some(volume)) = (attribute("pool"), attribute("volume")) {
        return Source::Volume { pool, volume };
    }
    if let Some(path) = attribute("file").or_else(|| attribute("dev")).or_else(|| attribute("dir")) {
        return Source::Path(path);
    }
    if disk.attribute("type").is_some_and(|kind| !matches!(kind, "file" | "block" | "dir" | "volume")) {
        Source::Elsewhere
    } else {
        Source::Empty
    }
}

fn backing(disk: &Element) -> Vec<Source> {
    let mut chain = Vec::new();
    let mut at = disk.first("backingStore");
    while let Some(store) = at {
        // The end of a chain is written as an element with nothing in it.
        if store.every().is_empty() {
            break;
        }
        chain.push(source(store));
        at = store.first("backingStore");
    }
    chain
}

fn agent(channel: &Element) -> Option<Agent> {
    let target = channel.first("target")?;
    if target.attribute("name") != Some("org.qemu.guest_agent.0") {
        return None;
    }
    Some(if target.attribute("state") == Some("connected") { Agent::Connected } else { Agent::Disconnected })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn domain(inner: &str) -> DomainFacts {
        DomainFacts::read(&format!("<domain type='kvm'><name>x</name>{inner}</domain>")).unwrap()
    }

    #[test]
    fn c10_a_network_disk_an_empty_drive_and_empty_attributes() {
        let facts = domain(
            "<devices>
               <disk type='network' device='disk'>
                 <auth username='u'><secret type='ceph' uuid='3f6d6ac6-0e8c-4d3a-9a4d-000000000001'/></auth>
                 <source protocol='rbd' name='pool/image'><host name='mon' port='6789'/></source>
                 <target dev='vda' bus='virtio'/>
               </disk>
               <disk type='file' device='cdrom'><target dev='hdc' bus='ide'/><readonly/></disk>
               <disk type='file' device='floppy'><source file=''/><target dev='fda'/></disk>
               <interface type='bridge'><source bridge='b'/><rom bar='off' file=''/></interface>
             </devices>",
        );
        let sources: Vec<_> = facts.disks.iter().map(|disk| disk.source.clone()).collect();
        assert_eq!(sources, [Source::Elsewhere, Source::Empty, Source::Empty]);
        assert_eq!(facts.nics, [Nic { mac: None, network: None }]);
        assert!(facts.paths().is_empty(), "{:?}", facts.paths());
    }

    #[test]
    fn c10_other_vendors_metadata_is_no_use_of_a_file() {
        let facts = domain(
            "<metadata><n:instance xmlns:n='urn:n'><n:name>🦀</n:name><n:disk file='/pool/base.qcow2'/></n:instance>
               <!-- note --><o:libosinfo xmlns:o='urn:o'><o:os id='http://debian.org/debian/12'/></o:libosinfo></metadata>",
        );
        assert!(!facts.names_volume("base.qcow2"));
    }

    #[test]
    fn c10_a_volume_named_by_its_pool_and_one_named_through_a_link_are_in_use() {
        let by_pool = domain(
            "<devices><disk type='volume'><source pool='default' volume='base.qcow2'/><target dev='vda'/></disk></devices>",
        );
        let by_link = domain("<devices><disk type='file'><source file='/mnt/link//base.qcow2'/></disk></devices>");
        assert!(by_pool.names_volume("base.qcow2") && by_link.names_volume("base.qcow2"));
        assert!(!by_link.names_volume("ase.qcow2"));
        assert_eq!(by_pool.volumes().len(), 1);
        assert_eq!(
            by_pool.disks[0].source,
            Source::Volume { pool: "default".to_owned(), volume: "base.qcow2".to_owned() }
        );
    }

    #[test]
    fn the_backing_chain_of_a_running_domain_is_read_to_its_end() {
        let facts = domain(
            "<devices><disk type='file' device='disk'>
               <source file='/pool/o.qcow2' index='2'/>
               <backingStore type='file' index='3'><format type='qcow2'/><source file='/pool/b.qcow2'/>
                 <backingStore type='network'><format type='raw'/><source protocol='nbd'/><backingStore/></backingStore>
               </backingStore>
               <mirror type='file' file='/pool/m.qcow2'/>
               <target dev='vda'/></disk></devices>",
        );
        let disk = &facts.disks[0];
        assert_eq!(disk.source, Source::Path("/pool/o.qcow2".to_owned()));
        assert_eq!(disk.backing, [Source::Path("/pool/b.qcow2".to_owned()), Source::Elsewhere]);
        for volume in ["o.qcow2", "b.qcow2", "m.qcow2"] {
            assert!(facts.names_volume(volume), "{volume}");
        }
    }

    #[test]
    fn an_nvram_file_counts_as_named_in_both_of_its_forms() {
        let old = domain("<os><nvram template='/t.fd'>/nvram/x_VARS.fd</nvram></os>");
        let new = domain("<os><nvram type='file'><source file='/nvram/x_VARS.fd'/></nvram></os>");
        assert!(old.names_volume("x_VARS.fd") && new.names_volume("x_VARS.fd"));
    }

    #[test]
    fn the_agents_channel_says_whether_it_can_be_asked() {
        let with = |state: &str| {
            domain(&format!(
                "<devices><channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0' state='connected'/></channel>
                 <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' {state}/></channel></devices>"
            ))
            .agent
        };
        assert_eq!(with("state='connected'"), Agent::Connected);
        assert_eq!(with("state='disconnected'"), Agent::Disconnected);
        assert_eq!(with(""), Agent::Disconnected);
        assert_eq!(domain("<devices/>").agent, Agent::None);
    }

    #[test]
    fn a_card_on_a_libvirt_network_is_told_from_one_on_a_bridge() {
        let facts = domain(
            "<devices><interface type='network'><mac address='52:54:00:AA:BB:CC'/><source network='default' bridge='virbr0'/></interface>
             <interface type='bridge'><mac address='52:54:00:aa:bb:cd'/><source bridge='br0'/></interface></devices>",
        );
        assert_eq!(facts.macs().collect::<Vec<_>>(), ["52:54:00:aa:bb:cc", "52:54:00:aa:bb:cd"]);
        assert_eq!(facts.nics[0].network.as_deref(), Some("default"));
        assert_eq!(facts.nics[1].network, None);
    }

    #[test]
    fn our_own_xml_names_its_two_disks() {
        let xml = crate::provider::libvirt::domain_xml::samples::spec().to_xml().unwrap();
        let facts = DomainFacts::read(&xml).unwrap();
        assert!(facts.names_volume("egress-p1-abcdefgh-00000000.qcow2"));
        assert!(facts.names_volume("egress-p1-abcdefgh-00000000-seed.iso"));
        assert_eq!(facts.agent, Agent::Disconnected);
        assert_eq!(facts.macs().collect::<Vec<_>>(), ["52:b5:14:aa:c4:1c"]);
    }

    proptest! {
        #[test]
        fn reading_any_shape_never_panics(
            inner in r"(<(disk|source|os|nvram|devices|channel|target|backingStore|interface|mac)( (file|dev|pool|volume|name|state)='[/a-z]{0,4}')?/?>|</(disk|source|devices|os)>){0,20}",
        ) {
            let _ = DomainFacts::read(&inner);
            let _ = DomainFacts::read(&format!("<domain>{inner}</domain>"));
        }
    }
}
