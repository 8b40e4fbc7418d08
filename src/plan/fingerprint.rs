//! Fingerprints: versioned digests that say whether a machine is still what was asked for.
//!
//! A fingerprint is made from a table of named parts. The whole decides; the parts only say, for
//! people, what changed. The version is the version of the table: a program compares by the
//! version that the mark carries, so a new release replaces nothing by itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How many hex digits of a part's digest are kept; it is for people, not for decisions.
const PART_DIGITS: usize = 8;

/// The digest of a table of named values, and a short digest of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// Version of the table of parts.
    pub version: u32,
    /// 64 lower-case hex digits of SHA-256 over all parts, each with its length.
    pub hash: String,
    /// The first eight hex digits of each part's own digest.
    pub parts: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Digests `parts`. A part that does not apply is left out, not given as empty: the two differ.
    pub fn of<'a>(version: u32, parts: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let table: BTreeMap<&str, &[u8]> = parts.into_iter().collect();
        let mut whole = Sha256::new();
        let mut short = BTreeMap::new();
        for (name, value) in table {
            for field in [name.as_bytes(), value] {
                whole.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
                whole.update(field);
            }
            short.insert(name.to_owned(), short_digest(value));
        }
        Self { version, hash: hex::encode(whole.finalize()), parts: short }
    }

    /// Whether what is there (`self`) is not what is `wanted`.
    ///
    /// Two versions of the table cannot be compared as a whole; then only parts that both name
    /// decide, so that a new release with a longer table replaces nothing by itself.
    #[must_use]
    pub fn differs(&self, wanted: &Self) -> bool {
        if self.version == wanted.version {
            return self.hash != wanted.hash;
        }
        self.parts.iter().any(|(name, is)| wanted.parts.get(name).is_some_and(|wants| wants != is))
    }

    /// Whether a part was made from `value`; `None` when there is no such part. "No" is certain; "yes"
    /// is wrong for one value of 2^32.
    #[must_use]
    pub fn part_is(&self, name: &str, value: &[u8]) -> Option<bool> {
        self.parts.get(name).map(|part| *part == short_digest(value))
    }

    /// The names of the parts in which `self` (what is there) and `wanted` differ, with both short
    /// digests; `None` stands for a part that one side does not have.
    #[must_use]
    pub fn changes<'a>(&'a self, wanted: &'a Self) -> Vec<PartChange<'a>> {
        let names: std::collections::BTreeSet<&String> = self.parts.keys().chain(wanted.parts.keys()).collect();
        names
            .into_iter()
            .filter_map(|name| {
                let (is, wants) = (self.parts.get(name), wanted.parts.get(name));
                (is != wants).then_some(PartChange {
                    name,
                    is: is.map(String::as_str),
                    wanted: wants.map(String::as_str),
                })
            })
            .collect()
    }
}

fn short_digest(value: &[u8]) -> String {
    hex::encode(Sha256::digest(value)).chars().take(PART_DIGITS).collect()
}

/// One part in which two fingerprints differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartChange<'a> {
    /// The part's name, as in the table of the fingerprint's version.
    pub name: &'a str,
    /// Short digest of what is there.
    pub is: Option<&'a str>,
    /// Short digest of what is wanted.
    pub wanted: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_keep_neighbouring_parts_apart() {
        let one = Fingerprint::of(1, [("a", b"bc".as_slice()), ("d", b"")]);
        let two = Fingerprint::of(1, [("a", b"b".as_slice()), ("d", b"c")]);
        assert_ne!(one.hash, two.hash);
    }

    #[test]
    fn the_order_of_parts_does_not_matter() {
        let one = Fingerprint::of(1, [("a", b"1".as_slice()), ("b", b"2")]);
        let two = Fingerprint::of(1, [("b", b"2".as_slice()), ("a", b"1")]);
        assert_eq!(one, two);
    }

    #[test]
    fn an_absent_part_differs_from_an_empty_one() {
        let with = Fingerprint::of(1, [("a", b"".as_slice())]);
        let without = Fingerprint::of(1, []);
        assert_ne!(with.hash, without.hash);
        assert_eq!(with.changes(&without).len(), 1);
    }

    #[test]
    fn a_part_is_known_by_its_value_and_one_that_is_not_there_says_nothing() {
        let one = Fingerprint::of(1, [("image", b"debian".as_slice())]);
        let said = [one.part_is("image", b"debian"), one.part_is("image", b"alpine"), one.part_is("disk", b"debian")];
        assert_eq!(said, [Some(true), Some(false), None]);
    }

    #[test]
    fn a_new_version_of_the_table_differs_only_by_what_both_name() {
        let old = Fingerprint::of(1, [("image", b"debian".as_slice()), ("user-data", b"x")]);
        let longer = Fingerprint::of(2, [("image", b"debian".as_slice()), ("user-data", b"x"), ("new", b"")]);
        let other = Fingerprint::of(2, [("image", b"alpine".as_slice()), ("user-data", b"x"), ("new", b"")]);
        assert!(!old.differs(&longer));
        assert!(old.differs(&other));
    }
}
