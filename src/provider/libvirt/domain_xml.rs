//! The XML of a domain of ours, from typed values, through a serializer.
//!
//! Every choice that a measured fact forced is explained beside it. Nothing is asked of a host
//! here, and no path or name is checked: what cannot be carried by XML is refused by the writer.

use uuid::Uuid;

use super::mark;
use super::xml::{Element, XmlError};
use crate::plan::Mark;

/// What a domain is made from.
#[derive(Debug, Clone)]
pub struct DomainSpec {
    /// Its name.
    pub name: String,
    /// Its UUID, drawn for it.
    pub uuid: Uuid,
    /// Whether the processor runs it or a program does.
    pub domain_type: DomainType,
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// How it boots.
    pub firmware: Firmware,
    /// What processor it sees.
    pub cpu: Cpu,
    /// Absolute path of the overlay on the host.
    pub overlay: String,
    /// Absolute path of the seed on the host.
    pub seed: String,
    /// The host's bridge that its network card is plugged into.
    pub bridge: String,
    /// The card's MAC address.
    pub mac: String,
    /// The mark, which is part of the define call, so that no unmarked domain of ours ever exists.
    pub mark: Mark,
}

/// `hosts[].domainType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DomainType {
    /// Hardware virtualisation.
    Kvm,
    /// Emulation in software.
    Qemu,
}

impl DomainType {
    /// As libvirt and the config spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Qemu => "qemu",
        }
    }
}

/// `images.<key>.firmware`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Firmware {
    /// UEFI without secure boot.
    Uefi,
    /// A classic BIOS.
    Bios,
}

/// `hosts[].cpu`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// The mode.
    pub mode: CpuMode,
    /// Features that are taken away; nested hosts often need that.
    pub disable: Vec<String>,
}

/// The modes of a CPU that are of use to a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuMode {
    /// The host's own.
    HostPassthrough,
    /// The named model that is closest to the host's own.
    HostModel,
    /// All that the hypervisor can give.
    Maximum,
    /// A named model, exactly.
    Custom(String),
}

impl DomainSpec {
    /// The domain's XML, as the define call takes it.
    pub fn to_xml(&self) -> Result<String, XmlError> {
        Element::new("domain")
            .with("type", self.domain_type.as_str())
            .child(Element::text("name", &self.name))
            .child(Element::text("uuid", self.uuid.to_string()))
            .child(Element::new("metadata").child(mark::element(&self.mark)))
            .child(Element::text("memory", self.memory_mib.to_string()).with("unit", "MiB"))
            .child(Element::text("vcpu", self.vcpus.to_string()))
            .child(sysinfo())
            .child(self.os())
            .child(Element::new("features").child(Element::new("acpi")).child(Element::new("apic")))
            .child(self.cpu.element())
            .child(Element::new("clock").with("offset", "utc"))
            .child(Element::text("on_poweroff", "destroy"))
            .child(Element::text("on_reboot", "restart"))
            .child(Element::text("on_crash", "restart"))
            .child(self.devices())
            .to_xml()
    }

    fn os(&self) -> Element {
        let os = Element::new("os");
        let machine = Element::text("type", "hvm").with("arch", "x86_64").with("machine", "q35");
        let os = match self.firmware {
            Firmware::Bios => os.child(machine),
            // Left to itself, firmware='efi' picks secure boot with enrolled keys on Debian 12,
            // which needs a mode that nested hosts do not have. The feature form is the one that
            // libvirt 9 accepts together with automatic selection.
            Firmware::Uefi => os.with("firmware", "efi").child(machine).child(
                Element::new("firmware")
                    .child(Element::new("feature").with("enabled", "no").with("name", "secure-boot")),
            ),
        };
        os.child(Element::new("boot").with("dev", "hd")).child(Element::new("smbios").with("mode", "sysinfo"))
    }

    fn devices(&self) -> Element {
        Element::new("devices")
            .child(disk("qcow2", &self.overlay, "vda"))
            .child(disk("raw", &self.seed, "vdb").child(Element::new("readonly")))
            .child(
                Element::new("interface")
                    .with("type", "bridge")
                    .child(Element::new("mac").with("address", &self.mac))
                    .child(Element::new("source").with("bridge", &self.bridge))
                    .child(Element::new("model").with("type", "virtio")),
            )
            .child(Element::new("serial").with("type", "pty").child(Element::new("target").with("port", "0")))
            .child(
                Element::new("console")
                    .with("type", "pty")
                    .child(Element::new("target").with("type", "serial").with("port", "0")),
            )
            .child(
                Element::new("channel")
                    .with("type", "unix")
                    .child(Element::new("target").with("type", "virtio").with("name", "org.qemu.guest_agent.0")),
            )
            .child(
                Element::new("rng")
                    .with("model", "virtio")
                    .child(Element::text("backend", "/dev/urandom").with("model", "random")),
            )
    }
}

/// Tells cloud-init in the guest where to look before it has found any disk.
fn sysinfo() -> Element {
    Element::new("sysinfo")
        .with("type", "smbios")
        .child(Element::new("system").child(Element::text("entry", "ds=nocloud").with("name", "serial")))
}

