//! What is remembered of the time before a run: by a report, or by the statuses of a cluster's objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;

use super::proxy::{Condition, ConditionType};
use super::{MissingHost, Report};
use crate::plan::{HostRef, ProxyKey};

/// What a run knows of the time before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The proxies that were wanted.
    pub proxies: BTreeMap<ProxyKey, Remembered>,
    /// Names of the machines that were there, by host. A host that could not be looked at is here even
    /// without one.
    pub machines: BTreeMap<HostRef, BTreeSet<String>>,
    /// Hosts that the config did not have then already.
    pub missing: Vec<MissingHost>,
}

/// What is remembered of a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Where its machine was.
    pub host: Option<HostRef>,
    /// UUID of its machine.
    pub uuid: Option<String>,
    /// Whether clients were sent to it.
    pub usable: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// When it was so, at the least: a machine that was started later may have another address.
    pub at: Option<Timestamp>,
}

impl Remembered {
    /// A condition.
    #[must_use]
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

impl From<Report> for Memory {
    fn from(report: Report) -> Self {
        let mut machines = report.instances();
        for host in report.hosts.iter().filter(|host| !host.reachable) {
            machines.entry(host.host.clone()).or_default();
        }
        let at = Some(report.run.ended_at);
        let proxies = report.proxies.into_iter().map(|proxy| {
            let remembered = Remembered {
                host: proxy.host,
                uuid: proxy.uuid,
                usable: proxy.usable,
                addresses: proxy.addresses,
                conditions: proxy.conditions,
                at,
            };
            (proxy.key, remembered)
        });
        Self { proxies: proxies.collect(), machines, missing: report.missing_hosts }
    }
}
