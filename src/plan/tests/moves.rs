//! A changed place is a move: created there, then deleted here; with a static address the other way
//! round.

use crate::plan::fixture::{World, key, seen, wanted};

fn two() -> World {
    World::of(&["h1", "h2"])
}

#[test]
fn the_old_machine_goes_when_the_new_one_runs() {
    let world = two().wants(wanted("p1").on("h2")).wants(wanted("p2")).has(seen("p1")).has(seen("p2"));
    assert_eq!(
        world.story(),
        ["delete t/p1 on lab/h1 after create t/p1 on lab/h2", "create t/p1 on lab/h2", "t/p2 unchanged"]
    );
    let made = world.has(seen("p1").on("h2"));
    assert_eq!(made.story(), ["delete t/p1 on lab/h1", "t/p1 unchanged", "t/p2 unchanged"]);
}

#[test]
fn with_a_static_address_the_old_machine_goes_first() {
    let world = two()
        .wants(wanted("p1").on("h2").at("192.0.2.17/24"))
        .wants(wanted("p2"))
        .has(seen("p1").at("192.0.2.17/24"))
        .has(seen("p2"));
    assert_eq!(
        world.story(),
        ["delete t/p1 on lab/h1", "create t/p1 on lab/h2 after delete t/p1 on lab/h1", "t/p2 unchanged"]
    );
}

#[test]
fn with_a_static_address_nothing_goes_that_cannot_be_made_again() {
    let world = || {
        two()
            .wants(wanted("p1").on("h2").at("192.0.2.17/24"))
            .wants(wanted("p2"))
            .has(seen("p1").at("192.0.2.17/24"))
            .has(seen("p2"))
    };
    for (what, world) in [
        ("the new host is unknown", world().unknown("h2")),
        ("its pool is stopped", world().seeing("h2", |view| view.store.active = false)),
        ("its pool is full", world().seeing("h2", |view| view.store.available = 0)),
        ("it takes no more machines", world().configured("h2", |host| host.max_instances = Some(0))),
        ("it is retired", world().configured("h2", |host| host.retired = true)),
        (
            "the name is taken there",
            world().seeing("h2", |view| {
                view.names_taken.insert("egress-p1-h2".to_owned());
            }),
        ),
        ("the manifest cannot be resolved", world().wants(wanted("p1").on("h2").at("192.0.2.17/24").unresolved())),
    ] {
        let plan = world.plan();
        assert!(plan.actions.is_empty(), "{what}: {:?}", plan.actions);
        assert!(
            world.story().contains(&"t/p1 on lab/h1 waits: WaitsForOther".to_owned()),
            "{what}: {:?}",
            world.story()
        );
    }
}

#[test]
fn with_a_static_address_nothing_is_made_while_the_old_machine_stays() {
    let world = |machine| two().wants(wanted("p1").on("h2").at("192.0.2.17/24")).has(machine);
    let old = || seen("p1").at("192.0.2.17/24");
    for (what, world, expected) in [
        ("too young", world(old().minutes_old(1)), "t/p1 on lab/h1 waits: TooYoung"),
        ("protected", world(old().protected()), "t/p1 on lab/h1 kept: Protected"),
        ("paused", world(old().paused()), "t/p1 on lab/h1 blocked: Paused"),
        ("prune is off", world(old()).under(|policy| policy.prune = false), "t/p1 on lab/h1 kept: PruneDisabled"),
    ] {
        assert_eq!(world.story(), [expected, "t/p1 on lab/h2 waits: WaitsForOther"], "{what}");
    }
}

#[test]
fn a_move_waits_while_its_new_host_is_unknown() {
    let world = two().wants(wanted("p1").on("h2")).has(seen("p1")).unknown("h2");
    assert_eq!(world.story(), ["t/p1 on lab/h1 waits: WaitsForOther", "t/p1 on lab/h2 waits: HostUnknown"]);
}

#[test]
fn a_successor_that_does_not_run_is_none() {
    let world = |new| two().wants(wanted("p1").on("h2")).wants(wanted("p2")).has(seen("p2")).has(seen("p1")).has(new);
    let new = || seen("p1").on("h2");
    assert_eq!(
        world(new().paused()).story(),
        ["t/p1 on lab/h1 waits: WaitsForOther", "t/p1 on lab/h2 blocked: Paused", "t/p2 unchanged"]
    );
    assert_eq!(
        world(new().off()).story(),
        ["delete t/p1 on lab/h1 after start t/p1 on lab/h2", "start t/p1 on lab/h2", "t/p2 unchanged"]
    );
    assert_eq!(
        world(new().with_user_data("old")).story(),
        ["delete t/p1 on lab/h1 after replace t/p1 on lab/h2", "replace t/p1 on lab/h2", "t/p2 unchanged"]
    );
}

#[test]
fn a_protected_machine_stays_where_it_is_when_its_manifest_moves() {
    let world = two().wants(wanted("p1").on("h2")).has(seen("p1").protected());
    assert_eq!(world.story(), ["create t/p1 on lab/h2", "t/p1 on lab/h1 kept: Protected"]);
    let world = two().wants(wanted("p1").on("h2").protected()).has(seen("p1"));
    assert_eq!(world.story(), ["create t/p1 on lab/h2", "t/p1 on lab/h1 kept: Protected"]);
}

#[test]
fn a_static_address_of_an_unwanted_machine_is_free_when_that_one_is_gone() {
    let world =
        two().wants(wanted("p2").on("h2").at("192.0.2.17/24")).has(seen("p1").at("192.0.2.17/24")).has(seen("p2"));
    // Half of what is present may go; the other half is p2's former machine.
    let world = world.under(|policy| policy.max_deletions = crate::plan::Bound::Count(2));
    assert_eq!(
        world.story(),
        [
            "delete t/p1 on lab/h1",
            "delete t/p2 on lab/h1",
            "create t/p2 on lab/h2 after delete t/p1 on lab/h1 and delete t/p2 on lab/h1"
        ]
    );
}

#[test]
fn a_static_address_that_another_proxy_still_has_is_waited_for() {
    let world = two()
        .wants(wanted("p1").at("192.0.2.18/24"))
        .wants(wanted("p2").on("h2").at("192.0.2.17/24"))
        .has(seen("p1").at("192.0.2.17/24"));
    assert_eq!(world.story(), ["replace t/p1 on lab/h1", "t/p2 on lab/h2 waits: WaitsForOther"]);
    let held = world.plan().held.remove(0);
    assert!(held.message.contains("192.0.2.17 is in use by t/p1 on lab/h1"), "{}", held.message);
}

#[test]
fn one_entry_name_or_a_move_changes_no_digest() {
    // R33: a manifest that moves between files gives the same key and spec, so there is nothing to do.
    let world = two().wants(wanted("p1")).has(seen("p1"));
    let mut elsewhere = world.clone();
    elsewhere.desired.proxies.get_mut(&key("p1")).expect("wanted").origin = "other.yaml:9".to_owned();
    assert_eq!(world.plan(), elsewhere.plan());
}
