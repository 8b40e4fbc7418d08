//! Every name that this provider puts on a host, and the strict readers of those names.
//!
//! Names are the only thing that volumes carry, so a reader here accepts exactly what a writer
//! here makes and nothing else: what is read may later be deleted. Depends on the core's names
//! alone, asks no host and keeps no state.
//!
//! The forms never overlap: what follows the last `-` is 8 digits for an overlay, 12 for a base,
//! 64 for a proof, `seed` for a seed and a decimal number for a lock.

pub mod base;
pub mod disk;
pub mod instance;
pub mod lock;

pub use base::{BaseName, Format, ProofName};
pub use disk::{Disk, disk_owner, looks_like_ours, overlay_name, parse_disk, seed_name};
pub use instance::{instance_name, looks_like_instance, mac_address};
pub use lock::{LockName, RunId};

/// Whether `text` is exactly `length` lower-case hex digits.
fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A decimal number in its shortest form: no sign, no leading zero.
fn decimal(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    /// A label of at most `max` characters.
    pub(super) fn label(max: usize) -> impl Strategy<Value = String> {
        proptest::string::string_regex(&format!("[a-z0-9]([-a-z0-9]{{0,{}}}[a-z0-9])?", max - 2)).expect("a pattern")
    }

    fn readers(name: &str) -> Vec<&'static str> {
        let mut out = Vec::new();
        if looks_like_ours(name) {
            out.push("disk");
        }
        if BaseName::parse(name).is_some() {
            out.push("base");
        }
        if ProofName::parse(name).is_some() {
            out.push("proof");
        }
        if LockName::parse(name).is_some() {
            out.push("lock");
        }
        out
    }

    proptest! {
        #[test]
        fn foreign_names_never_parse(name in r"(?s)(egress-|egress-plan-base-|egress-plan-|)[-a-z0-9._/ \n\u{e9}]{0,60}(\.qcow2|\.raw|\.iso|)") {
            // The generator may by luck make a name of ours; then at most one reader takes it, and
            // what it read is written the same way again.
            let readers = readers(&name);
            prop_assert!(readers.len() <= 1, "{name:?}: {readers:?}");
            if let Some(base) = BaseName::parse(&name) {
                prop_assert_eq!(base.to_string(), name);
            } else if let Some(lock) = LockName::parse(&name) {
                prop_assert_eq!(lock.to_string(), name);
            }
        }

        #[test]
        fn every_name_of_ours_has_exactly_one_reader(
            fleet in label(40), entry in label(40), host in label(40), key in label(40),
            namespace in label(63), name in label(63), id in "[0-9a-f]{32}", nonce in "[0-9a-f]{12}",
            digest in "[0-9a-f]{64}", run in "[a-z0-9]{16}", ttl in 0_u32.., n in 0_u32.., uuid in any::<u128>(),
        ) {
            let place = crate::plan::HostRef { entry: entry.parse().unwrap(), host: host.parse().unwrap() };
            let fleet: crate::plan::Label = fleet.parse().unwrap();
            let domain = instance_name(&fleet, &place, &crate::plan::ProxyKey::new(&namespace, &name).unwrap());
            let uuid = Uuid::from_u128(uuid);
            let base = BaseName::new(&place.entry, &key.parse().unwrap(), &id, &nonce, Format::Qcow2).unwrap();
            let proof = ProofName { base: base.clone(), sha256: digest };
            let lock = LockName { fleet, ttl_seconds: ttl, run: RunId::parse(&run).unwrap(), n };
            for (written, reader) in [
                (overlay_name(&domain, uuid), "disk"),
                (seed_name(&domain, uuid), "disk"),
                (base.to_string(), "base"),
                (proof.to_string(), "proof"),
                (lock.to_string(), "lock"),
            ] {
                prop_assert_eq!(readers(&written), vec![reader], "{}", written);
                prop_assert!(written.len() <= 255, "{}", written);
            }
        }
    }
}
