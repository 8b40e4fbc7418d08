//! The addresses of a machine: the agent in the guest, then DHCP leases, then the host's neighbours.

use std::net::IpAddr;

use uuid::Uuid;

use super::domain_read::{Agent, DomainFacts};
use super::host::calls::{AddressSource, CallError, Calls, Config, NicAddresses, code};
use crate::plan::Address;
use crate::provider::sorted_addresses;

/// How long the agent in a guest may take to answer. A listing never waits longer for a broken
/// guest (R19).
const AGENT_SECONDS: i32 = 2;

/// Asks each source in turn. One of several failing is normal while a guest boots; all failing, or a
/// dead connection, is unknown and says nothing about the machine (L10).
pub(super) fn read(calls: &mut dyn Calls, uuid: Uuid) -> Address {
    let xml = match calls.domain_xml(uuid, Config::Live) {
        Ok(xml) => xml,
        Err(error) if matches!(error.code, code::NO_DOMAIN | code::OPERATION_INVALID) && !error.dead => {
            return Address::Known(Vec::new());
        }
        Err(error) => return Address::Unknown(error.to_string()),
    };
    let facts = match DomainFacts::read(&xml) {
        Ok(facts) => facts,
        Err(error) => return Address::Unknown(error.to_string()),
    };
    let mut sources = Vec::new();
    if facts.agent == Agent::Connected {
        sources.push(AddressSource::Agent);
    }
    if facts.nics.iter().any(|nic| nic.network.is_some()) {
        sources.push(AddressSource::Lease);
    }
    sources.push(AddressSource::Arp);
    let macs: Vec<String> = facts.macs().map(str::to_ascii_lowercase).collect();
    let mut answered = false;
    let mut last: Option<CallError> = None;
    for source in sources {
        match calls.addresses(uuid, source, AGENT_SECONDS) {
            Ok(nics) => {
                answered = true;
                let found = usable(&nics, &macs);
                if !found.is_empty() {
                    return Address::Known(found);
                }
            }
            Err(error) if error.dead => return Address::Unknown(error.to_string()),
            Err(error) => last = Some(error),
        }
    }
    match last {
        // An agent that is not there yet is how every guest begins.
        Some(error) if !answered && facts.agent == Agent::Connected => Address::Unknown(error.to_string()),
        _ => Address::Known(Vec::new()),
    }
}

/// Addresses of the machine's own interfaces that others may reach it at (L11): not loopback,
/// link-local, multicast or unspecified. Private ones are fine.
fn usable(nics: &[NicAddresses], macs: &[String]) -> Vec<IpAddr> {
    let own = nics.iter().filter(|nic| macs.contains(&nic.mac.to_ascii_lowercase()));
    sorted_addresses(own.flat_map(|nic| &nic.addresses).copied().filter(is_usable).collect())
}

fn is_usable(address: &IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(link_local || address.is_loopback() || address.is_multicast() || address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l11_r18_only_usable_addresses_of_the_own_mac_count_and_ipv4_comes_first() {
        let nic = |mac: &str, addresses: &[&str]| NicAddresses {
            mac: mac.to_owned(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        let nics = [
            nic("00:00:00:00:00:00", &["127.0.0.1", "::1"]),
            nic("02:42:AA:00:00:01", &["172.17.0.1"]),
            nic(
                "52:54:00:00:00:01",
                &["fe80::1", "2001:db8::5", "169.254.3.4", "0.0.0.0", "224.0.0.1", "10.0.0.7", "192.0.2.5"],
            ),
        ];
        let found = usable(&nics, &["52:54:00:00:00:01".to_owned()]);
        let expected: Vec<IpAddr> =
            ["10.0.0.7", "192.0.2.5", "2001:db8::5"].iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(found, expected);
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod sources;
