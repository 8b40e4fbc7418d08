//! Selection withholds actions and never changes what is desired (L52).

use crate::plan::fixture::{GIB, World, seen, wanted};

fn targeting(world: World, targets: &[&str]) -> World {
    world.under(|policy| {
        policy.selection.targets = targets.iter().map(|text| text.parse().expect("a target")).collect();
    })
}

fn excluding(world: World, text: &str) -> World {
    world.under(|policy| policy.selection.excludes = vec![text.parse().expect("a target")])
}

#[test]
fn l52_what_is_not_selected_is_left_as_it_is() {
    let world = || {
        World::of(&["h1"])
            .wants(wanted("p1"))
            .wants(wanted("p2"))
            .wants(wanted("p3"))
            .has(seen("p3"))
            .has(seen("gone"))
            .has(seen("here"))
            .wants(wanted("here"))
    };
    let all = ["delete t/gone on lab/h1", "create t/p1 on lab/h1", "create t/p2 on lab/h1"];
    assert_eq!(world().story()[..3], all);
    assert_eq!(
        targeting(world(), &["t/p1"]).story(),
        [
            "create t/p1 on lab/h1",
            "t/gone on lab/h1 kept: NotSelected",
            "t/p2 on lab/h1 kept: NotSelected",
            "t/here unchanged",
            "t/p3 unchanged"
        ]
    );
    assert_eq!(targeting(world(), &["t/gone"]).story()[0], "delete t/gone on lab/h1");
    assert_eq!(
        excluding(world(), "t/p1").story()[..3],
        ["create t/p2 on lab/h1", "t/gone on lab/h1 kept: NotSelected", "t/p1 on lab/h1 kept: NotSelected"]
    );
    let labelled = world().under(|policy| policy.selection.labels = Some("name=p2".parse().expect("a selector")));
    assert_eq!(
        labelled.story()[..3],
        ["create t/p2 on lab/h1", "t/gone on lab/h1 kept: NotSelected", "t/p1 on lab/h1 kept: NotSelected"]
    );
}

#[test]
fn l52_leaving_one_out_makes_room_for_no_other() {
    let world = || {
        World::of(&["h1"]).wants(wanted("p1")).wants(wanted("p2")).seeing("h1", |view| view.store.available = 16 * GIB)
    };
    assert_eq!(world().story(), ["create t/p1 on lab/h1", "t/p2 on lab/h1 blocked: QuotaExceeded"]);
    assert_eq!(
        targeting(world(), &["t/p2"]).story(),
        ["t/p1 on lab/h1 kept: NotSelected", "t/p2 on lab/h1 blocked: QuotaExceeded"]
    );
}

#[test]
fn what_waits_for_something_left_out_is_not_done_either() {
    let dhcp =
        || World::of(&["h1", "h2"]).wants(wanted("p1").on("h2")).has(seen("p1")).wants(wanted("p2")).has(seen("p2"));
    assert_eq!(
        targeting(dhcp(), &["lab/h1"]).story(),
        ["t/p1 on lab/h1 waits: WaitsForOther", "t/p1 on lab/h2 kept: NotSelected", "t/p2 unchanged"]
    );
    let fixed = || {
        World::of(&["h1", "h2"])
            .wants(wanted("p1").on("h2").at("192.0.2.17/24"))
            .has(seen("p1").at("192.0.2.17/24"))
            .wants(wanted("p2"))
            .has(seen("p2"))
    };
    assert_eq!(
        targeting(fixed(), &["lab/h2"]).story(),
        ["t/p1 on lab/h1 kept: NotSelected", "t/p1 on lab/h2 waits: WaitsForOther", "t/p2 unchanged"]
    );
    // The old machine alone: it would go, and nothing would take its place.
    assert_eq!(targeting(fixed(), &["lab/h1"]).story()[0], "t/p1 on lab/h1 waits: WaitsForOther");
    assert_eq!(targeting(fixed(), &["t/p1"]).plan().actions.len(), 2);
}

#[test]
fn what_is_left_out_blocks_no_run() {
    let world = || World::of(&["h1"]).wants(wanted("p1")).has(seen("p1").paused()).wants(wanted("p2"));
    assert!(world().plan().is_incomplete());
    let plan = targeting(world(), &["t/p2"]).plan();
    assert!(!plan.is_incomplete(), "{:?}", plan.held);
}

#[test]
fn an_image_for_what_is_left_out_is_not_brought() {
    let world = World::of(&["h1"]).wants(wanted("p1").with_image("alpine")).wants(wanted("p2"));
    assert_eq!(world.plan().images.len(), 1);
    assert_eq!(targeting(world, &["t/p2"]).plan().images.len(), 0);
}

#[test]
fn guards_count_what_is_left_after_selection() {
    let mut world = World::of(&["h1"]);
    for index in 0..9 {
        world = world.has(seen(&format!("p{index}")));
    }
    let world = world.wants(wanted("p9"));
    assert_eq!(world.plan().refusals.len(), 1);
    assert_eq!(targeting(world, &["t/p1"]).plan().refusals, []);
}
