//! `network-config` of a seed: version 2, matched on the MAC address, since the guest names its
//! card as it likes. Written only when the manifest gives a network; cloud-init asks DHCP by itself
//! otherwise.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::plan::Network;

/// The file's content. JSON is YAML, and in it no MAC address is taken for a number in base 60.
///
/// A gateway outside of every prefix is reached on the link itself. Routes are written by prefix,
/// since `default` is not known to every cloud-init that is in use.
#[must_use]
pub fn config(network: &Network, mac: &str) -> String {
    let addresses: Vec<String> = network.addresses.iter().map(ToString::to_string).collect();
    let mut card = json!({
        "match": {"macaddress": mac},
        "dhcp4": false,
        "dhcp6": false,
        "addresses": addresses,
    });
    if let Value::Object(card) = &mut card {
        if let Some(gateway) = network.gateway {
            card.insert("routes".to_owned(), json!([route(network, gateway)]));
        }
        if !network.nameservers.is_empty() {
            let servers: Vec<String> = network.nameservers.iter().map(ToString::to_string).collect();
            card.insert("nameservers".to_owned(), json!({"addresses": servers}));
        }
    }
    json!({"version": 2, "ethernets": {"proxy0": card}}).to_string() + "\n"
}

fn route(network: &Network, gateway: IpAddr) -> Value {
    let to = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    let mut route = json!({"to": to, "via": gateway.to_string()});
    let reachable = network.addresses.iter().any(|net| net.contains(&gateway));
    if let (false, Value::Object(route)) = (reachable, &mut route) {
        route.insert("on-link".to_owned(), Value::Bool(true));
    }
    route
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(addresses: &[&str], gateway: Option<&str>, nameservers: &[&str]) -> Value {
        let network = Network {
            addresses: addresses.iter().map(|net| net.parse().unwrap()).collect(),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
            nameservers: nameservers.iter().map(|server| server.parse().unwrap()).collect(),
        };
        let config: Value = serde_json::from_str(&config(&network, "10:20:30:40:50:00")).unwrap();
        assert_eq!(config["version"], 2);
        config["ethernets"]["proxy0"].clone()
    }

    #[test]
    fn the_card_is_matched_on_its_mac_and_asks_no_dhcp() {
        let card = card(&["192.0.2.17/24"], None, &[]);
        assert_eq!(card["match"]["macaddress"], "10:20:30:40:50:00");
        assert_eq!((&card["dhcp4"], &card["dhcp6"]), (&json!(false), &json!(false)));
        assert_eq!(card["addresses"], json!(["192.0.2.17/24"]));
        assert_eq!((card.get("routes"), card.get("nameservers")), (None, None));
    }

    #[test]
    fn a_gateway_becomes_the_default_route_of_its_family() {
        let four = card(&["192.0.2.17/24", "2001:db8::2/64"], Some("192.0.2.1"), &["192.0.2.1", "2001:db8::1"]);
        assert_eq!(four["routes"], json!([{"to": "0.0.0.0/0", "via": "192.0.2.1"}]));
        assert_eq!(four["nameservers"]["addresses"], json!(["192.0.2.1", "2001:db8::1"]));
        let six = card(&["2001:db8::2/64"], Some("fe80::1"), &[]);
        assert_eq!(six["routes"], json!([{"to": "::/0", "via": "fe80::1", "on-link": true}]));
    }
}
