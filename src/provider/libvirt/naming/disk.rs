//! Names of a domain's two disks. They carry eight digits of its UUID, which is drawn anew for
//! every domain: a name is never used twice, so that nothing an earlier run left can be booted
//! (L32).

use uuid::Uuid;

use super::instance::looks_like_instance;
use super::is_hex;

/// Digits of the UUID that a disk's name carries.
const DIGITS: usize = 8;
const OVERLAY: &str = ".qcow2";
const SEED: &str = "-seed.iso";

/// What a volume is to its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disk {
    /// The disk that it writes to.
    Overlay,
    /// The disk that configures it at its first boot.
    Seed,
}

fn digits(uuid: Uuid) -> String {
    uuid.simple().to_string().chars().take(DIGITS).collect()
}

/// `<domain>-<8 hex of its UUID>.qcow2`.
#[must_use]
pub fn overlay_name(domain: &str, uuid: Uuid) -> String {
    [domain, "-", &digits(uuid), OVERLAY].concat()
}

/// `<domain>-<8 hex of its UUID>-seed.iso`.
#[must_use]
pub fn seed_name(domain: &str, uuid: Uuid) -> String {
    [domain, "-", &digits(uuid), SEED].concat()
}

/// What `volume` is to *this* domain, by name and UUID; `None` for every other volume, another
/// domain's disks and this domain's former ones included (L18).
#[must_use]
pub fn parse_disk(domain: &str, uuid: Uuid, volume: &str) -> Option<Disk> {
    if volume == overlay_name(domain, uuid) {
        Some(Disk::Overlay)
    } else if volume == seed_name(domain, uuid) {
        Some(Disk::Seed)
    } else {
        None
    }
}

/// Whether a volume has the name of some instance's overlay or seed. With no domain to it, it is a
/// leftover; bases, proofs and locks have readers of their own.
#[must_use]
pub fn looks_like_ours(volume: &str) -> bool {
    disk_owner(volume).is_some()
}

/// The name of the instance that a disk of ours is for, there or not; `None` for every other volume.
#[must_use]
pub fn disk_owner(volume: &str) -> Option<&str> {
    [SEED, OVERLAY]
        .iter()
        .filter_map(|ending| volume.strip_suffix(ending))
        .filter_map(|stem| stem.rsplit_once('-'))
        .find(|(domain, digits)| is_hex(digits, DIGITS) && looks_like_instance(domain))
        .map(|(domain, _)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = "egress-p1-abcdefgh";

    #[test]
    fn both_disks_are_named_after_domain_and_uuid() {
        let uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(overlay_name(DOMAIN, uuid), "egress-p1-abcdefgh-01234567.qcow2");
        assert_eq!(seed_name(DOMAIN, uuid), "egress-p1-abcdefgh-01234567-seed.iso");
        assert_eq!(parse_disk(DOMAIN, uuid, &overlay_name(DOMAIN, uuid)), Some(Disk::Overlay));
        assert_eq!(parse_disk(DOMAIN, uuid, &seed_name(DOMAIN, uuid)), Some(Disk::Seed));
    }

    #[test]
    fn l18_l32_disks_of_another_domain_or_uuid_are_not_this_ones() {
        let (ours, former) = (Uuid::from_u128(1 << 100), Uuid::from_u128(2 << 100));
        for volume in [
            overlay_name(DOMAIN, former),
            seed_name(DOMAIN, former),
            overlay_name("egress-p2-abcdefgh", ours),
            "data.qcow2".to_owned(),
            format!("{} ", overlay_name(DOMAIN, ours)),
        ] {
            assert_eq!(parse_disk(DOMAIN, ours, &volume), None, "{volume}");
        }
    }

    #[test]
    fn only_disks_of_instances_look_like_ours() {
        assert!(looks_like_ours("egress-p1-abcdefgh-01234567.qcow2"));
        assert!(looks_like_ours("egress-p1-abcdefgh-01234567-seed.iso"));
        assert_eq!(disk_owner("egress-p1-abcdefgh-01234567-seed.iso"), Some("egress-p1-abcdefgh"));
        for other in [
            "egress-p1-abcdefgh.qcow2",
            "egress-p1-abcdefgh-0123456.qcow2",
            "egress-p1-abcdefgh-0123456G.qcow2",
            "egress-p1-abcdefgh-01234567.raw",
            "egress-p1-abcdefgh-01234567.iso",
            "debian-12.qcow2",
        ] {
            assert!(!looks_like_ours(other), "{other}");
        }
    }
}
