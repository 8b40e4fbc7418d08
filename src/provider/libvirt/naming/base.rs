//! Names of base images and of the proofs that they are whole.
//!
//! `egress-plan-base-<entry>-<key>-<id>-<12 hex>.<format>`, and `<base>.sha256-<64 hex>` for its
//! proof. Entry, key and source are part of the name, so that neither two entries nor two URLs
//! behind one key ever share a file (L23); the random part makes each fetch a file of its own
//! (L24). Depends on the core's names alone.

use std::fmt;

use super::is_hex;
use crate::plan::Label;

const PREFIX: &str = "egress-plan-base-";
const PROOF: &str = ".sha256-";
const ID: usize = 32;
const NONCE: usize = 12;
const DIGEST: usize = 64;

/// The formats that a base image may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// QEMU's own format.
    Qcow2,
    /// The bytes of the disk as they are.
    Raw,
}

impl Format {
    /// The format as libvirt and the config spell it; also the ending of the file's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Qcow2, Self::Raw].into_iter().find(|format| format.as_str() == text)
    }
}

/// The name of a base image.
///
/// Entry and key may both hold `-`, so that a name read back does not tell where one ends and the
/// other begins: `owner` keeps both, and [`BaseName::is_of`] compares. The id is a digest over the
/// source, so two owners that are spelt alike and have the same id have the same image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseName {
    owner: String,
    id: String,
    nonce: String,
    format: Format,
}

impl BaseName {
    /// A base of `entry` for image `key`; `None` unless `id` is 32 and `nonce` 12 lower-case hex
    /// digits.
    #[must_use]
    pub fn new(entry: &Label, key: &Label, id: &str, nonce: &str, format: Format) -> Option<Self> {
        (is_hex(id, ID) && is_hex(nonce, NONCE)).then(|| Self {
            owner: [entry.as_str(), "-", key.as_str()].concat(),
            id: id.to_owned(),
            nonce: nonce.to_owned(),
            format,
        })
    }

    /// Reads a volume's name; `None` unless [`BaseName::new`] could have made it.
    #[must_use]
    pub fn parse(volume: &str) -> Option<Self> {
        let (stem, format) = volume.strip_prefix(PREFIX)?.rsplit_once('.')?;
        let (rest, nonce) = stem.rsplit_once('-')?;
        let (owner, id) = rest.rsplit_once('-')?;
        let format = Format::parse(format)?;
        (is_hex(id, ID) && is_hex(nonce, NONCE) && is_owner(owner)).then(|| Self {
            owner: owner.to_owned(),
            id: id.to_owned(),
            nonce: nonce.to_owned(),
            format,
        })
    }

    /// Digest over the image's source, 32 hex digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The image's format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// `<entry>-<key>`, for people.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether the name is one that `entry` and `key` give.
    #[must_use]
    pub fn is_of(&self, entry: &Label, key: &Label) -> bool {
        self.owner == [entry.as_str(), "-", key.as_str()].concat()
    }
}

/// Whether `text` can be cut at some `-` into two labels.
fn is_owner(text: &str) -> bool {
    text.char_indices().filter(|(_, c)| *c == '-').any(|(at, _)| {
        let (entry, key) = text.split_at(at);
        entry.parse::<Label>().is_ok() && key.strip_prefix('-').is_some_and(|key| key.parse::<Label>().is_ok())
    })
}

impl fmt::Display for BaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}-{}.{}", self.owner, self.id, self.nonce, self.format.as_str())
    }
}

/// The name of a proof: a volume without content, made last, whose capacity is the length of its
/// base (L24).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProofName {
    /// The base that it vouches for.
    pub base: BaseName,
    /// 64 lower-case hex digits of SHA-256 over the base's content.
    pub sha256: String,
}

impl ProofName {
    /// Reads a volume's name; `None` unless it is a base's name, the word and 64 hex digits.
    #[must_use]
    pub fn parse(volume: &str) -> Option<Self> {
        let (base, digest) = volume.rsplit_once(PROOF)?;
        let base = BaseName::parse(base)?;
        is_hex(digest, DIGEST).then(|| Self { base, sha256: digest.to_owned() })
    }
}

impl fmt::Display for ProofName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{PROOF}{}", self.base, self.sha256)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::label;
    use super::*;

    const ID_1: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn names_that_only_resemble_a_base_are_not_one() {
        let good = format!("egress-plan-base-lab-img-{ID_1}-0123456789ab.qcow2");
        assert!(BaseName::parse(&good).is_some());
        for bad in [
            good.replace("qcow2", "iso"),
            good.replace("egress-plan-base-", "egress-base-"),
            good.replace("lab-img", "lab"),
            good.replace("lab-img", "-img"),
            good.replace("lab-img", "Lab-img"),
            good.replace("0123456789ab.", "0123456789a.").clone(),
            good.replace(ID_1, &ID_1.to_uppercase()),
            format!("{good}.part"),
            format!(" {good}"),
            good.replace("lab-img", &format!("{}-img", "a".repeat(41))),
        ] {
            assert_eq!(BaseName::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn l23_entry_key_and_source_are_part_of_the_name() {
        let label = |text: &str| text.parse::<Label>().unwrap();
        let name = |entry, key, id| {
            BaseName::new(&label(entry), &label(key), id, "0123456789ab", Format::Qcow2).unwrap().to_string()
        };
        let other = ID_1.replace('0', "1");
        let names = [name("a", "img", ID_1), name("b", "img", ID_1), name("a", "img2", ID_1), name("a", "img", &other)];
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    proptest! {
        #[test]
        fn a_base_and_its_proof_are_read_as_they_were_written(
            entry in label(40), key in label(40), id in "[0-9a-f]{32}", nonce in "[0-9a-f]{12}",
            sha256 in "[0-9a-f]{64}", raw in any::<bool>(),
        ) {
            let (entry, key): (Label, Label) = (entry.parse().unwrap(), key.parse().unwrap());
            let format = if raw { Format::Raw } else { Format::Qcow2 };
            let base = BaseName::new(&entry, &key, &id, &nonce, format).unwrap();
            let proof = ProofName { base: base.clone(), sha256 };
            prop_assert!(base.is_of(&entry, &key));
            prop_assert_eq!(BaseName::parse(&base.to_string()), Some(base));
            prop_assert_eq!(ProofName::parse(&proof.to_string()), Some(proof));
        }
    }
}
