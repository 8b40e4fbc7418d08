//! Hosts that hold machines of this fleet and that the config does not have (L22). Without this, a
//! renamed entry or a host taken out of the config leaves its machines running for ever, unseen.

use std::collections::{BTreeMap, BTreeSet};

use super::super::words;
use super::build::known;
use super::{Memory, MissingHost, ReportInput};
use crate::plan::HostRef;

const HINT: &str = "if it was renamed, list its former name under `aliases`; to be rid of its machines, put it back with \
                    `retired: true` and apply";

pub(super) fn hosts(input: &ReportInput<'_>) -> Vec<MissingHost> {
    let mut found: BTreeMap<(String, Option<HostRef>), BTreeSet<String>> = BTreeMap::new();
    for (place, view) in known(input) {
        for (stranger, instance) in &view.strangers {
            let name = (words::line(stranger), Some(place.clone()));
            found.entry(name).or_default().insert(words::line(instance));
        }
    }
    if let Some(before) = input.before {
        remembered(input, before, &mut found);
    }
    found
        .into_iter()
        .map(|((host, seen_on), instances)| {
            let machines = match instances.len() {
                0 => "machines may be there".to_owned(),
                number => {
                    format!("{} there", words::count(number, "machine of this fleet is", "machines of this fleet are"))
                }
            };
            let message = match &seen_on {
                Some(place) => format!("the config does not have {host}, and {machines}, seen on {place}"),
                None => format!("the config no longer has {host}, and {machines} as far as was known before"),
            };
            MissingHost { host, seen_on, instances: instances.into_iter().collect(), message, hint: HINT.to_owned() }
        })
        .collect()
}

/// What is remembered of hosts that are gone from the config: those with machines, those that could not
/// be looked at, and those that were missing then already.
fn remembered(
    input: &ReportInput<'_>,
    before: &Memory,
    found: &mut BTreeMap<(String, Option<HostRef>), BTreeSet<String>>,
) {
    let seen: BTreeSet<String> = found.keys().map(|(host, _)| host.clone()).collect();
    let mut remember = |host: String, instances: BTreeSet<String>| {
        if !seen.contains(&host) {
            found.entry((host, None)).or_default().extend(instances);
        }
    };
    for (host, instances) in &before.machines {
        if !input.desired.has_host(host) {
            remember(host.to_string(), instances.clone());
        }
    }
    for missing in before.missing.iter().filter(|missing| missing.seen_on.is_none()) {
        let back = missing.host.parse().is_ok_and(|host| input.desired.has_host(&host));
        if !back {
            remember(missing.host.clone(), missing.instances.iter().cloned().collect());
        }
    }
}
