//! Names of domains, and the MAC address that goes with each.
//!
//! A domain's name says which proxy it is for people and, by its hash, for which fleet, entry and
//! host. It proves nothing: the mark does. Depends on hashing alone.

use sha2::{Digest, Sha256};

use crate::plan::{HostRef, Label, ProxyKey};

const PREFIX: &str = "egress-";
/// Characters of the proxy's name that are kept.
const KEPT: usize = 40;
/// Characters of the hash; five bits each.
const HASH: usize = 8;

/// The domain's name: `egress-<proxy name, cut to 40>-<8 base32>`, at most 56 characters.
///
/// The hash covers fleet, entry, host, namespace and name, each with its length, so that
/// neighbouring values cannot be shifted into each other and no two fleets, entries or hosts share
/// a name (L19, L48).
#[must_use]
pub fn instance_name(fleet: &Label, place: &HostRef, key: &ProxyKey) -> String {
    let mut hash = Sha256::new();
    for part in [fleet.as_str(), place.entry.as_str(), place.host.as_str(), key.namespace(), key.name()] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = base32::encode(base32::Alphabet::Rfc4648Lower { padding: false }, &hash.finalize());
    let kept: String = key.name().chars().take(KEPT).collect();
    let short: String = digest.chars().take(HASH).collect();
    [PREFIX, kept.trim_end_matches('-'), "-", &short].concat()
}

/// Whether a domain's name has the form of [`instance_name`]. It says nothing about whose the
/// domain is.
#[must_use]
pub fn looks_like_instance(name: &str) -> bool {
    let Some((proxy, hash)) = name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('-')) else { return false };
    hash.len() == HASH
        && hash.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
        && proxy.len() <= KEPT
        && proxy.parse::<Label>().is_ok()
}

/// The MAC address of the domain's network card, lower-case with colons.
///
/// Derived from the domain's name, so that a replacement keeps it. Locally administered and
/// unicast; 45 bits come from the hash. The first byte's top bit is clear because libvirt refuses
/// to plug an address that begins with `fe` into a bridge.
#[must_use]
pub fn mac_address(domain: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"egress-plan mac\0");
    hash.update(domain.as_bytes());
    let bytes: Vec<String> = hash
        .finalize()
        .iter()
        .take(6)
        .enumerate()
        .map(|(index, byte)| hex::encode([if index == 0 { (byte & 0x7c) | 0x02 } else { *byte }]))
        .collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::tests::label;
    use super::*;

    fn name(fleet: &str, place: &str, key: &str) -> String {
        instance_name(&fleet.parse().unwrap(), &place.parse().unwrap(), &key.parse().unwrap())
    }

    #[test]
    fn the_name_is_stable_across_releases() {
        // A changed name would orphan every machine there is.
        assert_eq!(name("crawl-eu", "kvm2-home/beelink", "crawlers/crawl-3"), "egress-crawl-3-un6p2gbm");
    }

    #[test]
    fn a_long_name_is_cut_and_never_ends_in_a_double_dash() {
        let long = format!("default/{}-{}", "a".repeat(39), "b".repeat(20));
        let name = name("f", "e/h", &long);
        assert!(name.starts_with(&format!("egress-{}-", "a".repeat(39))), "{name}");
        assert!(!name.contains("--"), "{name}");
        assert!(looks_like_instance(&name), "{name}");
    }

    #[test]
    fn l19_l48_fleet_entry_and_host_are_part_of_the_name() {
        let names: BTreeSet<String> = [
            name("f", "e/h", "n/p"),
            name("f2", "e/h", "n/p"),
            name("f", "e2/h", "n/p"),
            name("f", "e/h2", "n/p"),
            name("f", "e/h", "n2/p"),
            name("fe", "e/h", "n/p"),
            name("f", "ee/h", "n/p"),
        ]
        .into();
        assert_eq!(names.len(), 7, "{names:?}");
    }

    #[test]
    fn names_of_others_do_not_look_like_ours() {
        for other in [
            "",
            "egress-",
            "egress-p1",
            "egress--abcdefgh",
            "egress-p1-abcdefg",
            "egress-p1-abcdefg1",
            "egress-p1-ABCDEFGH",
            "egress-P1-abcdefgh",
            "xegress-p1-abcdefgh",
            "egress-p1-abcdefgh ",
            "egress-é-abcdefgh",
        ] {
            assert!(!looks_like_instance(other), "{other:?}");
        }
    }

    #[test]
    fn the_mac_is_stable_across_releases() {
        assert_eq!(mac_address("egress-crawl-3-un6p2gbm"), "52:b5:14:aa:c4:1c");
    }

    proptest! {
        #[test]
        fn every_name_looks_like_an_instance(
            fleet in label(40), entry in label(40), host in label(40), namespace in label(63), proxy in label(63),
        ) {
            let name = name(&fleet, &format!("{entry}/{host}"), &format!("{namespace}/{proxy}"));
            prop_assert!(looks_like_instance(&name), "{}", name);
            prop_assert!(name.len() <= 56);
        }

        #[test]
        fn every_mac_is_local_unicast_and_not_reserved_by_libvirt(domain in ".{0,60}") {
            let mac = mac_address(&domain);
            prop_assert_eq!(mac.len(), 17);
            let first = u8::from_str_radix(&mac[..2], 16).unwrap();
            prop_assert_eq!(first & 0x03, 0x02, "{}", mac);
            prop_assert_ne!(first, 0xfe);
        }
    }
}
