//! The trials, in the order of a machine's life.

use std::time::Duration;

use egress_plan::plan::{ActionKind, MarkState, Power, Reason};
use egress_plan::provider::{Class, LockAttempt, ProviderError, StepContext};
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, manifest};

/// A trial and its name.
pub type Test = (&'static str, fn(&mut Bench));

/// Every trial.
pub const TRIALS: &[Test] = &[
    ("a_host_is_checked_and_seen_whole", seen),
    ("an_image_is_brought_once", image),
    ("create_makes_a_running_machine_of_ours", create),
    ("create_that_was_done_is_found_done", create_again),
    ("l50_a_machine_that_is_made_again_is_another_one", create_anew),
    ("l50_somebody_elses_running_machine_of_the_wanted_name_is_not_taken_over", squatted),
    ("start_switches_on_and_keeps_the_machine", start),
    ("start_that_was_done_is_found_done", start_again),
    ("update_writes_the_mark_and_nothing_else", update),
    ("replace_leaves_nothing_of_the_former_machine", replace),
    ("r02_replace_that_was_done_is_found_done", replace_again),
    ("l32_replace_makes_a_machine_without_its_disk_anew", replace_lost),
    ("delete_takes_its_files_along_and_no_others", delete),
    ("delete_that_was_done_is_found_done", delete_again),
    ("l16_an_action_on_another_machine_than_planned_does_nothing", changed),
    ("l12_a_paused_machine_is_ended_only_by_name", paused),
    ("l12_a_machine_with_saved_memory_is_ended_only_by_name", saved),
    ("l16_a_machine_that_became_protected_after_the_plan_is_kept", protected),
    ("two_runs_never_hold_one_host", two_runs),
    ("without_the_lock_nothing_is_begun", unlocked),
];

fn class(result: Result<egress_plan::provider::Done, ProviderError>) -> (Class, Reason) {
    let error = result.expect_err("it must not be done");
    (error.class, error.reason)
}

fn seen(bench: &mut Bench) {
    let report = bench.wait(bench.provider().check(bench.host(), Duration::from_secs(15)));
    assert!(report.ready(), "{report:?}");
    bench.lock();
    let view = bench.look();
    assert!(view.instances.is_empty() && view.lock.is_none(), "{view:?}");
    assert!(view.store.active && view.store.capacity > 0, "{view:?}");
    assert!(!view.software.is_empty(), "{view:?}");
    bench.unlock();
}

fn image(bench: &mut Bench) {
    bench.want(&[manifest("p1", 3128, "one")]);
    bench.lock();
    let plan = bench.plan();
    let [image] = plan.images.as_slice() else { panic!("{plan:#?}") };
    let context = StepContext { cancel: CancellationToken::new(), tell: std::sync::Arc::new(|_| ()) };
    let bring = || {
        let done = bench.wait(bench.provider().ensure_image(bench.host(), &image.image, &context));
        done.unwrap_or_else(|error| panic!("{error}")).already
    };
    assert!(!bring());
    assert!(bring());
    assert!(bench.look().image(&image.image).is_some());
    assert_eq!(bench.plan().images, []);
    bench.unlock();
}

fn create(bench: &mut Bench) {
    bench.want(&[manifest("p1", 3128, "one")]);
    bench.lock();
    let action = bench.planned("create");
    let done = bench.done(&action);
    let machine = bench.machine();
    let mark = machine.mark().expect("a mark");
    assert_eq!((done.already, done.uuid.as_deref()), (false, Some(machine.uuid.as_str())));
    assert_eq!((machine.name.as_str(), &machine.power), (action.instance.as_str(), &Power::Running));
    assert_eq!((mark.state, mark.port, &mark.proxy), (MarkState::Ready, 3128, &action.key));
    assert!(mark.started_at.is_some() && machine.missing_disks.is_empty(), "{machine:?}");
    assert!(!machine.removes.is_empty());
    bench.settled();
    bench.unlock();
}

fn create_again(bench: &mut Bench) {
    bench.want(&[manifest("p1", 3128, "one")]);
    bench.lock();
    let action = bench.planned("create");
    let first = bench.done(&action);
    let again = bench.done(&action);
    assert!(again.already);
    assert_eq!(again.uuid, first.uuid);
    bench.machine();
    bench.unlock();
}

fn create_anew(bench: &mut Bench) {
    let one = manifest("p1", 3128, "one");
    let first = bench.with_machine(one.clone());
    let files = bench.files(&first.name);
    bench.want(&[]);
    bench.done(&bench.planned("delete"));
    bench.want(&[one]);
    bench.done(&bench.planned("create"));
    let second = bench.machine();
    assert_eq!(second.name, first.name);
    assert_ne!(second.uuid, first.uuid);
    let now = bench.files(&second.name);
    assert!(now.len() == files.len() && now.iter().all(|file| !files.contains(file)), "{files:?} then {now:?}");
    bench.settled();
    bench.unlock();
}

fn squatted(bench: &mut Bench) {
    bench.want(&[manifest("p1", 3128, "one")]);
    bench.lock();
    let action = bench.planned("create");
    let name = &action.instance;
    bench.squat(name);
    let before = bench.told(name);
    assert_eq!(class(bench.act(&action)).0, Class::Changed);
    assert_eq!(bench.told(name), before);
    // Nothing was made beside it, and the next plan leaves it alone.
    assert_eq!(bench.files(name), [""; 0]);
    assert!(bench.look().instances.is_empty());
    let plan = bench.plan();
    assert!(plan.actions.is_empty() && plan.is_incomplete(), "{plan:#?}");
    bench.evict(name);
    bench.unlock();
}

fn start(bench: &mut Bench) {
    let before = bench.with_machine(manifest("p1", 3128, "one"));
    bench.switch_off(&before.name);
    bench.want(&[manifest("p1", 8080, "one")]);
    bench.done(&bench.planned("start"));
    let after = bench.machine();
    assert_eq!((&after.uuid, &after.power), (&before.uuid, &Power::Running));
    assert_eq!(after.mark().expect("a mark").port, 8080);
    bench.settled();
    bench.unlock();
}

fn start_again(bench: &mut Bench) {
    let machine = bench.with_machine(manifest("p1", 3128, "one"));
    bench.switch_off(&machine.name);
    let action = bench.planned("start");
    assert!(!bench.done(&action).already);
    assert!(bench.done(&action).already);
    bench.unlock();
}

fn update(bench: &mut Bench) {
    let before = bench.with_machine(manifest("p1", 3128, "one"));
    bench.want(&[manifest("p1", 8080, "one")]);
    let action = bench.planned("update");
    assert!(!bench.done(&action).already);
    let after = bench.machine();
    let (was, is) = (before.mark().expect("a mark"), after.mark().expect("a mark"));
    assert_eq!(is.port, 8080);
    assert_eq!((&after.uuid, &after.power), (&before.uuid, &Power::Running));
    assert_eq!((&is.spec, &is.created_at, &is.started_at), (&was.spec, &was.created_at, &was.started_at));
    bench.settled();
    bench.unlock();
}

fn replace(bench: &mut Bench) {
    let before = bench.with_machine(manifest("p1", 3128, "one"));
    let files = bench.files(&before.name);
    bench.want(&[manifest("p1", 3128, "two")]);
    let done = bench.done(&bench.planned("replace"));
    let after = bench.machine();
    assert_eq!((&after.name, done.uuid.as_deref()), (&before.name, Some(after.uuid.as_str())));
    assert_ne!(after.uuid, before.uuid);
    assert_eq!(after.power, Power::Running);
    let now = bench.files(&before.name);
    assert!(now.len() == files.len() && now.iter().all(|file| !files.contains(file)), "{files:?} then {now:?}");
    bench.settled();
    bench.unlock();
}

fn replace_again(bench: &mut Bench) {
    bench.with_machine(manifest("p1", 3128, "one"));
    bench.want(&[manifest("p1", 3128, "two")]);
    let action = bench.planned("replace");
    let first = bench.done(&action);
    // As when the answer to its last call was lost: the old machine is gone, and the new one is there.
    let again = bench.done(&action);
    assert_eq!(again.uuid, first.uuid);
    assert_eq!(bench.machine().uuid, first.uuid.expect("a UUID"));
    bench.settled();
    bench.unlock();
}

fn replace_lost(bench: &mut Bench) {
    let before = bench.with_machine(manifest("p1", 3128, "one"));
    bench.switch_off(&before.name);
    let disk = before.removes.iter().find(|file| file.rsplit('.').next() == Some("qcow2")).expect("a disk");
    bench.remove_file(disk);
    assert_eq!(bench.machine().missing_disks, std::slice::from_ref(disk));
    bench.done(&bench.planned("replace"));
    bench.settled();
    bench.unlock();
}

fn delete(bench: &mut Bench) {
    let machine = bench.with_machine(manifest("p1", 3128, "one"));
    let images = bench.look().images;
    assert!(!bench.files(&machine.name).is_empty());
    bench.want(&[]);
    assert!(!bench.done(&bench.planned("delete")).already);
    let view = bench.look();
    let left = view.leftovers.iter().any(|leftover| leftover.name.starts_with(&machine.name));
    assert!(view.instances.is_empty() && !left, "{view:?}");
    assert_eq!(bench.files(&machine.name), [""; 0]);
    assert_eq!(view.images.len(), images.len(), "{view:?}");
    bench.settled();
    bench.unlock();
}

fn delete_again(bench: &mut Bench) {
    bench.with_machine(manifest("p1", 3128, "one"));
    bench.want(&[]);
    let action = bench.planned("delete");
    bench.done(&action);
    assert!(bench.done(&action).already);
    bench.unlock();
}

fn changed(bench: &mut Bench) {
    let before = bench.with_machine(manifest("p1", 3128, "one"));
    let mut plans = Vec::new();
    bench.want(&[manifest("p1", 8080, "one")]);
    plans.push(bench.planned("update"));
    bench.want(&[manifest("p1", 3128, "two")]);
    plans.push(bench.planned("replace"));
    for action in &mut plans {
        let (ActionKind::Update { expect, .. } | ActionKind::Replace { expect, .. }) = &mut action.kind else {
            panic!("{action:?}")
        };
        expect.spec = "0".repeat(64);
        assert_eq!(class(bench.act(action)).0, Class::Changed, "{}", action.id.0);
    }
    bench.want(&[]);
    let mut action = bench.planned("delete");
    let ActionKind::Delete { expect, .. } = &mut action.kind else { panic!("{action:?}") };
    expect.catalogue = "0".repeat(64);
    assert_eq!(class(bench.act(&action)).0, Class::Changed);
    let after = bench.machine();
    assert_eq!((&after.uuid, &after.power, after.mark()), (&before.uuid, &Power::Running, before.mark()));
    bench.unlock();
}

fn paused(bench: &mut Bench) {
    let machine = bench.with_machine(manifest("p1", 3128, "one"));
    bench.want(&[]);
    let mut action = bench.planned("delete");
    bench.pause(&machine.name);
    assert_eq!(class(bench.act(&action)), (Class::Changed, Reason::Paused));
    let still = bench.machine();
    assert!(matches!(still.power, Power::Paused { .. }), "{still:?}");
    assert_eq!(still.mark().map(|mark| mark.state), Some(MarkState::Ready));
    let ActionKind::Delete { forced, .. } = &mut action.kind else { panic!("{action:?}") };
    *forced = true;
    bench.done(&action);
    assert!(bench.look().instances.is_empty());
    bench.unlock();
}

fn saved(bench: &mut Bench) {
    let machine = bench.with_machine(manifest("p1", 3128, "one"));
    bench.want(&[]);
    let mut action = bench.planned("delete");
    bench.save(&machine.name);
    assert_eq!(bench.machine().power, Power::Saved);
    assert_eq!(bench.plan().actions, []);
    assert_eq!(class(bench.act(&action)), (Class::Changed, Reason::ManagedSave));
    assert_eq!(bench.machine().power, Power::Saved);
    let ActionKind::Delete { forced, .. } = &mut action.kind else { panic!("{action:?}") };
    *forced = true;
    bench.done(&action);
    assert!(bench.look().instances.is_empty());
    bench.unlock();
}

fn protected(bench: &mut Bench) {
    let one = manifest("p1", 3128, "one");
    bench.with_machine(one.clone());
    bench.want(&[]);
    let delete = bench.planned("delete");
    bench.want(&[manifest("p1", 3128, "two")]);
    let replace = bench.planned("replace");
    bench.want(&[one.replace("spec:\n", "spec:\n  protect: true\n")]);
    bench.done(&bench.planned("update"));
    let before = bench.machine();
    for action in [&delete, &replace] {
        assert_eq!(class(bench.act(action)), (Class::Changed, Reason::Protected), "{}", action.id.0);
    }
    let after = bench.machine();
    assert_eq!((&after.uuid, &after.power, after.mark()), (&before.uuid, &before.power, before.mark()));
    bench.want(&[one]);
    bench.done(&bench.planned("update"));
    bench.unlock();
}

fn two_runs(bench: &mut Bench) {
    let other = bench.another_run();
    let host = bench.host();
    let attempt = |run: &dyn egress_plan::provider::Provider| {
        bench.wait(run.lock(host)).unwrap_or_else(|trouble| panic!("{trouble:?}"))
    };
    bench.lock();
    let LockAttempt::HeldBy(holder) = attempt(&*other) else { panic!("two runs hold one host") };
    assert!(holder.until.is_some(), "{holder:?}");
    // Whoever only looks sees it as well.
    let seen = bench.wait(other.observe(host, egress_plan::provider::Depth::Plan));
    assert_eq!(seen.expect("a view").lock.map(|lock| lock.run), Some(holder.run));
    bench.wait(bench.provider().renew(host)).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(attempt(&*other), LockAttempt::HeldBy(_)));
    bench.unlock();
    assert_eq!(attempt(&*other), LockAttempt::Acquired);
    assert!(matches!(attempt(bench.provider()), LockAttempt::HeldBy(_)));
    bench.wait(other.unlock(host));
    bench.wait(other.close());
}

fn unlocked(bench: &mut Bench) {
    bench.want(&[manifest("p1", 3128, "one")]);
    bench.lock();
    let action = bench.planned("create");
    bench.done(&action);
    bench.want(&[]);
    let delete = bench.planned("delete");
    bench.unlock();
    assert_eq!(class(bench.act(&delete)).1, Reason::InProgress);
    assert_eq!(bench.machine().power, Power::Running);
}
