//! Two runs that meet: of one fleet, of two fleets on one host, on hosts that each locks in another
//! order, with clocks that differ, and one that stood still for too long.
//!
//! One run is held at a call, and the other one runs whole meanwhile. Every call gets its turn, so that
//! every order of the two is tried that whole calls allow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use egress_plan::load::Loaded;
use egress_plan::plan::HostState;
use egress_plan::provider::libvirt::host::recorded::{Called, Effect, Rule, World};
use egress_plan::provider::libvirt::naming::LockName;
use jiff::SignedDuration;
use tokio::sync::Notify;

use crate::ground::{FLEET, Ground, Hosts, Proxy, locks};
use crate::run::{End, Line, look, run, whole};

pub type Trial = (&'static str, fn());

pub const TRIALS: &[Trial] = &[
    ("l19_r36_of_two_runs_of_one_fleet_one_does_the_work_and_one_finds_it_locked_or_done", one_fleet),
    ("l19_r36_two_runs_that_wait_for_each_other_are_both_done_and_one_machine_is_there", both_wait),
    ("l19_two_fleets_on_one_host_do_not_hinder_each_other", two_fleets),
    ("l25_r6_a_prune_by_one_fleet_never_takes_the_image_from_under_a_create_of_another", prune_under_create),
    ("r36_two_runs_that_lock_two_hosts_in_opposite_order_are_both_done", opposite_order),
    ("r36_a_lock_is_judged_by_the_hosts_clock_alone", clocks),
    ("r36_a_run_that_lost_its_lock_begins_nothing_more", fenced),
];

const MACHINE: Proxy = Proxy::new("p", "h1", "blank");
/// One key in two fleets would look like a fleet that was renamed.
const THEIRS: Proxy = Proxy::new("q", "h1", "blank");

/// A fleet that wants one machine, and the host on which nothing is yet.
struct Scene {
    /// Keeps the files of the host.
    ground: Ground,
    wanted: Loaded,
    begin: Vec<World>,
}

impl Scene {
    fn new() -> Self {
        let ground = Ground::new(&["h1"], "0s");
        let wanted = ground.load(FLEET, &[MACHINE]);
        let begin = Hosts::of(&wanted).snapshot();
        Self { ground, wanted, begin }
    }

    /// What a run calls when nobody is in its way.
    fn calls(&self) -> Vec<Called> {
        let hosts = Hosts::from(&self.wanted, &self.begin);
        let mut before = 0;
        hosts.each(|_, world| before = world.calls().len());
        assert_eq!(whole(&Line::apply(), &self.wanted, &hosts).code(), Ok(0));
        let mut calls = Vec::new();
        hosts.each(|_, world| calls.extend_from_slice(&world.calls()[before..]));
        calls
    }

    /// How many calls that are.
    fn last(&self) -> u64 {
        u64::try_from(self.calls().len()).expect("few calls")
    }

    /// Holds an apply of `wanted` at its `nth` call until `other` is done; both ends.
    fn held<T: Send + 'static>(
        &self,
        nth: u64,
        other: impl Fn(&Hosts) -> T + Send + Sync + 'static,
    ) -> (Hosts, End, T) {
        let hosts = Hosts::from(&self.wanted, &self.begin);
        let (inside, came) = (hosts.clone(), Arc::new(Mutex::new(None)));
        let (slot, other) = (Arc::clone(&came), Arc::new(other));
        let point = Arc::new(move || {
            let (inside, other) = (inside.clone(), Arc::clone(&other));
            let result = thread::spawn(move || other(&inside)).join().expect("the other run does not panic");
            *slot.lock().expect("nobody panicked") = Some(result);
        });
        hosts.each(|_, world| world.fail(Rule::nth(nth, Effect::Before(point.clone()))));
        let end = run(&Line::apply(), &self.wanted, std::slice::from_ref(&hosts), &Notify::new());
        hosts.heal();
        let came = came.lock().expect("nobody panicked").take().expect("the other run had its turn");
        (hosts, end, came)
    }
}

/// Nothing is left to do, and each wanted machine is there once.
fn settled(wanted: &Loaded, hosts: &Hosts, context: &str) {
    let (observed, plan) = look(wanted, hosts);
    assert!(!plan.has_changes() && !plan.is_incomplete(), "{context}: {plan:#?}");
    let machines: usize = observed
        .hosts
        .values()
        .map(|state| match state {
            HostState::Known(view) => view.instances.len(),
            HostState::Unknown(trouble) => panic!("{context}: {trouble:?}"),
        })
        .sum();
    assert_eq!(machines, wanted.desired.proxies.len(), "{context}");
}