/// A disk by path and with its format stated. The profile that `AppArmor` enforces is derived from paths, and a disk
/// named by pool and volume is not in it (R11); a format that is not stated would be probed. The
/// bus is virtio for both, since Debian's cloud kernel has no driver for SATA (L39).
fn disk(format: &str, path: &str, target: &str) -> Element {
    Element::new("disk")
        .with("type", "file")
        .with("device", "disk")
        .child(Element::new("driver").with("name", "qemu").with("type", format))
        .child(Element::new("source").with("file", path))
        .child(Element::new("target").with("dev", target).with("bus", "virtio"))
}

impl Cpu {
    fn element(&self) -> Element {
        let cpu = Element::new("cpu");
        let cpu = match &self.mode {
            CpuMode::HostPassthrough => cpu.with("mode", "host-passthrough"),
            CpuMode::HostModel => cpu.with("mode", "host-model"),
            CpuMode::Maximum => cpu.with("mode", "maximum"),
            CpuMode::Custom(model) => cpu
                .with("mode", "custom")
                .with("match", "exact")
                .child(Element::text("model", model).with("fallback", "forbid")),
        };
        cpu.children(
            self.disable.iter().map(|name| Element::new("feature").with("policy", "disable").with("name", name)),
        )
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in crate::provider::libvirt) fn spec() -> DomainSpec {
        DomainSpec {
            name: "egress-p1-abcdefgh".to_owned(),
            uuid: Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001),
            domain_type: DomainType::Kvm,
            vcpus: 1,
            memory_mib: 1024,
            firmware: Firmware::Uefi,
            cpu: Cpu { mode: CpuMode::HostPassthrough, disable: vec![] },
            overlay: "/var/lib/libvirt/images/egress-p1-abcdefgh-00000000.qcow2".to_owned(),
            seed: "/var/lib/libvirt/images/egress-p1-abcdefgh-00000000-seed.iso".to_owned(),
            bridge: "br-lan".to_owned(),
            mac: "52:b5:14:aa:c4:1c".to_owned(),
            mark: mark::samples::mark(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::spec;
    use super::*;

    #[test]
    fn a_uefi_domain_on_kvm() {
        insta::assert_snapshot!(spec().to_xml().unwrap());
    }

    #[test]
    fn a_bios_domain_in_software_emulation() {
        let cpu = Cpu { mode: CpuMode::Maximum, disable: vec!["arch-capabilities".to_owned()] };
        let spec = DomainSpec { domain_type: DomainType::Qemu, firmware: Firmware::Bios, cpu, ..spec() };
        insta::assert_snapshot!(spec.to_xml().unwrap());
    }

    #[test]
    fn a_named_cpu_model_is_asked_for_exactly() {
        let spec = DomainSpec { cpu: Cpu { mode: CpuMode::Custom("EPYC".to_owned()), disable: vec![] }, ..spec() };
        let xml = Element::read(&spec.to_xml().unwrap()).unwrap();
        let cpu = xml.first("cpu").unwrap();
        assert_eq!((cpu.attribute("mode"), cpu.attribute("match")), (Some("custom"), Some("exact")));
        assert_eq!(cpu.first("model").map(Element::value), Some("EPYC"));
    }

    #[test]
    fn r14_l39_no_disk_is_on_ide_or_sata() {
        let xml = spec().to_xml().unwrap();
        for bus in ["bus=\"ide\"", "bus=\"sata\"", "cdrom"] {
            assert!(!xml.contains(bus), "{bus} in {xml}");
        }
    }

    #[test]
    fn r11_disks_are_files_with_absolute_paths_and_a_stated_format() {
        let xml = Element::read(&spec().to_xml().unwrap()).unwrap();
        let disks: Vec<_> = xml.first("devices").unwrap().all("disk").collect();
        assert_eq!(disks.len(), 2);
        for disk in disks {
            assert_eq!(disk.attribute("type"), Some("file"));
            assert!(disk.first("source").unwrap().attribute("file").unwrap().starts_with('/'));
            assert!(disk.first("driver").unwrap().attribute("type").is_some());
        }
    }

    #[test]
    fn r15_smbios_names_the_datasource_and_the_seed_is_a_disk() {
        let xml = Element::read(&spec().to_xml().unwrap()).unwrap();
        let system = xml.first("sysinfo").and_then(|sysinfo| sysinfo.first("system")).unwrap();
        let serial = system.first("entry").unwrap();
        assert_eq!((serial.attribute("name"), serial.value()), (Some("serial"), "ds=nocloud"));
        assert_eq!(xml.first("os").and_then(|os| os.first("smbios")).unwrap().attribute("mode"), Some("sysinfo"));
        let seed = xml.first("devices").unwrap().all("disk").nth(1).unwrap();
        let target = seed.first("target").unwrap();
        assert_eq!((target.attribute("dev"), target.attribute("bus")), (Some("vdb"), Some("virtio")));
        assert!(seed.first("readonly").is_some() && seed.first("source").unwrap().attribute("file").is_some());
    }

    #[test]
    fn markup_in_a_value_stays_a_value() {
        let hostile = "br\"/><disk type='block'/>&lt;";
        let spec = DomainSpec { bridge: hostile.to_owned(), ..spec() };
        let xml = Element::read(&spec.to_xml().unwrap()).unwrap();
        let devices = xml.first("devices").unwrap();
        assert_eq!(devices.all("disk").count(), 2);
        let source = devices.first("interface").and_then(|nic| nic.first("source")).unwrap();
        assert_eq!(source.attribute("bridge"), Some(hostile));
        assert!(DomainSpec { bridge: "br\u{0}".to_owned(), ..spec }.to_xml().is_err());
    }
}
