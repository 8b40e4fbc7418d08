//! The schedule, driven by hand: no host, no clock, no runtime.

use jiff::Timestamp;

use super::*;
use crate::plan::{Expect, ImageNeed, Make};

const LIMITS: Limits = Limits { hosts: 16, per_host: 2, downloads: 2, unavailable: 1 };

fn make() -> Make {
    Make {
        spec: "s".to_owned(),
        catalogue: "c".to_owned(),
        image: ImageNeed { key: "img".to_owned(), id: "0".repeat(32) },
        disk_bytes: 1,
    }
}

fn expect() -> Expect {
    Expect { uuid: "u".to_owned(), spec: "s".to_owned(), catalogue: "c".to_owned(), protect: false, source: None }
}

fn action(verb: &str, name: &str, host: &str, after: &[&str]) -> Action {
    let kind = match verb {
        "create" => ActionKind::Create { make: make() },
        "replace" | "finish" => ActionKind::Replace {
            expect: expect(),
            removes: Vec::new(),
            make: make(),
            forced: false,
            unfinished: verb == "finish",
        },
        _ => ActionKind::Delete { expect: expect(), removes: Vec::new(), forced: false },
    };
    Action {
        id: ActionId(format!("{verb} {name} {host}")),
        place: format!("lab/{host}").parse().unwrap(),
        key: format!("t/{name}").parse().unwrap(),
        instance: format!("egress-{name}-{host}"),
        kind,
        why: "because".to_owned(),
        details: Vec::new(),
        after: after.iter().map(|id| ActionId((*id).to_owned())).collect(),
    }
}

fn plan(actions: Vec<Action>) -> Plan {
    Plan {
        format: Plan::FORMAT.to_owned(),
        fleet: "f".parse().unwrap(),
        made_at: Timestamp::UNIX_EPOCH,
        recorded: false,
        hosts: BTreeMap::new(),
        images: Vec::new(),
        actions,
        held: Vec::new(),
        unchanged: Vec::new(),
        notes: Vec::new(),
        refusals: Vec::new(),
    }
}

fn ended(result: StepResult, class: Option<Class>) -> Ended {
    let outcome = ActionOutcome { result, ..ActionOutcome::skipped(Reason::TransientError, "text") };
    Ended { outcome, class, ready: true }
}

fn done() -> Ended {
    ended(StepResult::Done, None)
}

fn failed() -> Ended {
    ended(StepResult::Failed, Some(Class::Transient))
}

/// Runs a plan to its end, each action ending as `end` says, and returns what began, in order, and what
/// came of everything.
fn run(plan: &Plan, limits: Limits, end: impl Fn(&Action) -> Ended) -> (Vec<String>, BTreeMap<String, ActionOutcome>) {
    let mut schedule = Schedule::new(plan, limits);
    let mut began = Vec::new();
    for phase in Phase::ALL {
        let mut running: Vec<&Action> = Vec::new();
        loop {
            for action in schedule.next(phase) {
                began.push(action.id.0.clone());
                running.push(action);
            }
            let Some(action) = running.pop() else { break };
            schedule.finished(&action.id, end(action));
        }
    }
    (began, schedule.into_outcomes())
}

#[test]
fn what_is_missing_comes_first_and_what_goes_comes_last() {
    let plan = plan(vec![
        action("delete", "a", "h1", &[]),
        action("replace", "b", "h1", &[]),
        action("create", "c", "h1", &[]),
    ]);
    assert_eq!(run(&plan, LIMITS, |_| done()).0, ["create c h1", "replace b h1", "delete a h1"]);
}

#[test]
fn a_failed_create_keeps_the_orphans_of_its_host_and_of_no_other() {
    let actions =
        vec![action("create", "c", "h1", &[]), action("delete", "a", "h1", &[]), action("delete", "b", "h2", &[])];
    let end = |action: &Action| if action.kind.make().is_some() { failed() } else { done() };
    assert_eq!(run(&plan(actions), LIMITS, end).0, ["create c h1", "delete b h2"]);
}

#[test]
fn too_little_space_holds_no_deletion_back_and_stops_no_host() {
    let mut actions: Vec<Action> = ["a", "b", "c", "d"].iter().map(|name| action("create", name, "h1", &[])).collect();
    actions.push(action("delete", "o", "h1", &[]));
    let end = |action: &Action| {
        if action.kind.make().is_some() { ended(StepResult::Failed, Some(Class::Quota)) } else { done() }
    };
    let (began, outcomes) = run(&plan(actions), LIMITS, end);
    assert_eq!(began.len(), 5, "{began:?}");
    assert_eq!(outcomes["delete o h1"].result, StepResult::Done);
}

#[test]
fn three_failures_in_a_row_stop_a_host_and_no_other() {
    let actions = (0..5)
        .flat_map(|n| [action("create", &format!("p{n}"), "h1", &[]), action("create", &format!("q{n}"), "h2", &[])])
        .collect();
    let one = Limits { per_host: 1, ..LIMITS };
    let end = |action: &Action| if action.place.to_string() == "lab/h1" { failed() } else { done() };
    let (began, _) = run(&plan(actions), one, end);
    assert_eq!(began.iter().filter(|id| id.ends_with("h1")).count(), 3);
    assert_eq!(began.iter().filter(|id| id.ends_with("h2")).count(), 5);
}

