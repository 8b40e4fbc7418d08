//! The inventory: the proxies that clients may use.
//!
//! As long as nobody probes proxies from outside, these count: machines that run and have an address,
//! be it the last one known where none could be read (`stale`); machines on a host that did not
//! answer, when the report before listed them; and the endpoints of `External` proxies. An address
//! that is not known is not listed.
//!
//! Nothing in here changes while the fleet does not: no time stamps, sorted by proxy key, so that an
//! unchanged fleet gives the same bytes. There are no secrets: URLs are without userinfo.

mod format;
mod template;
mod write;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use format::{Format, Rendered};
pub use template::{Template, TemplateError};
pub use write::{Keep, WriteError, Written, write_atomically};

use super::document::{AddressState, Phase, ProxyMode, ProxyReport, Report};
use super::words;
use crate::plan::{Label, ProxyKey};

/// The inventory, in the shape of its canonical JSON format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// Always [`Inventory::SCHEMA`].
    pub schema: String,
    /// The fleet.
    pub fleet: Label,
    /// How many proxies there are.
    pub counts: InventoryCounts,
    /// The proxies that clients may use, by key.
    pub proxies: Vec<InventoryProxy>,
}

/// The figures of an inventory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryCounts {
    /// Proxies that are wanted.
    pub desired: usize,
    /// Proxies that are listed.
    pub ready: usize,
    /// Machines about to go, which are not listed any more.
    pub draining: usize,
    /// Wanted proxies that are not listed yet.
    pub pending: usize,
    /// Wanted proxies that failed or need a person, and are not listed.
    pub failed: usize,
}

/// A proxy that clients may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryProxy {
    /// Its key, `namespace/name`.
    pub id: ProxyKey,
    /// `http://host:port`.
    pub url: String,
    /// Always `http`.
    pub scheme: String,
    /// Address or host name, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether `host` is an address, and of which family.
    pub family: Family,
    /// What is known of it.
    pub state: ProxyState,
    /// The provider entry; none for an endpoint of somebody else's.
    pub provider: Option<Label>,
    /// The host within the entry.
    pub placement: Option<Label>,
    /// Digest over what the manifest says of the machine.
    pub spec_digest: Option<String>,
    /// Labels of the manifest.
    pub labels: BTreeMap<String, String>,
}

/// What kind of host a proxy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A host name.
    Name,
}

/// What is known of a listed proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyState {
    /// Its machine runs at this address; nobody has proven it from outside.
    Running,
    /// It was proven from outside.
    Ready,
    /// The address is the last one known.
    Stale,
    /// An endpoint of the manifest, taken as it is.
    External,
}

impl Inventory {
    /// The format of the canonical JSON.
    pub const SCHEMA: &'static str = "egress-plan.dev/inventory/v1";

    /// The inventory of a report.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let mut proxies: Vec<InventoryProxy> = report.proxies.iter().filter_map(entry).collect();
        proxies.sort_by(|a, b| a.id.cmp(&b.id));
        let unlisted = |phases: &[Phase]| {
            report.proxies.iter().filter(|proxy| !listed(proxy) && phases.contains(&proxy.phase)).count()
        };
        let gone = report.orphans.iter().filter(|orphan| orphan.phase == Phase::Deleting && !orphan.is_gone()).count();
        let counts = InventoryCounts {
            desired: report.proxies.len(),
            ready: proxies.len(),
            draining: gone + unlisted(&[Phase::Deleting]),
            pending: unlisted(&[Phase::Pending, Phase::Provisioning, Phase::Running, Phase::Ready, Phase::Unknown]),
            failed: unlisted(&[Phase::Failed, Phase::Blocked]),
        };
        Self { schema: Self::SCHEMA.to_owned(), fleet: report.run.fleet.clone(), counts, proxies }
    }
}

fn listed(proxy: &ProxyReport) -> bool {
    entry(proxy).is_some()
}

fn entry(proxy: &ProxyReport) -> Option<InventoryProxy> {
    if !proxy.usable {
        return None;
    }
    let (host, family) = match (proxy.ip, &proxy.endpoint) {
        (Some(ip), _) => (ip.to_string(), if ip.is_ipv6() { Family::Ipv6 } else { Family::Ipv4 }),
        (None, Some(name)) => (name.clone(), Family::Name),
        (None, None) => return None,
    };
    let state = match (proxy.mode, proxy.phase, proxy.address_state) {
        (ProxyMode::External, _, _) => ProxyState::External,
        (ProxyMode::Managed, _, AddressState::Stale) => ProxyState::Stale,
        (ProxyMode::Managed, Phase::Ready, _) => ProxyState::Ready,
        (ProxyMode::Managed, _, _) => ProxyState::Running,
    };
    Some(InventoryProxy {
        id: proxy.key.clone(),
        url: format!("http://{}", words::authority(&host, proxy.port)?),
        scheme: "http".to_owned(),
        host,
        port: proxy.port,
        family,
        state,
        provider: proxy.host.as_ref().map(|host| host.entry.clone()),
        placement: proxy.host.as_ref().map(|host| host.host.clone()),
        spec_digest: proxy.spec_digest.clone(),
        labels: proxy.labels.clone(),
    })
}

impl InventoryProxy {
    /// `host:port`, an IPv6 address in brackets.
    #[must_use]
    pub fn authority(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }
}

#[cfg(test)]
mod tests;
