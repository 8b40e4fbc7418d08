//! What an entry has, as far as names go: enough to check what refers to it, even when the entry
//! itself is not sound.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::plan::Label;
use crate::provider::document::check::{known, quoted};
use crate::provider::document::{Findings, Location};

/// The names that an entry defines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// Its hosts, in the order of the config.
    pub hosts: Vec<HostOutline>,
    /// Keys of its images.
    pub images: BTreeSet<Label>,
    /// Keys of its machine types.
    pub machine_types: BTreeSet<Label>,
}

/// A host of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOutline {
    /// Its name.
    pub name: Label,
    /// Where it is in the config.
    pub at: Location,
    /// Nothing is wanted there any more.
    pub retired: bool,
    /// One text for one daemon and pool, unless the host is not sound.
    pub identity: Option<String>,
}

/// A name that is not among those that are.
#[must_use]
pub fn unknown<T: Display>(kind: &str, name: &str, names: impl IntoIterator<Item = T>) -> String {
    format!("unknown {kind} {}; {}", quoted(name), known(names))
}

/// Reports hosts that are one daemon and one pool by what their addresses say: they would list one
/// set of machines twice (L48).
pub fn find_twins(outlines: &BTreeMap<Label, Outline>, findings: &mut Findings) {
    let mut all: Vec<(&Label, &HostOutline)> =
        outlines.iter().flat_map(|(entry, outline)| outline.hosts.iter().map(move |host| (entry, host))).collect();
    all.sort_by_key(|(_, host)| host.at.position);
    let mut seen: BTreeMap<&str, (&Label, &HostOutline)> = BTreeMap::new();
    for (entry, host) in all {
        let Some(identity) = &host.identity else { continue };
        if let Some((first_entry, first)) = seen.get(identity.as_str()) {
            findings.error(
                &host.at,
                format!(
                    "the host {entry}/{} is the same daemon and pool as {first_entry}/{} on line {}; leave one",
                    host.name, first.name, first.at.position.line
                ),
            );
        } else {
            seen.insert(identity, (entry, host));
        }
    }
}
