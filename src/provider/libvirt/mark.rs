//! The mark: our element in a domain's metadata, and the only proof that the domain is ours.
//!
//! [`read`] turns what a host sent into a [`Mark`](crate::plan::Mark) or says why not; [`write()`] and [`element`] do
//! the reverse; [`standing`] decides whose the domain is that carries it. Asks no host, and takes
//! nothing from a domain's name but to compare it.

mod codec;
mod ownership;

pub use codec::{Bears, MarkError, element, read, write};
pub use ownership::{Ownership, standing};

/// The namespace of the mark. It names the format's family; the element's `version` counts within.
pub const NAMESPACE: &str = "https://egress-plan.dev/ns/libvirt/1";
/// The prefix under which the mark is written. libvirt gives it back without.
pub const PREFIX: &str = "egress";
/// The newest format of the mark that this program knows, and the one that it writes.
pub const FORMAT: u32 = 1;
/// The newest table of parts of either fingerprint that this program can compare.
pub const FINGERPRINT: u32 = 1;

#[cfg(test)]
pub(super) mod samples {
    use std::collections::BTreeMap;

    use crate::plan::{Fingerprint, Mark, MarkState};

    pub(in crate::provider::libvirt) fn mark() -> Mark {
        let fingerprint = |seed: char| Fingerprint {
            version: 1,
            hash: seed.to_string().repeat(64),
            parts: BTreeMap::from([("image".to_owned(), "4f1c9a2e".to_owned())]),
        };
        Mark {
            fleet: "crawl-eu".to_owned(),
            provider: "lab".to_owned(),
            host: "h1".to_owned(),
            proxy: "default/p1".parse().unwrap(),
            machine: "00000000-0000-4000-8000-000000000001".to_owned(),
            state: MarkState::Ready,
            spec: fingerprint('a'),
            catalogue: fingerprint('b'),
            addresses: vec!["192.0.2.17/24".to_owned()],
            port: 3128,
            labels: "0123abcd".to_owned(),
            protect: false,
            created_at: "2026-11-29T10:00:00Z".parse().unwrap(),
            started_at: None,
            source: None,
            tool: "0.1.0".to_owned(),
            uid: None,
        }
    }
}
