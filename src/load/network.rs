//! Static addresses of a machine: each a host's address, and a gateway that can be reached.

use std::net::IpAddr;

use ipnet::IpNet;

use super::manifest::RawNetwork;
use crate::plan::Network;
use crate::provider::document::check::quoted;
use crate::provider::document::{Findings, Located, Location};

/// A network that was checked, with the place of each address.
pub(super) struct Checked {
    pub network: Network,
    pub places: Vec<(IpAddr, Location)>,
}

/// Checks `spec.network`.
pub(super) fn check(raw: &Located<RawNetwork>, findings: &mut Findings) -> Option<Checked> {
    let at = &raw.at;
    let raw = raw.get()?;
    let before = findings.errors();
    let mut places: Vec<(IpAddr, Location)> = Vec::new();
    let mut addresses: Vec<IpNet> = Vec::new();
    match raw.addresses.as_ref() {
        None => findings.missing(at, "addresses", "this field is required; leave network out for DHCP"),
        Some(list) => {
            if list.get().is_some_and(Vec::is_empty) {
                findings.error(&list.at, "at least one address is required; leave network out for DHCP");
            }
            for field in list.get().into_iter().flatten() {
                let Some(text) = field.get() else { continue };
                match address(text) {
                    Err(message) => findings.error(&field.at, message),
                    Ok(net) if places.iter().any(|(ip, _)| *ip == net.addr()) => {
                        findings.error(&field.at, "this address is given twice; leave one");
                    }
                    Ok(net) => {
                        places.push((net.addr(), field.at.clone()));
                        addresses.push(net);
                    }
                }
            }
        }
    }
    let sound = findings.errors() == before;
    let gateway = raw.gateway.as_ref().and_then(|field| {
        let gateway = ip(field, findings)?;
        let inside = |net: &&IpNet| net.contains(&gateway);
        if sound && !addresses.iter().any(|net| net.addr().is_ipv4() == gateway.is_ipv4()) {
            findings.error(&field.at, "the gateway is of another family than the addresses");
        } else if sound && !addresses.iter().any(|net| inside(&net)) {
            findings.error(&field.at, "the gateway is in none of the addresses' networks, so it cannot be reached");
        } else if addresses.iter().any(|net| net.addr() == gateway) {
            findings.error(&field.at, "the gateway is the machine's own address");
        }
        Some(gateway)
    });
    let nameservers = raw.nameservers.as_ref().and_then(Located::get).map(Vec::as_slice).unwrap_or_default();
    let nameservers = nameservers.iter().filter_map(|field| ip(field, findings)).collect();
    (findings.errors() == before).then_some(Checked { network: Network { addresses, gateway, nameservers }, places })
}

fn ip(field: &Located<String>, findings: &mut Findings) -> Option<IpAddr> {
    let text = field.get()?;
    match text.parse::<IpAddr>() {
        Ok(ip) if !ip.is_unspecified() && !ip.is_multicast() => Some(ip),
        _ => {
            let shown = quoted(text);
            findings.error(&field.at, format!("{shown} is no address of a host; expected one such as 192.0.2.1"));
            None
        }
    }
}

/// An address with its prefix length, both of which a single machine can have.
fn address(text: &str) -> Result<IpNet, String> {
    let shown = quoted(text);
    let net: IpNet = text.parse().map_err(|_| {
        if text.parse::<IpAddr>().is_ok() {
            format!("{shown} lacks its prefix length; write {text}/24, for example")
        } else {
            format!("{shown} is no address with a prefix length; expected one such as 192.0.2.17/24")
        }
    })?;
    let ip = net.addr();
    if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || net.prefix_len() == 0 {
        return Err(format!("{shown} cannot be the address of a machine"));
    }
    let host_bits = net.max_prefix_len() - net.prefix_len();
    if host_bits > 1 && ip == net.network() {
        return Err(format!("{shown} is a network and not an address in it; its host bits are zero"));
    }
    if host_bits > 1 && ip.is_ipv4() && ip == net.broadcast() {
        return Err(format!("{shown} is the broadcast address of its network"));
    }
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::document::{Limits, Node};

    fn problems(text: &str) -> Vec<String> {
        let node = Node::parse(text, 0, Limits::MANIFEST).expect("YAML").expect("a document");
        let mut findings = Findings::default();
        let raw = node.read::<RawNetwork>("network", &mut findings);
        let checked = check(&raw, &mut findings);
        assert_eq!(checked.is_some(), !findings.has_errors());
        findings.into_vec().into_iter().map(|f| format!("{}: {}", f.path, f.message)).collect()
    }

    #[test]
    fn sound_networks_pass() {
        for good in [
            "{addresses: [192.0.2.17/24], gateway: 192.0.2.1, nameservers: [192.0.2.1, '2001:db8::1']}",
            "{addresses: ['2001:db8::5/64'], gateway: '2001:db8::1'}",
            "{addresses: [192.0.2.17/32]}",
            "{addresses: [192.0.2.0/31], gateway: 192.0.2.1}",
            "{addresses: [192.0.2.17/24, '2001:db8::5/64'], gateway: 192.0.2.1}",
        ] {
            assert_eq!(problems(good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn what_a_machine_cannot_have_is_refused_at_its_field() {
        for (bad, start) in [
            ("{}", "network.addresses: this field is required"),
            ("{addresses: []}", "network.addresses: at least one"),
            ("{addresses: [192.0.2.300/24]}", "network.addresses[0]: \"192.0.2.300/24\" is no address"),
            ("{addresses: [192.0.2.17]}", "network.addresses[0]: \"192.0.2.17\" lacks its prefix"),
            ("{addresses: [192.0.2.0/24]}", "network.addresses[0]: \"192.0.2.0/24\" is a network"),
            ("{addresses: [192.0.2.255/24]}", "network.addresses[0]: \"192.0.2.255/24\" is the broadcast"),
            ("{addresses: [127.0.0.1/8]}", "network.addresses[0]: \"127.0.0.1/8\" cannot be"),
            ("{addresses: [192.0.2.1/24, 192.0.2.1/25]}", "network.addresses[1]: this address is given twice"),
            ("{addresses: [192.0.2.2/24], gateway: 198.51.100.1}", "network.gateway: the gateway is in none"),
            (
                "{addresses: [192.0.2.2/24], gateway: '2001:db8::1'}",
                "network.gateway: the gateway is of another family",
            ),
            ("{addresses: [192.0.2.2/24], gateway: 192.0.2.2}", "network.gateway: the gateway is the machine's own"),
            ("{addresses: [192.0.2.2/24], nameservers: [dns]}", "network.nameservers[0]: \"dns\" is no address"),
        ] {
            let found = problems(bad);
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(found[0].starts_with(start), "{bad}: {found:?}");
        }
    }
}
