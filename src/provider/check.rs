//! What `check` found on a host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{HostRef, Reason};

/// The fact that tells a host's store from every other.
pub const STORE: &str = "poolUuid";

/// The outcome for one host: the stages that passed, and the reason of the first that did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The host.
    pub host: HostRef,
    /// [`Reason::Reachable`] when it is ready.
    pub reason: Reason,
    /// One line for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Stages in the order in which they were tried.
    pub stages: Vec<CheckStage>,
    /// `user`, `pool`, `poolUuid`, `libvirtVersion`, `hypervisorVersion`, `hostname`, `poolState`,
    /// `poolCapacityGiB`, `poolAvailableGiB`, `latencyMs`, `instances…`, as far as they are known.
    pub facts: BTreeMap<String, String>,
}

impl CheckReport {
    /// Whether the host can be used.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.reason == Reason::Reachable
    }
}

/// Makes ready hosts that are one store not ready (L48): only all of them together show it.
pub fn refuse_shared_stores(reports: &mut [CheckReport]) {
    let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for report in reports.iter() {
        if let Some(store) = report.facts.get(STORE) {
            hosts.entry(store.clone()).or_default().push(report.host.to_string());
        }
    }
    for report in reports.iter_mut().filter(|report| report.ready()) {
        let shared = report.facts.get(STORE).and_then(|store| hosts.get(store)).filter(|hosts| hosts.len() > 1);
        let Some(shared) = shared else { continue };
        report.reason = Reason::DuplicateHost;
        report.message = format!("{} are one daemon and one pool", shared.join(" and "));
        report.hint = Some("give each host of the config a daemon or a pool of its own".to_owned());
    }
}

/// One stage of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckStage {
    /// `credentials`, `tcp`, `ssh`, `socket`, `libvirt`, `pool`, `bridge`, `emulation`, `firmware`, `space`.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l48_hosts_that_are_one_store_are_not_ready() {
        let report = |host: &str, store: &str| CheckReport {
            host: host.parse().expect("a host"),
            reason: Reason::Reachable,
            message: "ready".to_owned(),
            hint: None,
            stages: Vec::new(),
            facts: BTreeMap::from([(STORE.to_owned(), store.to_owned())]),
        };
        let mut reports = [report("a/h1", "one"), report("a/h2", "two"), report("b/h1", "one")];
        reports[1].facts.clear();
        refuse_shared_stores(&mut reports);
        let reasons = reports.each_ref().map(|report| report.reason);
        assert_eq!(reasons, [Reason::DuplicateHost, Reason::Reachable, Reason::DuplicateHost]);
        assert_eq!(reports[0].message, "a/h1 and b/h1 are one daemon and one pool");
    }
}
