//! Unknown is not absent.

use crate::plan::fixture::{World, host, seen, wanted};
use crate::plan::observed::{HostState, Instance, LockHolder, Observed, Standing};
use crate::plan::reason::Reason;

#[test]
fn l13_r27_nothing_is_planned_on_an_unknown_host_and_work_goes_on_elsewhere() {
    let world = World::of(&["h1", "h2"]).wants(wanted("p1")).wants(wanted("p2").on("h2")).unknown("h1");
    assert_eq!(world.story(), ["create t/p2 on lab/h2", "t/p1 on lab/h1 waits: HostUnknown"]);
    assert!(world.plan().is_incomplete());
}

#[test]
fn r28_one_of_many_hosts_down_holds_only_its_own_proxies() {
    let names: Vec<String> = (0..50).map(|index| format!("h{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::of(&names).unknown("h7");
    for name in &names {
        world = world.wants(wanted(&format!("p-{name}")).on(name));
    }
    let plan = world.plan();
    assert_eq!((plan.actions.len(), plan.held.len()), (49, 1));
}

#[test]
fn a_static_address_waits_while_any_host_that_may_hold_it_is_unknown() {
    let world = World::of(&["h1", "h2"]).wants(wanted("p1").at("192.0.2.17/24")).unknown("h2");
    assert_eq!(world.story(), ["t/p1 on lab/h1 waits: HostUnknown"]);
    let there = world.has(seen("p1").at("192.0.2.17/24").with_user_data("old"));
    assert_eq!(there.story(), ["replace t/p1 on lab/h1"], "the address is known to be here");
    let other = World::of(&["h1", "h2"]).wants(wanted("p1").at("192.0.2.17/24")).has(seen("p1")).unknown("h2");
    assert_eq!(other.story(), ["t/p1 on lab/h1 waits: HostUnknown"], "it would get an address that it never had");
}

#[test]
fn a_host_that_was_not_looked_at_is_unknown() {
    let mut world = World::of(&["h1", "h2"]).wants(wanted("p1").at("192.0.2.17/24")).wants(wanted("p2").on("h2"));
    world.observed.hosts.remove(&host("h2"));
    assert_eq!(world.story(), ["t/p1 on lab/h1 waits: HostUnknown", "t/p2 on lab/h2 waits: HostUnknown"]);
}

#[test]
fn l48_two_hosts_that_are_one_store_are_both_unknown() {
    let store = |world: World, name: &str, identity: &str| {
        world.seeing(name, |view| view.store.identity = Some(identity.to_owned()))
    };
    let world = World::of(&["h1", "h2", "h3"]);
    let mut world = store(store(store(world, "h1", "same"), "h2", "same"), "h3", "other");
    world.observed.refuse_shared_stores();
    let unknown = |observed: &Observed| -> Vec<String> {
        observed
            .hosts
            .iter()
            .filter(
                |(_, state)| matches!(state, HostState::Unknown(trouble) if trouble.reason == Reason::DuplicateHost),
            )
            .map(|(place, _)| place.to_string())
            .collect()
    };
    assert_eq!(unknown(&world.observed), ["lab/h1", "lab/h2"]);
}

#[test]
fn l48_a_machine_is_judged_where_its_mark_says_when_two_hosts_are_one_daemon() {
    for (there, told) in
        [(seen("p1"), "t/p1 unchanged"), (seen("p1").blocked(Reason::CopiedMark), "t/p1 on lab/h1 blocked: CopiedMark")]
    {
        let mut world = World::of(&["h1", "h2"]).has(there);
        if told.ends_with("unchanged") {
            world = world.wants(wanted("p1"));
        }
        let HostState::Known(view) = &world.observed.hosts[&host("h1")] else { panic!("h1 is known") };
        let message = "its mark names lab/h1, and it is here".to_owned();
        let standing = Standing::Blocked { key: None, reason: Reason::Misplaced, message };
        let elsewhere = Instance { standing, ..view.instances[0].clone() };
        let mut world = world.seeing("h2", |view| view.instances.push(elsewhere));
        world.observed.settle_neighbours();
        assert_eq!(world.story(), [told]);
    }
}

#[test]
fn l48_a_machine_that_another_run_makes_between_two_looks_at_one_daemon_is_not_misplaced() {
    for (lock, story) in [
        (Some(LockHolder { run: "r7".to_owned(), until: None, removal: None }), vec![]),
        (None, vec!["t/p1 on lab/h2 blocked: Misplaced"]),
    ] {
        // The look at h1, where it is to be, came before it was there.
        let mut world = World::of(&["h1", "h2"]).has(seen("p1").on("h2").blocked(Reason::Misplaced));
        world = world.seeing("h2", |view| view.lock = lock.clone());
        world.observed.settle_neighbours();
        assert_eq!(world.story(), story);
    }
}
