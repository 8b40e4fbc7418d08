//! A host with so many domains that their marks are read over two connections.

use egress_plan::plan::HostState;
use egress_plan::provider::libvirt::host::recorded::{Effect, OPEN, RecordedDomain, Rule};

use crate::ground::{FLEET, Ground, Hosts, Proxy};
use crate::rivals::Trial;
use crate::run::{Line, look, whole};

pub const TRIALS: &[Trial] = &[
    ("l13_a_host_is_read_whole_over_two_connections", over_two),
    ("l13_r24_what_the_second_connection_cannot_read_the_first_reads", over_one),
];

const FOREIGN: usize = 60;
const MACHINE: Proxy = Proxy::new("p", "h1", "blank");

/// Demands that a look sees everything, whatever `befalls` the host, and returns the connections that
/// it took.
fn sees_everything(befalls: impl FnOnce() -> Option<Rule>) -> u64 {
    let ground = Ground::new(&["h1"], "0s");
    let wanted = ground.load(FLEET, &[MACHINE]);
    let hosts = Hosts::of(&wanted);
    assert_eq!(whole(&Line::apply(), &wanted, &hosts).code(), Ok(0));
    let domain = |number: usize| {
        let yaml = serde_json::json!({"name": format!("neighbour-{number}"), "state": "running"});
        serde_json::from_value::<RecordedDomain>(yaml).expect("a domain")
    };
    let rule = befalls();
    let mut before = 0;
    hosts.each(|_, world| {
        world.edit(|host| host.domains.extend((0..FOREIGN).map(domain)));
        rule.clone().into_iter().for_each(|rule| world.fail(rule));
        before = world.opens();
    });
    let (observed, plan) = look(&wanted, &hosts);
    for (place, state) in &observed.hosts {
        let HostState::Known(view) = state else { panic!("{place}: {state:?}") };
        assert_eq!((view.instances.len(), view.others), (1, FOREIGN));
    }
    assert!(!plan.has_changes() && !plan.is_incomplete(), "{plan:?}");
    let mut after = 0;
    hosts.each(|_, world| after = world.opens());
    after - before
}

fn over_two() {
    // The second one is the first again where that was quicker.
    assert!((1..=2).contains(&sees_everything(|| None)));
}

fn over_one() {
    sees_everything(|| Some(Rule::nth(2, Effect::CutBefore).of(OPEN)));
}
