//! The XML of the volumes that this provider makes.
//!
//! Each states an allocation of nothing, since libvirt would otherwise fill the whole capacity at
//! once, and its permissions, since a seed holds secrets. Nothing is asked of a host here.

use super::naming::Format;
use super::xml::{Element, XmlError};

/// Permission bits of every volume of ours; libvirt hands files to QEMU's user by itself.
pub const MODE: u32 = 0o600;

/// An overlay of `capacity` bytes on the base image at `base`.
///
/// The base's format is recorded, since libvirt would take it for raw and the guest would read the
/// container as its disk (R12); `compat` 1.1 is stated, since libvirt's own default is the format of
/// 2009.
pub fn overlay(name: &str, capacity: u64, base: &str, base_format: Format) -> Result<String, XmlError> {
    volume(name, capacity, Format::Qcow2, Some("1.1"))
        .child(
            Element::new("backingStore")
                .child(Element::text("path", base))
                .child(Element::new("format").with("type", base_format.as_str())),
        )
        .to_xml()
}

/// A raw volume of `capacity` bytes: a seed before its upload, or, with no capacity, a base image
/// before its upload. The upload makes such a base as long as what was sent, so that its length
/// tells afterwards whether all of it arrived.
pub fn raw(name: &str, capacity: u64) -> Result<String, XmlError> {
    volume(name, capacity, Format::Raw, None).to_xml()
}

/// A lock: an empty volume, all of which is its name.
pub fn lock(name: &super::naming::LockName) -> Result<String, XmlError> {
    raw(&name.to_string(), 0)
}

/// A proof: a volume without content whose capacity is the length of its base in bytes.
pub fn proof(name: &super::naming::ProofName, base_bytes: u64) -> Result<String, XmlError> {
    raw(&name.to_string(), base_bytes)
}

fn volume(name: &str, capacity: u64, format: Format, compat: Option<&str>) -> Element {
    let target = Element::new("target")
        .child(Element::new("format").with("type", format.as_str()))
        .child(Element::new("permissions").child(Element::text("mode", format_mode(MODE))))
        .children(compat.map(|compat| Element::text("compat", compat)));
    Element::new("volume")
        .child(Element::text("name", name))
        .child(Element::text("capacity", capacity.to_string()).with("unit", "bytes"))
        .child(Element::text("allocation", "0").with("unit", "bytes"))
        .child(target)
}

/// libvirt reads the mode as octal digits with a leading zero.
fn format_mode(mode: u32) -> String {
    format!("{mode:04o}")
}

#[cfg(test)]
mod tests {
    use super::super::naming::{BaseName, LockName, ProofName};
    use super::*;

    const BASE: &str = "egress-plan-base-lab-img-0123456789abcdef0123456789abcdef-0123456789ab.qcow2";

    #[test]
    fn r12_an_overlay_records_the_format_of_its_base() {
        insta::assert_snapshot!(overlay("o.qcow2", 10 << 30, &format!("/pool/{BASE}"), Format::Raw).unwrap());
    }

    #[test]
    fn r13_l30_a_disk_beyond_two_tebibytes_keeps_its_size() {
        let xml = Element::read(&overlay("o.qcow2", 65_536 << 30, "/b", Format::Qcow2).unwrap()).unwrap();
        assert_eq!(xml.first("capacity").map(Element::value), Some("70368744177664"));
    }

    #[test]
    fn a_raw_volume_takes_no_space_before_its_upload() {
        insta::assert_snapshot!(raw("s-seed.iso", 376_832).unwrap());
    }

    #[test]
    fn lock_and_proof_are_all_name() {
        let lock_name = LockName::parse("egress-plan-f.lock-300-0123456789abcdef-1").unwrap();
        let proof_name = ProofName { base: BaseName::parse(BASE).unwrap(), sha256: "a".repeat(64) };
        let lock = Element::read(&lock(&lock_name).unwrap()).unwrap();
        let proof = Element::read(&proof(&proof_name, 123).unwrap()).unwrap();
        for (xml, name, capacity) in [(lock, lock_name.to_string(), "0"), (proof, proof_name.to_string(), "123")] {
            assert_eq!(xml.first("name").map(Element::value), Some(name.as_str()));
            assert_eq!(xml.first("capacity").map(Element::value), Some(capacity));
            assert_eq!(xml.first("allocation").map(Element::value), Some("0"));
        }
    }

    #[test]
    fn r17_only_the_owner_may_read_a_volume() {
        let xml = Element::read(&raw("s-seed.iso", 1).unwrap()).unwrap();
        let mode = xml.first("target").and_then(|target| target.first("permissions")).and_then(|p| p.first("mode"));
        assert_eq!(mode.map(Element::value), Some("0600"));
    }
}