/// How often something was called, whoever did.
fn count(hosts: &Hosts, call: &str) -> usize {
    let mut count = 0;
    hosts.each(|_, world| count += world.calls().iter().filter(|called| called.call == call).count());
    count
}

fn one_fleet() {
    let scene = Scene::new();
    let mut locked = 0;
    for nth in 1..=scene.last() {
        let wanted = scene.wanted.clone();
        let (hosts, first, second) = scene.held(nth, move |hosts| whole(&Line::apply(), &wanted, hosts).code());
        let context = format!("held at call {nth}");
        assert_eq!(first.code(), Ok(0), "{context}");
        assert!(matches!(second, Ok(0 | 6)), "{context}: {second:?}");
        locked += u64::from(second == Ok(6));
        // Whoever came second made nothing.
        assert_eq!((count(&hosts, "define"), locks(&hosts.files())), (1, 0), "{context}");
        settled(&scene.wanted, &hosts, &context);
    }
    assert!(locked > scene.last() / 2, "the lock was in the way only {locked} times");
}

fn both_wait() {
    let scene = Scene::new();
    for _ in 0..4 {
        let hosts = Hosts::from(&scene.wanted, &scene.begin);
        let line = Line::typed("apply --auto-approve --simulate --lock-timeout 2m");
        thread::scope(|scope| {
            let runs = [(); 2].map(|()| scope.spawn(|| whole(&line, &scene.wanted, &hosts).code()));
            assert_eq!(runs.map(|run| run.join().expect("a run")), [Ok(0), Ok(0)]);
        });
        assert_eq!((count(&hosts, "define"), locks(&hosts.files())), (1, 0));
        settled(&scene.wanted, &hosts, "both waited");
    }
}

fn two_fleets() {
    let scene = Scene::new();
    let theirs = scene.ground.load("others", &[THEIRS]);
    for nth in 1..=scene.last() {
        let other = theirs.clone();
        let (hosts, first, second) = scene.held(nth, move |hosts| whole(&Line::apply(), &other, hosts).code());
        let context = format!("held at call {nth}");
        assert_eq!((first.code(), second), (Ok(0), Ok(0)), "{context}");
        settled(&scene.wanted, &hosts, &context);
        settled(&theirs, &hosts, &context);
        assert_eq!(locks(&hosts.files()), 0, "{context}");
    }
}

fn prune_under_create() {
    let mut scene = Scene::new();
    // The image that is to be used lies there, old and unused.
    let hosts = Hosts::of(&scene.wanted);
    assert_eq!(whole(&Line::apply(), &scene.ground.load("others", &[THEIRS]), &hosts).code(), Ok(0));
    let nothing = scene.ground.load("others", &[]);
    assert_eq!(whole(&Line::apply(), &nothing, &hosts).code(), Ok(0));
    hosts.pass(SignedDuration::from_hours(24));
    scene.begin = hosts.snapshot();
    let mut taken = 0;
    for nth in 1..=scene.last() {
        let nothing = nothing.clone();
        let (hosts, first, second) = scene.held(nth, move |hosts| whole(&Line::prune(), &nothing, hosts).code());
        let context = format!("held at call {nth}");
        assert_eq!(second, Ok(0), "{context}");
        // A create whose image went is tried again by the next run at the latest.
        let code = first.code().unwrap_or_else(|bug| panic!("{context}: {bug}"));
        assert!(matches!(code, 0 | 7), "{context}: {code}");
        // Two uploads were there before, and one is the seed.
        taken += u64::from(code == 7 || count(&hosts, "upload") > 3);
        hosts.pass(SignedDuration::from_secs(301));
        assert_eq!(whole(&Line::apply(), &scene.wanted, &hosts).code(), Ok(0), "{context}");
        settled(&scene.wanted, &hosts, &context);
        hosts.each(|_, world| {
            let volumes = world.to_file().pool.volumes;
            for backing in volumes.iter().filter_map(|volume| volume.backing.as_deref()) {
                let base = backing.rsplit('/').next().unwrap_or(backing);
                assert!(
                    volumes.iter().any(|volume| volume.name == base),
                    "{context}: a disk has lost its image {base}"
                );
            }
        });
    }
    assert!(taken > 0, "the image was never taken");
}