#[test]
fn replacements_stop_at_the_first_that_fails_and_at_the_first_that_is_not_ready() {
    for ready in [true, false] {
        let actions = (0..4).map(|n| action("replace", &format!("p{n}"), "h1", &[])).collect();
        let (began, outcomes) =
            run(&plan(actions), LIMITS, |_| if ready { failed() } else { Ended { ready, ..done() } });
        assert_eq!(began.len(), 1);
        assert_eq!(outcomes.values().filter(|outcome| outcome.result == StepResult::Skipped).count(), 3);
    }
}

#[test]
fn no_machine_is_replaced_where_none_may_be_unavailable() {
    let none = Limits { unavailable: 0, ..LIMITS };
    let (began, outcomes) = run(&plan(vec![action("replace", "p", "h1", &[])]), none, |_| done());
    assert!(began.is_empty());
    assert_eq!(outcomes["replace p h1"].reason, Some(Reason::MaxUnavailable));
}

/// Machines with static addresses that move from h1 to h2: each goes there before it is made here.
fn moves(count: usize) -> Vec<Action> {
    (0..count)
        .flat_map(|n| {
            let name = format!("p{n}");
            let before = format!("delete {name} h1");
            [action("delete", &name, "h1", &[]), action("create", &name, "h2", &[&before])]
        })
        .collect()
}

#[test]
fn a_move_with_a_static_address_takes_one_machine_out_at_a_time_and_stops_at_the_first_that_fails() {
    let end = |action: &Action| if action.kind.make().is_some() { failed() } else { done() };
    let (began, _) = run(&plan(moves(8)), LIMITS, end);
    assert_eq!(began, ["delete p0 h1", "create p0 h2"]);
    let (began, outcomes) = run(&plan(moves(3)), LIMITS, |_| done());
    assert_eq!(began.len(), 6);
    assert!(began.chunks(2).all(|pair| pair[0].starts_with("delete") && pair[1].starts_with("create")), "{began:?}");
    assert!(outcomes.values().all(|outcome| outcome.result == StepResult::Done));
}

#[test]
fn a_machine_never_goes_for_a_successor_whose_image_could_not_be_brought() {
    let plan = plan(moves(2));
    let mut schedule = Schedule::new(&plan, LIMITS);
    for action in plan.actions.iter().filter(|action| action.kind.make().is_some()) {
        schedule.without_image(action, "404".to_owned(), Some(Class::Permanent));
    }
    for phase in Phase::ALL {
        assert!(schedule.next(phase).is_empty());
    }
    assert!(schedule.into_outcomes().values().all(|outcome| outcome.result == StepResult::Skipped));
}

#[test]
fn a_machine_that_moves_stays_until_its_successor_is_ready() {
    let actions = vec![action("create", "p", "h2", &[]), action("delete", "p", "h1", &["create p h2"])];
    let plan = plan(actions);
    let (began, _) = run(&plan, LIMITS, |action| Ended { ready: action.kind.make().is_none(), ..done() });
    assert_eq!(began, ["create p h2"]);
    let (began, _) = run(&plan, LIMITS, |_| done());
    assert_eq!(began, ["create p h2", "delete p h1"]);
}

#[test]
fn l43_r35_no_limit_is_ever_exceeded() {
    use proptest::prelude::*;
    let strategy = (
        proptest::collection::vec((0_usize..3, 0_usize..4), 1..24),
        (1_usize..4, 1_usize..4, 1_usize..4),
        proptest::collection::vec(0_usize..8, 64),
    );
    proptest!(ProptestConfig::with_cases(128), |((verbs, (hosts, per_host, unavailable), order) in strategy)| {
        let actions: Vec<Action> = verbs
            .iter()
            .enumerate()
            .map(|(n, (verb, host))| action(["create", "replace", "delete"][*verb], &format!("p{n}"), &format!("h{host}"), &[]))
            .collect();
        let plan = plan(actions);
        let mut schedule = Schedule::new(&plan, Limits { hosts, per_host, downloads: 1, unavailable });
        let mut order = order.into_iter().cycle();
        for phase in Phase::ALL {
            let mut running: Vec<&Action> = Vec::new();
            loop {
                running.extend(schedule.next(phase));
                let mut by_host: BTreeMap<&HostRef, usize> = BTreeMap::new();
                for action in &running {
                    *by_host.entry(&action.place).or_default() += 1;
                }
                prop_assert!(by_host.len() <= hosts);
                prop_assert!(by_host.values().all(|count| *count <= per_host));
                let replacing = running.iter().filter(|action| action.kind.verb() == "replace").count();
                prop_assert!(replacing <= unavailable);
                if running.is_empty() {
                    break;
                }
                let next = order.next().unwrap_or(0) % running.len();
                let action = running.swap_remove(next);
                schedule.finished(&action.id, done());
            }
        }
        prop_assert!(schedule.into_outcomes().values().all(|outcome| outcome.result == StepResult::Done));
    });
}

#[test]
fn l32_machines_that_never_served_are_finished_at_once_and_hold_no_roll_out_back() {
    let actions = ["finish", "finish", "replace", "replace"];
    let names = ["a", "b", "c", "d"];
    let plan = plan(actions.iter().zip(names).map(|(verb, name)| action(verb, name, name, &[])).collect());
    let mut schedule = Schedule::new(&plan, LIMITS);
    let begun: Vec<&str> = schedule.next(Phase::Replace).iter().map(|action| action.id.0.as_str()).collect();
    assert_eq!(begun, ["finish a a", "finish b b", "replace c c"]);
    let (_, outcomes) = run(&plan, LIMITS, |action| if action.id.0.starts_with("finish") { failed() } else { done() });
    let done = |id: &str| outcomes[id].result == StepResult::Done;
    assert!(done("replace c c") && done("replace d d"), "{outcomes:?}");
}
