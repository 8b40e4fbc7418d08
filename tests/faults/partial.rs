//! A look at a host is whole or it is none: each read that it makes is refused and cut in turn.

use std::collections::BTreeSet;

use egress_plan::load::Loaded;
use egress_plan::plan::HostState;
use egress_plan::provider::Depth;
use egress_plan::provider::libvirt::host::calls::{CallError, code, part};
use egress_plan::provider::libvirt::host::recorded::{Called, Effect, OPEN, Rule, World};
use jiff::Timestamp;

use crate::ground::{FLEET, Ground, Hosts, Proxy, instance};
use crate::kinds::switch_off;
use crate::rivals::Trial;
use crate::run::{Line, observe, whole};

pub const TRIALS: &[Trial] = &[
    ("l13_r27_a_look_of_which_any_read_fails_knows_nothing_of_the_host", plain),
    ("l13_r27_a_look_under_the_lock_of_which_any_read_fails_knows_nothing_of_the_host", locked),
];

/// What else is there for a look to ask about.
#[derive(Clone, Copy, PartialEq)]
enum Also {
    /// The lock of another run. Whatever seems to be missing is then not asked about.
    Lock,
    /// A machine that is off and has lost its disk.
    LostDisk,
}

const WHOLE: Proxy = Proxy::new("whole", "h1", "blank");
const DISKLESS: Proxy = Proxy::new("diskless", "h1", "blank");
/// Not there yet, so that a look under the lock refreshes the pool.
const MISSING: Proxy = Proxy::new("missing", "h1", "blank");

/// A proven image is there, a machine, one that is off, a neighbour, and one thing more.
fn scene(ground: &Ground, also: Also) -> (Loaded, Vec<World>) {
    let before = ground.load(FLEET, &[WHOLE, DISKLESS]);
    let hosts = Hosts::of(&before);
    assert_eq!(whole(&Line::apply(), &before, &hosts).code(), Ok(0));
    switch_off(&hosts, "h1", DISKLESS.name);
    let diskless = instance(FLEET, "h1", DISKLESS.name);
    hosts.each(|_, world| {
        world.edit(|host| {
            let lock = serde_json::json!({"name": format!("egress-plan-{FLEET}.lock-300-aaaaaaaaaaaaaaaa-1"),
                "format": "raw", "capacity": 0, "allocation": 0, "modified": Timestamp::now()});
            let volumes = &mut host.pool.volumes;
            match also {
                Also::Lock => volumes.push(serde_json::from_value(lock).expect("a volume")),
                Also::LostDisk => {
                    volumes.retain(|volume| !volume.name.starts_with(&diskless) || volume.name.contains("-seed."));
                }
            }
            let neighbour = serde_json::json!({"name": "neighbour", "state": "running"});
            host.domains.push(serde_json::from_value(neighbour).expect("a domain"));
        });
    });
    (ground.load(FLEET, &[WHOLE, DISKLESS, MISSING]), hosts.snapshot())
}

fn refused() -> Effect {
    let message = "internal error: the daemon is out of sorts".to_owned();
    Effect::Refuse(CallError { code: code::INTERNAL_ERROR, domain: part::NONE, message, dead: false, ended: None })
}

/// Looks once without a fault, and then once for each read of that look and each fault.
fn strike(depth: Depth, also: Also, asked_for: &[&str]) {
    let ground = Ground::new(&["h1"], "0s");
    let (wanted, begin) = scene(&ground, also);
    let hosts = Hosts::from(&wanted, &begin);
    let (before, opened) = so_far(&hosts);
    let clean = observe(&wanted, &hosts, depth);
    let HostState::Known(view) = clean.hosts.values().next().expect("a host") else { panic!("{clean:?}") };
    assert_eq!((view.instances.len(), view.others), (2, 1), "{view:?}");
    let lost = view.instances.iter().any(|instance| !instance.missing_disks.is_empty());
    assert_eq!((view.lock.is_some(), lost), (also == Also::Lock, also == Also::LostDisk), "{view:?}");
    let (calls, opens) = so_far(&hosts);
    let calls = &calls[before.len()..];
    // The table says something of each call that a look is made of.
    let names: BTreeSet<&str> = calls.iter().map(|called| called.call).collect();
    assert_eq!(names, asked_for.iter().copied().collect());
    assert!(calls.iter().all(|called| !called.changes), "{calls:?}");
    let rules = (1..).zip(calls).flat_map(|(nth, called)| {
        [refused(), Effect::CutBefore].map(|effect| (format!("{effect:?} at {called:?}"), Rule::nth(nth, effect)))
    });
    let opened = (1..=opens - opened).map(|nth| (format!("open {nth}"), Rule::nth(nth, Effect::CutBefore).of(OPEN)));
    for (what, rule) in rules.chain(opened) {
        let hosts = Hosts::from(&wanted, &begin);
        hosts.each(|_, world| world.fail(rule.clone()));
        let observed = observe(&wanted, &hosts, depth);
        let known: Vec<_> = observed.hosts.values().filter(|state| matches!(state, HostState::Known(_))).collect();
        assert!(known.is_empty() && observed.hosts.len() == 1, "{what}: {observed:?}");
    }
}

fn so_far(hosts: &Hosts) -> (Vec<Called>, u64) {
    let (mut calls, mut opens) = (Vec::new(), 0);
    hosts.each(|_, world| (calls, opens) = (world.calls().to_vec(), world.opens()));
    (calls, opens)
}

/// The calls that a look is made of.
const READS: [&str; 7] =
    ["libvirt_version", "pool", "list_domains", "domain_stats", "volume_names", "volume", "metadata"];

fn plain() {
    strike(Depth::Plan, Also::Lock, &READS);
    strike(Depth::Plan, Also::LostDisk, &READS);
}

fn locked() {
    strike(Depth::Locked, Also::LostDisk, &[&READS[..], &["refresh_pool"]].concat());
}
