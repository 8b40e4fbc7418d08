//! `known_hosts` files of any text: a key that the file does not hold is never trusted, and one that
//! the file revokes stays revoked.
#![no_main]

use std::sync::LazyLock;

use egress_plan::provider::libvirt::host::host_name::HostName;
use egress_plan::provider::libvirt::host::known_hosts::{KnownHosts, Verdict};
use libfuzzer_sys::fuzz_target;
use russh::keys::PublicKey;

const STRANGER: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHd3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3";
static KEY: LazyLock<PublicKey> =
    LazyLock::new(|| PublicKey::from_openssh(&format!("ssh-ed25519 {STRANGER}")).expect("a key"));

fuzz_target!(|text: &str| {
    let hosts = KnownHosts::parse(text);
    for host in [HostName::new("relay.test", 22), HostName::new("relay.test", 22001), HostName::new("::1", 22003)] {
        let lookup = hosts.lookup(&host);
        let verdict = lookup.verdict(&KEY);
        // The same key may be spelt otherwise, with padding for one, so only a text that holds
        // nothing like it proves something.
        if !text.contains(&STRANGER[30..60]) {
            assert!(!matches!(verdict, Verdict::Trusted | Verdict::Revoked { .. }), "{verdict:?}");
        }
        let offered = lookup.algorithms();
        assert!(offered.len() >= 5, "{offered:?}");

        let revoked = format!("{text}\n@revoked * ssh-ed25519 {STRANGER}\n");
        let verdict = KnownHosts::parse(&revoked).lookup(&host).verdict(&KEY);
        assert!(matches!(verdict, Verdict::Revoked { .. }), "{verdict:?}");
    }
});
