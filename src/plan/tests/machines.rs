//! Which action a machine gets: made, started, made anew, its mark changed, deleted, or nothing.

use crate::plan::change::ActionKind;
use crate::plan::fixture::{World, image, key, seen, wanted};
use crate::plan::observed::{MarkState, Power};
use crate::plan::policy::OnCatalogueChange;

#[test]
fn a_machine_becomes_what_its_manifest_and_its_state_say() {
    let h1 = || World::of(&["h1"]);
    let off = |word: &str| Power::Off(word.to_owned());
    for (what, world, expected) in [
        ("wanted and absent", h1().wants(wanted("p1")), "create t/p1 on lab/h1"),
        ("as wanted", h1().wants(wanted("p1")).has(seen("p1")), "t/p1 unchanged"),
        ("other user-data", h1().wants(wanted("p1").with_user_data("new")).has(seen("p1")), "replace t/p1 on lab/h1"),
        ("another image", h1().wants(wanted("p1")).has(seen("p1").with_image("old")), "replace t/p1 on lab/h1"),
        ("another network", h1().wants(wanted("p1").at("192.0.2.7/24")).has(seen("p1")), "replace t/p1 on lab/h1"),
        ("shut off", h1().wants(wanted("p1")).has(seen("p1").off()), "start t/p1 on lab/h1"),
        ("crashed", h1().wants(wanted("p1")).has(seen("p1").being(off("crashed"))), "start t/p1 on lab/h1"),
        (
            "shutting down is active",
            h1().wants(wanted("p1")).has(seen("p1").being(Power::ShuttingDown)),
            "t/p1 unchanged",
        ),
        (
            "l32 off, and its disk is gone",
            h1().wants(wanted("p1")).has(seen("p1").off().without_its_disk()),
            "replace t/p1 on lab/h1",
        ),
        (
            "off, and the manifest changed",
            h1().wants(wanted("p1").with_user_data("new")).has(seen("p1").off()),
            "replace t/p1 on lab/h1",
        ),
        ("another port", h1().wants(wanted("p1").on_port(8080)).has(seen("p1")), "update t/p1 on lab/h1"),
        ("other labels", h1().wants(wanted("p1").labelled("x")).has(seen("p1")), "update t/p1 on lab/h1"),
        ("protected from now on", h1().wants(wanted("p1").protected()).has(seen("p1")), "update t/p1 on lab/h1"),
        ("not wanted", h1().has(seen("p1")).has(seen("p2")).wants(wanted("p2")), "delete t/p1 on lab/h1"),
        ("an endpoint of somebody else's", h1().wants(wanted("p1").external()), ""),
    ] {
        let story = world.story();
        assert_eq!(story.first().map(String::as_str).unwrap_or_default(), expected, "{what}: {story:?}");
    }
}

#[test]
fn a_proxy_that_became_external_loses_its_machine() {
    let world = World::of(&["h1"]).wants(wanted("p1").external()).wants(wanted("p2")).has(seen("p1")).has(seen("p2"));
    assert_eq!(world.story(), ["delete t/p1 on lab/h1", "t/p2 unchanged"]);
}

#[test]
fn a_replacement_names_what_changed_with_both_digests() {
    let why = World::of(&["h1"]).wants(wanted("p1").with_user_data("new")).has(seen("p1")).why();
    assert!(why.starts_with("user-data changed (") && why.contains(" → "), "{why}");
    let why = World::of(&["h1"]).wants(wanted("p1").at("192.0.2.7/24")).has(seen("p1")).why();
    assert!(why.starts_with("network changed (none → "), "{why}");
}

#[test]
fn a_changed_catalogue_is_noted_or_replaces_as_the_policy_says() {
    let world = World::of(&["h1"]).wants(wanted("p1").of_size("large")).has(seen("p1"));
    assert_eq!(world.story(), ["t/p1 unchanged"]);
    assert!(
        world.plan().notes[0].contains("the config has changed for t/p1: size changed"),
        "{:?}",
        world.plan().notes
    );
    let world = world.under(|policy| policy.on_catalogue_change = OnCatalogueChange::Replace);
    assert_eq!(world.story(), ["replace t/p1 on lab/h1"]);
}

#[test]
fn a_mark_of_an_older_version_replaces_nothing_by_itself() {
    let world = World::of(&["h1"]).wants(wanted("p1").by_version(2)).has(seen("p1").by_version(1));
    assert_eq!(world.story(), ["t/p1 unchanged"]);
    let world = World::of(&["h1"]).wants(wanted("p1").by_version(2).with_user_data("new")).has(seen("p1"));
    assert_eq!(world.story(), ["replace t/p1 on lab/h1"]);
}

#[test]
fn a_mark_of_a_newer_version_is_blocked() {
    let world = World::of(&["h1"]).wants(wanted("p1")).has(seen("p1").by_version(2));
    assert_eq!(world.story(), ["t/p1 on lab/h1 blocked: NewerTool"]);
}

