//! The three sources of addresses as a table: what each answers, and what the machine's address is
//! then.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;

use super::*;
use crate::provider::libvirt::host::calls::part;
use crate::provider::libvirt::host::link::{Link as _, Purpose};
use crate::provider::libvirt::host::recorded::{Effect, RecordedHost, RecordedLink, Rule, World};

/// The machine's card, and one of a bridge inside of the guest.
const OWN: &str = "52:54:00:00:00:01";
const FOREIGN: &str = "02:42:00:00:00:09";

/// What a source answers: a card and its addresses. `None` is a source that has nothing to say; an
/// agent of that kind is not connected.
type Answer = Option<(&'static str, &'static [&'static str])>;

/// What befalls the calls.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// This look at a source is refused, counted from 1.
    Refused(u64),
    /// All of them are.
    AllRefused,
    /// The connection dies at this look.
    Dies(u64),
    /// The machine's XML is refused with this code.
    Xml(i32),
}

fn refused(code: i32) -> Effect {
    Effect::Refuse(CallError { code, domain: part::QEMU, message: "refused".to_owned(), dead: false, ended: None })
}

fn asked(agent: Answer, lease: Answer, arp: Answer, fault: Fault) -> String {
    let source = |name: &str, answer: Answer| {
        answer.map_or_else(String::new, |(mac, addresses)| {
            format!("    {name}: [{{mac: '{mac}', addresses: {addresses:?}}}]\n")
        })
    };
    let answers = [source("agent", agent), source("lease", lease), source("arp", arp)].concat();
    let answers = if answers.is_empty() { "{}\n".to_owned() } else { ["\n", &answers].concat() };
    let yaml = format!(
        "domains:\n- name: m\n  uuid: 00000000-0000-4000-8000-000000000001\n  state: running\n  addresses: {answers}  \
         xml: |\n    <domain type='kvm'><name>m</name><uuid>00000000-0000-4000-8000-000000000001</uuid>\n    \
         <os><type>hvm</type></os><devices>\n    \
         <interface type='network'><mac address='{OWN}'/><source network='default'/></interface>\n    \
         <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>\n    \
         </devices></domain>\n"
    );
    let host = RecordedHost::parse(&yaml, Path::new("test.yaml")).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    let world = Arc::new(Mutex::new(World::new(host)));
    match fault {
        Fault::None => {}
        Fault::Refused(nth) => {
            world.lock().unwrap().fail(Rule::nth(nth, refused(code::AGENT_UNRESPONSIVE)).of("addresses"));
        }
        Fault::AllRefused => world.lock().unwrap().fail(Rule::always(refused(code::INTERNAL_ERROR)).of("addresses")),
        Fault::Dies(nth) => world.lock().unwrap().fail(Rule::nth(nth, Effect::CutBefore).of("addresses")),
        Fault::Xml(code) => world.lock().unwrap().fail(Rule::always(refused(code)).of("domain_xml")),
    }
    let link = RecordedLink::new(world);
    let mut calls = link.open(Purpose::Calls, Duration::from_secs(1)).now_or_never().unwrap().unwrap().calls;
    match read(&mut *calls, Uuid::from_u128(0x4000_8000_0000_0000_0001)) {
        Address::Known(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Address::Unknown(_) => "unknown".to_owned(),
        Address::NotAsked => "not asked".to_owned(),
    }
}

#[test]
fn l10_l11_r18_the_first_source_that_gives_a_usable_address_counts() {
    let a: Answer = Some((OWN, &["192.0.2.1"]));
    let b: Answer = Some((OWN, &["192.0.2.2"]));
    let c: Answer = Some((OWN, &["192.0.2.3"]));
    let empty: Answer = Some((OWN, &[]));
    let foreign: Answer = Some((FOREIGN, &["172.17.0.1", "192.0.2.9"]));
    let useless: Answer =
        Some((OWN, &["fe80::1", "169.254.7.7", "127.0.0.1", "::1", "224.0.0.1", "0.0.0.0", "::", "255.255.255.255"]));
    let six: Answer = Some((OWN, &["fe80::1", "2001:db8::5"]));
    let mixed: Answer = Some(("52:54:00:00:00:01", &["2001:db8::5", "10.0.0.7", "fd00::7"]));
    let none: Answer = None;
    for (what, agent, lease, arp, fault, expected) in [
        ("all give one", a, b, c, Fault::None, "192.0.2.1"),
        ("the agent is not there", none, b, c, Fault::None, "192.0.2.2"),
        ("the agent and the leases have none", none, none, c, Fault::None, "192.0.2.3"),
        ("the agent gives an empty card", empty, b, c, Fault::None, "192.0.2.2"),
        ("the agent gives a card of the guest's own", foreign, none, c, Fault::None, "192.0.2.3"),
        ("the agent gives addresses that nobody can reach", useless, b, none, Fault::None, "192.0.2.2"),
        ("nobody gives a usable one", useless, foreign, empty, Fault::None, ""),
        ("IPv6 alone", six, none, none, Fault::None, "2001:db8::5"),
        ("private and IPv6 ones", mixed, none, none, Fault::None, "10.0.0.7 2001:db8::5 fd00::7"),
        ("nobody has anything", none, none, none, Fault::None, ""),
        ("the agent fails", a, b, c, Fault::Refused(1), "192.0.2.2"),
        ("the agent fails and the leases are empty", a, none, c, Fault::Refused(1), "192.0.2.3"),
        ("the agent fails and the others are empty", a, none, none, Fault::Refused(1), ""),
        ("the leases fail", empty, b, c, Fault::Refused(2), "192.0.2.3"),
        ("the neighbours fail last", empty, empty, c, Fault::Refused(3), ""),
        ("all fail while the agent is there", a, b, c, Fault::AllRefused, "unknown"),
        ("all fail while the agent is not there yet", none, b, c, Fault::AllRefused, ""),
        ("the connection dies at the agent", a, b, c, Fault::Dies(1), "unknown"),
        ("the connection dies at the leases", empty, b, c, Fault::Dies(2), "unknown"),
        ("the connection dies at the neighbours", empty, empty, c, Fault::Dies(3), "unknown"),
        ("the machine is gone", a, b, c, Fault::Xml(code::NO_DOMAIN), ""),
        ("the machine stopped meanwhile", a, b, c, Fault::Xml(code::OPERATION_INVALID), ""),
        ("the machine's XML is refused", a, b, c, Fault::Xml(code::INTERNAL_ERROR), "unknown"),
    ] {
        assert_eq!(asked(agent, lease, arp, fault), expected, "{what}");
    }
}
