//! Guards refuse a plan as a whole.

use crate::plan::change::Guard;
use crate::plan::fixture::{World, host, key, seen, wanted};

fn fleet(present: usize, wanted_too: usize) -> World {
    let mut world = World::of(&["h1"]);
    for index in 0..present {
        world = world.has(seen(&format!("p{index:03}")));
        if index < wanted_too {
            world = world.wants(wanted(&format!("p{index:03}")));
        }
    }
    world
}

fn guards(world: &World) -> Vec<Guard> {
    world.plan().refusals.iter().map(|refusal| refusal.guard).collect()
}

#[test]
fn c24_r29_no_manifests_at_all_delete_nothing_unless_it_is_meant() {
    let world = fleet(1, 0).under(|policy| policy.max_deletions = crate::plan::Bound::Count(9));
    assert_eq!(guards(&world), [Guard::EmptySet]);
    assert_eq!(guards(&world.clone().under(|policy| policy.allow_empty = true)), []);
    assert_eq!(guards(&World::of(&["h1"])), [], "nothing wanted and nothing there is nothing to refuse");
}

#[test]
fn r29_a_partial_list_deletes_nothing_even_when_an_empty_one_may() {
    let mut world = fleet(10, 9).under(|policy| policy.allow_empty = true);
    world.desired.complete = false;
    assert_eq!(guards(&world), [Guard::EmptySet]);
    let mut world = fleet(10, 10);
    world.desired.complete = false;
    assert_eq!(guards(&world), [], "without deletions a partial list is good enough");
}

#[test]
fn r30_more_deletions_than_allowed_are_refused() {
    // (present, of these wanted, maxDeletions, refused)
    for (present, kept, bound, refused) in [
        (10, 8, "20%", false),
        (10, 5, "20%", false), // five are always allowed by a percentage
        (10, 4, "20%", true),
        (100, 80, "20%", false),
        (100, 79, "20%", true),
        (2, 1, "20%", false), // half of what is present
        (3, 1, "20%", true),
        (1, 0, "20%", true),
        (10, 9, "0", true),
        (10, 9, "1", false),
        (10, 8, "1", true),
        (4, 2, "0%", false),
        (4, 1, "100%", false),
    ] {
        let world = fleet(present, kept).under(|policy| {
            policy.max_deletions = bound.parse().expect("a bound");
            policy.allow_empty = true;
        });
        let expected: &[Guard] = if refused { &[Guard::MaxDeletions] } else { &[] };
        assert_eq!(guards(&world), expected, "{kept} of {present} stay, maxDeletions {bound}");
    }
}

#[test]
fn a_percentage_is_of_the_larger_of_desired_and_present() {
    let mut world = fleet(20, 10);
    assert_eq!(guards(&world), [Guard::MaxDeletions]);
    for index in 0..40 {
        world = world.wants(wanted(&format!("new{index:03}")));
    }
    assert_eq!(guards(&world), [], "20 % of 50");
}

#[test]
fn replacements_do_not_count_as_deletions() {
    let mut world = World::of(&["h1"]).under(|policy| policy.max_deletions = crate::plan::Bound::Count(0));
    for index in 0..9 {
        let name = format!("p{index}");
        world = world.wants(wanted(&name).with_user_data("new")).has(seen(&name));
    }
    assert_eq!(guards(&world), []);
}

#[test]
fn an_approved_destroy_is_exempt_and_protect_never_is() {
    let world = fleet(20, 0).has(seen("keep").protected()).under(|policy| policy.destroy = true);
    assert_eq!(guards(&world), []);
    assert_eq!(world.plan().counts().delete, 20);
    assert!(world.story().contains(&"t/keep on lab/h1 kept: Protected".to_owned()));
}

#[test]
fn destroy_takes_paused_and_young_machines_too() {
    let world = World::of(&["h1"])
        .has(seen("p1").paused())
        .has(seen("p2").minutes_old(0))
        .under(|policy| policy.destroy = true);
    assert_eq!(world.story(), ["delete t/p1 on lab/h1", "delete t/p2 on lab/h1"]);
}

fn renamed(shared: &[&str]) -> World {
    World::of(&["h1"]).wants(wanted("p1")).wants(wanted("p2")).wants(wanted("p3")).wants(wanted("p4")).seeing(
        "h1",
        |view| {
            view.other_fleets.insert("former".to_owned(), shared.iter().map(|name| key(name)).collect());
        },
    )
}

#[test]
fn a_fleet_that_seems_renamed_is_asked_about() {
    assert_eq!(guards(&renamed(&["p1", "p2"])), [Guard::FleetRenamed]);
    assert_eq!(guards(&renamed(&["p1", "x", "y", "z"])), []);
    assert_eq!(guards(&renamed(&["p1", "p2"]).under(|policy| policy.new_fleet = true)), []);
    assert_eq!(guards(&renamed(&["p1", "p2"]).has(seen("p3"))), [], "the fleet is there already");
    let stranger = renamed(&["p1", "p2"]).seeing("h1", |view| {
        view.strangers.insert(("lab/old".to_owned(), "egress-p1-old".to_owned()));
    });
    assert_eq!(guards(&stranger), [], "it is there under a host name that the config lost");
}

#[test]
fn a_fleet_that_vanished_is_not_rebuilt_blindly() {
    let world = |there: usize| {
        let names = (0..4).map(|index| format!("egress-p{index:03}-h1")).collect();
        fleet(there, there).under(|policy| {
            policy.previously.insert(host("h1"), names);
            policy.guard_vanished = true;
        })
    };
    assert_eq!(guards(&world(2)), [], "half is not more than half");
    assert_eq!(guards(&world(1)), [Guard::Vanished]);
    assert_eq!(guards(&world(1).under(|policy| policy.guard_vanished = false)), [], "nobody asked for it");
    assert_eq!(guards(&world(0).unknown("h1")), [], "what cannot be seen has not vanished");
    let unmarked = world(1).seeing("h1", |view| {
        view.names_taken.insert("egress-p001-h1".to_owned());
    });
    assert_eq!(guards(&unmarked), [], "a machine that lost its mark is there");
}

#[test]
fn a_refused_plan_is_whole_and_says_how_it_may_be_meant() {
    let plan = fleet(10, 4).plan();
    assert_eq!(plan.counts().delete, 6);
    assert_eq!(plan.refusals[0].message, "6 of 10 machines would be deleted, and maxDeletions (20%) allows 5.");
    assert_eq!(plan.refusals[0].hint, "if that is meant, pass --max-deletions 6");
}