#[test]
fn r02_r34_what_a_dead_run_left_is_finished_off_and_made_again_if_desired() {
    for state in [MarkState::Creating, MarkState::Draining, MarkState::Deleting] {
        let left = || seen("p1").left(state).minutes_old(0);
        let world = World::of(&["h1"]).wants(wanted("p1")).has(left());
        assert_eq!(world.story(), ["replace t/p1 on lab/h1"], "{state:?}");
        let world = World::of(&["h1"]).wants(wanted("p1").protected()).has(left().protected());
        assert_eq!(world.story(), ["replace t/p1 on lab/h1"], "{state:?}: it was never in service");
        let world = World::of(&["h1"]).wants(wanted("p2")).has(seen("p2")).has(left());
        assert_eq!(world.story(), ["delete t/p1 on lab/h1", "t/p2 unchanged"], "{state:?}");
    }
}

#[test]
fn replace_by_name_makes_anew_and_may_act_on_a_paused_machine() {
    let asked = |machine| {
        World::of(&["h1"]).wants(wanted("p1")).has(machine).under(|policy| {
            policy.replace.insert(key("p1"));
        })
    };
    for machine in [seen("p1"), seen("p1").paused(), seen("p1").being(Power::Saved), seen("p1").off()] {
        assert_eq!(asked(machine).story(), ["replace t/p1 on lab/h1"]);
    }
    let half_made = asked(seen("p1").left(MarkState::Creating).paused());
    assert_eq!(half_made.story(), ["replace t/p1 on lab/h1"]);
    for (power, expected) in [
        (Power::InTransition("migration".to_owned()), "t/p1 on lab/h1 waits: InTransition"),
        (Power::Unknown("42".to_owned()), "t/p1 on lab/h1 blocked: StateUnknown"),
    ] {
        assert_eq!(asked(seen("p1").being(power)).story(), [expected]);
    }
}

#[test]
fn a_name_to_replace_that_nothing_bears_is_told_of() {
    let world = World::of(&["h1"]).wants(wanted("p1")).has(seen("p1")).under(|policy| {
        policy.replace.insert(key("typo"));
    });
    assert_eq!(world.story(), ["t/p1 unchanged"]);
    assert!(world.plan().notes[0].starts_with("t/typo is to be replaced"), "{:?}", world.plan().notes);
}

#[test]
fn an_image_that_a_host_lacks_is_brought_there_once() {
    let world = World::of(&["h1", "h2"])
        .wants(wanted("p1").with_image("alpine"))
        .wants(wanted("p2").with_image("alpine"))
        .wants(wanted("p3").on("h2"));
    let plan = world.plan();
    let brought: Vec<String> = plan.images.iter().map(|it| format!("{} to {}", it.image.key, it.place)).collect();
    assert_eq!(brought, ["alpine to lab/h1"]);
    assert!(plan.actions[0].details.iter().any(|line| line.contains("alpine is not on this host")));
}

#[test]
fn r04_a_deletion_names_every_file_that_goes_with_the_machine() {
    let plan = World::of(&["h1"]).wants(wanted("p2")).has(seen("p1")).has(seen("p2")).plan();
    let ActionKind::Delete { removes, .. } = &plan.actions[0].kind else { panic!("{:?}", plan.actions) };
    assert_eq!(*removes, ["egress-p1-h1-seed.iso", "egress-p1-h1.qcow2"]);
    assert_eq!(plan.actions[0].details, ["removes egress-p1-h1-seed.iso, egress-p1-h1.qcow2"]);
}

#[test]
fn after_a_host_got_an_alias_the_older_of_two_machines_of_a_proxy_goes() {
    let world = World::of(&["h1"]).wants(wanted("p1")).has(seen("p1").named_after_a_former_host_name()).has(seen("p1"));
    assert_eq!(world.story(), ["delete t/p1 on lab/h1 (egress-p1-h1-formerly)", "t/p1 unchanged"]);
    let alone = World::of(&["h1"]).wants(wanted("p1")).has(seen("p1").named_after_a_former_host_name());
    assert_eq!(alone.story(), ["t/p1 unchanged"]);
    let unresolved = World::of(&["h1"])
        .wants(wanted("p1").unresolved())
        .has(seen("p1").named_after_a_former_host_name())
        .has(seen("p1"));
    assert_eq!(unresolved.story(), ["t/p1 on lab/h1 blocked: Unresolved"]);
}

#[test]
fn a_replacement_says_how_long_the_machine_ran() {
    let plan =
        World::of(&["h1"]).wants(wanted("p1").with_user_data("new")).has(seen("p1").minutes_old(3 * 24 * 60)).plan();
    assert_eq!(plan.actions[0].details, ["egress-p1-h1, running for 3 days"]);
}

#[test]
fn the_source_of_a_mark_changes_only_when_the_fleet_is_taken_over() {
    // Moving manifests from files into a cluster changes nothing by itself.
    let world = World::of(&["h1"]).of_source("cluster").wants(wanted("p1")).has(seen("p1"));
    assert_eq!(world.story(), ["t/p1 unchanged"]);
    let world = world.under(|policy| policy.take_over = true);
    assert_eq!(world.story(), ["update t/p1 on lab/h1"]);
    let update = &world.plan().actions[0];
    let ActionKind::Update { set, .. } = &update.kind else { panic!("{update:?}") };
    assert_eq!(set.source.as_deref(), Some("cluster"));
}

#[test]
fn what_is_made_says_from_which_image_by_id() {
    let plan = World::of(&["h1"]).wants(wanted("p1")).plan();
    assert_eq!(plan.actions[0].kind.make().map(|make| make.image.clone()), Some(image("debian")));
}
