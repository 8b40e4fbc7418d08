//! Saved plans: read back whole, carried out only as far as they still stand.

use crate::plan::change::{ActionId, Plan};
use crate::plan::fixture::{World, seen, wanted};
use crate::plan::saved::{ReadError, read, still_stands};

fn busy() -> World {
    World::of(&["h1", "h2"])
        .wants(wanted("new").with_image("alpine"))
        .wants(wanted("changed").with_user_data("new"))
        .wants(wanted("stopped"))
        .wants(wanted("moved").on("h2"))
        .wants(wanted("ported").on_port(8080))
        .has(seen("changed"))
        .has(seen("stopped").off())
        .has(seen("moved"))
        .has(seen("ported"))
        .has(seen("young").minutes_old(1))
        .has(seen("copied").blocked(crate::plan::Reason::CopiedMark))
        .has(seen("old"))
}

fn stale(saved: &Plan, fresh: Plan) -> Vec<String> {
    still_stands(saved, fresh).expect_err("stale").stale
}

#[test]
fn a_plan_reads_back_as_it_was_written() {
    let plan = busy().unknown("h2").plan();
    let text = serde_json::to_string(&plan).expect("serialises");
    assert_eq!(read(&text).expect("a plan"), plan);
}

#[test]
fn what_is_no_plan_of_this_version_is_refused() {
    for (text, format) in [("", false), ("{}", false), ("[]", false), (r#"{"format":"egress-plan.dev/plan/v9"}"#, true)]
    {
        let error = read(text).expect_err(text);
        assert_eq!(matches!(error, ReadError::Format { .. }), format, "{text}: {error}");
    }
    let mut value = serde_json::to_value(busy().plan()).expect("serialises");
    value["surprise"] = true.into();
    assert!(matches!(read(&value.to_string()), Err(ReadError::Json { .. })), "an unknown field is refused");
}

#[test]
fn a_plan_that_still_stands_is_carried_out_as_it_is() {
    let plan = busy().plan();
    assert!(plan.actions.len() > 5 && !plan.images.is_empty());
    assert_eq!(still_stands(&plan, plan.clone()), Ok(plan));
}

#[test]
fn r37_what_came_since_is_left_alone_and_makes_nothing_stale() {
    let saved = busy().plan();
    let fresh = busy().wants(wanted("later").on("h2").with_image("fedora")).plan();
    let reduced = still_stands(&saved, fresh).expect("stands");
    assert_eq!((&reduced.actions, &reduced.images), (&saved.actions, &saved.images));
    assert_eq!(reduced.notes, ["left for another run, since the saved plan does not hold them: 1 change"]);
}

#[test]
fn what_no_longer_stands_is_named() {
    let saved = busy().plan();
    let started = busy().seeing("h1", |view| {
        for instance in &mut view.instances {
            instance.power = crate::plan::Power::Running;
        }
    });
    assert_eq!(stale(&saved, started.plan()), ["start t/stopped on lab/h1 (egress-stopped-h1) no longer stands"]);
    let remade = busy().seeing("h1", |view| {
        for instance in view.instances.iter_mut().filter(|instance| instance.name == "egress-changed-h1") {
            "another".clone_into(&mut instance.uuid);
        }
    });
    assert_eq!(
        stale(&saved, remade.plan()),
        ["replace t/changed on lab/h1 (egress-changed-h1) is not the same any more"]
    );
    let edited = busy().wants(wanted("new").with_image("alpine").with_user_data("edited"));
    assert_eq!(stale(&saved, edited.plan()), ["create t/new on lab/h1 (egress-new-h1) is not the same any more"]);
}

#[test]
fn a_plan_of_another_fleet_or_of_recorded_hosts_is_stale() {
    let saved = busy().plan();
    let mut fresh = saved.clone();
    fresh.fleet = "other".parse().expect("a name");
    assert_eq!(stale(&saved, fresh), ["it is for fleet fleet, not other"]);
    let mut fresh = saved.clone();
    fresh.recorded = false;
    assert_eq!(stale(&saved, fresh).len(), 1);
}

#[test]
fn a_file_from_which_half_a_move_was_cut_is_stale() {
    let fresh = busy().plan();
    let mut saved = fresh.clone();
    saved.actions.retain(|action| action.id != ActionId("create t/moved on lab/h2".to_owned()));
    assert_eq!(
        stale(&saved, fresh),
        ["delete t/moved on lab/h1 waits for create t/moved on lab/h2, which the file does not hold"]
    );
}

#[test]
fn a_file_that_only_frees_a_static_address_is_stale() {
    let world = World::of(&["h1", "h2"])
        .wants(wanted("p1").on("h2").at("192.0.2.17/24"))
        .wants(wanted("p2"))
        .has(seen("p1").at("192.0.2.17/24"))
        .has(seen("p2"));
    let mut saved = world.plan();
    saved.actions.retain(|action| action.id.0.starts_with("delete"));
    assert_eq!(
        stale(&saved, world.plan()),
        ["delete t/p1 on lab/h1 is followed by create t/p1 on lab/h2, which the file does not hold"]
    );
}

#[test]
fn the_guards_are_applied_again() {
    let saved = busy().plan();
    assert!(saved.refusals.is_empty());
    let fresh = busy().under(|policy| policy.max_deletions = crate::plan::Bound::Count(0)).plan();
    assert_eq!(still_stands(&saved, fresh).expect("stands").refusals.len(), 1);
}
