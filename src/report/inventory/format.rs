//! The formats of the inventory. Each gives the same bytes for the same inventory.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::json;
use super::{Inventory, InventoryProxy, Template};

/// A format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// The canonical JSON.
    Json,
    /// One proxy a line.
    List(Template),
    /// A JSON array of target groups, as Prometheus reads it from a file.
    FileSd,
    /// `cache_peer` lines for a Squid in front of the fleet.
    SquidPeers,
}

/// An inventory in a format, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Proxies in it.
    pub listed: usize,
    /// Proxies that are wanted.
    pub desired: usize,
}

impl Format {
    /// `inventory` in this format.
    ///
    /// # Errors
    /// A value that JSON cannot carry, which an inventory does not hold.
    pub fn render(&self, inventory: &Inventory) -> Result<Rendered, serde_json::Error> {
        let text = match self {
            Self::Json => json::text(inventory)?,
            Self::List(template) => inventory.proxies.iter().map(|proxy| template.line(proxy) + "\n").collect(),
            Self::FileSd => {
                let targets: Vec<Target> = inventory.proxies.iter().map(|proxy| target(inventory, proxy)).collect();
                json::text(&targets)?
            }
            Self::SquidPeers => squid_peers(inventory),
        };
        Ok(Rendered { text, listed: inventory.proxies.len(), desired: inventory.counts.desired })
    }

    /// Whether a file of this format lists no proxy. A file that cannot be read as this format counts as
    /// listing some, so that it is not lost.
    #[must_use]
    pub fn is_empty_list(&self, bytes: &[u8]) -> bool {
        let blank = bytes.iter().all(u8::is_ascii_whitespace);
        blank
            || match self {
                Self::List(_) => false,
                Self::Json => {
                    serde_json::from_slice::<Inventory>(bytes).is_ok_and(|inventory| inventory.proxies.is_empty())
                }
                Self::FileSd => {
                    serde_json::from_slice::<Vec<serde_json::Value>>(bytes).is_ok_and(|list| list.is_empty())
                }
                Self::SquidPeers => {
                    let peer = |line: &str| line.trim_start().starts_with("cache_peer ");
                    std::str::from_utf8(bytes).is_ok_and(|text| !text.lines().any(peer))
                }
            }
    }
}

/// A target group of Prometheus: a target holds no scheme and no path, and labels are strings.
#[derive(Serialize)]
struct Target {
    targets: Vec<String>,
    labels: BTreeMap<String, String>,
}

fn target(inventory: &Inventory, proxy: &InventoryProxy) -> Target {
    let mut labels: BTreeMap<String, String> =
        proxy.labels.iter().map(|(name, value)| (format!("egress_label_{}", snake(name)), value.clone())).collect();
    let mut set = |name: &str, value: String| labels.insert(format!("egress_{name}"), value);
    set("fleet", inventory.fleet.to_string());
    set("proxy", proxy.id.to_string());
    if let (Some(provider), Some(placement)) = (&proxy.provider, &proxy.placement) {
        set("provider", provider.to_string());
        set("placement", placement.to_string());
    }
    Target { targets: vec![proxy.authority()], labels }
}

/// A label's name in the letters that Prometheus allows.
fn snake(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Peers need `never_direct`: a tunnel is not hierarchical, and Squid would go direct and leak.
fn squid_peers(inventory: &Inventory) -> String {
    let mut text = String::from("# Written by egress-plan; changes are lost.\n");
    for proxy in &inventory.proxies {
        let line = format!(
            "cache_peer {} parent {} 0 no-query no-digest no-netdb-exchange proxy-only round-robin connect-fail-limit=3 name={}.{}\n",
            proxy.host,
            proxy.port,
            proxy.id.namespace(),
            proxy.id.name()
        );
        text.push_str(&line);
    }
    text.push_str("never_direct allow all\n");
    text
}