fn opposite_order() {
    let [one, other] = [Ground::new(&["h1"], "0s"), Ground::new(&["h1"], "0s")];
    let loaded = [one.load(FLEET, &[]), other.load(FLEET, &[])];
    let [a, b] = [Hosts::of(&loaded[0]), Hosts::of(&loaded[1])];
    let wanted = two_entries();
    // Each has its first lock before either asks for its second one.
    let barrier = Arc::new(Barrier::new(2));
    for hosts in [&a, &b] {
        let (barrier, met) = (Arc::clone(&barrier), AtomicBool::new(false));
        let point = Arc::new(move || {
            if !met.swap(true, Ordering::SeqCst) {
                barrier.wait();
            }
        });
        hosts.each(|_, world| world.fail(Rule::always(Effect::After(point.clone())).of("create_volume")));
    }
    let line = Line::typed("apply --auto-approve --simulate --lock-timeout 2m");
    let ends = thread::scope(|scope| {
        let forth = scope.spawn(|| run(&line, &wanted, &[a.clone(), b.clone()], &Notify::new()).code());
        let back = scope.spawn(|| run(&line, &wanted, &[b.clone(), a.clone()], &Notify::new()).code());
        [forth.join().expect("a run"), back.join().expect("a run")]
    });
    assert_eq!(ends, [Ok(0), Ok(0)]);
    assert_eq!((locks(&a.files()), locks(&b.files())), (0, 0));
    // Both met: somebody had to give a lock back and take it again.
    assert!(count(&a, "create_volume") + count(&b, "create_volume") > 4);
}

/// A fleet that wants nothing, with two entries of one host each.
fn two_entries() -> Loaded {
    Ground::new(&["h1", "h2"], "0s").load_twice(FLEET)
}

fn clocks() {
    for minutes in [-10, 0, 10] {
        let scene = Scene::new();
        let hosts = Hosts::from(&scene.wanted, &scene.begin);
        // The host is wrong by that much, or this machine is; nobody can tell.
        hosts.pass(SignedDuration::from_mins(minutes));
        let skewed = Scene { begin: hosts.snapshot(), ..scene };
        for (seconds, code) in [(0, 6), (280, 6), (301, 0)] {
            let wanted = skewed.wanted.clone();
            // Held at its first change after it made its lock, counted from 1.
            let calls = skewed.calls();
            let mut changes = (1..).zip(&calls).filter(|(_, called)| called.changes);
            let (_, lock) = changes.next().expect("the lock");
            assert!(LockName::parse(&lock.object).is_some(), "{lock:?}");
            let (nth, _) = changes.next().expect("a change");
            let (hosts, first, second) = skewed.held(nth, move |hosts| {
                hosts.pass(SignedDuration::from_secs(seconds));
                whole(&Line::apply(), &wanted, hosts).code()
            });
            let context = format!("{minutes} minutes apart, {seconds} s later");
            assert_eq!(second, Ok(code), "{context}");
            // Whoever has the lock does the work, and the other one says that it did not.
            assert_eq!(first.code(), Ok(if code == 0 { 7 } else { 0 }), "{context}");
            assert_eq!((count(&hosts, "define"), locks(&hosts.files())), (1, 0), "{context}");
            settled(&skewed.wanted, &hosts, &context);
        }
    }
}

fn fenced() {
    let scene = Scene::new();
    let calls = scene.calls();
    // Calls are counted from 1, and the look at the lock is the one before.
    let look = calls.iter().position(|called| called.call == "find_domain").expect("a look before the create");
    let nth = u64::try_from(look).expect("few calls");
    // It stands still at its look at the lock, right before the create.
    let wanted = scene.wanted.clone();
    let (hosts, first, second) = scene.held(nth, move |hosts| {
        hosts.pass(SignedDuration::from_secs(301));
        let end = whole(&Line::apply(), &wanted, hosts).code();
        (end, hosts.snapshot())
    });
    assert_eq!(second.0, Ok(0));
    assert_eq!(first.code(), Ok(7), "what was to be done was not");
    // After it woke it changed nothing at all.
    let (then, now) = (second.1[0].to_file(), hosts.snapshot()[0].to_file());
    assert_eq!((then.domains, then.pool.volumes), (now.domains, now.pool.volumes));
    settled(&scene.wanted, &hosts, "after a run without its lock");
}
