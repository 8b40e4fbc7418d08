//! Two runs of a fleet at one recorded host, with calls of one in the middle of the other's.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use futures::FutureExt as _;
use jiff::SignedDuration;

use super::*;
use crate::provider::libvirt::config::PoolReserve;
use crate::provider::libvirt::host::link::{Link as _, Purpose};
use crate::provider::libvirt::host::recorded::{Effect, RecordedHost, RecordedLink, Rule, World};
use crate::provider::libvirt::naming::RunId;

/// A run and its own connection to the host.
struct Run {
    site: Site,
    calls: Box<dyn Calls>,
    fence: Fence,
}

fn host() -> Arc<Mutex<World>> {
    let text = "format: egress-plan.dev/recorded/v1\nhostname: h1\n";
    Arc::new(Mutex::new(World::new(RecordedHost::parse(text, Path::new("h1.yaml")).expect("a host"))))
}

impl Run {
    fn new(world: &Arc<Mutex<World>>, id: &str) -> Self {
        let link = RecordedLink::new(Arc::clone(world));
        let opened = link.open(Purpose::Calls, Duration::from_secs(1)).now_or_never().expect("at once").expect("opens");
        let site = Site {
            fleet: "crawl".parse().expect("a label"),
            place: "lab/h1".parse().expect("a host"),
            aliases: Vec::new(),
            places: BTreeSet::new(),
            image_ids: BTreeSet::new(),
            run: RunId::parse(&id.repeat(16)).expect("an id"),
            pool: "default".to_owned(),
            reserve: PoolReserve::Usual,
            wanted: BTreeSet::new(),
        };
        Self { site, calls: opened.calls, fence: Fence::default() }
    }

    fn acquire(&mut self) -> LockAttempt {
        let (attempt, held) = acquire(&mut *self.calls, &self.site).map_err(|not| not.failure).expect("answers");
        self.fence.set(held);
        attempt
    }

    fn renew(&mut self) -> Result<(), ProviderError> {
        renew(&mut *self.calls, &self.site, &self.fence)
    }

    fn holds(&mut self) -> bool {
        self.fence.check(&mut *self.calls).is_ok()
    }

    /// As if the run had been suspended for so long since its lock was made.
    fn sleep(&self, time: Duration) {
        let held = self.fence.held().expect("it holds the lock");
        let since = (held.since.0, held.since.1.checked_sub(time).expect("a time"));
        self.fence.set(Some(Held { since, ..held }));
    }
}

/// What `work` does happens just before the `nth` call of that name.
fn before(world: &Arc<Mutex<World>>, call: &'static str, nth: u64, work: impl Fn() + Send + Sync + 'static) {
    world.lock().expect("not poisoned").fail(Rule::nth(nth, Effect::Before(Arc::new(work))).of(call));
}

fn shared(run: Run) -> Arc<Mutex<Run>> {
    Arc::new(Mutex::new(run))
}

#[test]
fn r36_a_renewal_in_the_middle_of_another_runs_look_is_no_end_of_the_lock() {
    let world = host();
    let mut first = Run::new(&world, "a");
    assert_eq!(first.acquire(), LockAttempt::Acquired);
    let (first, mut second) = (shared(first), Run::new(&world, "b"));
    // The second run has listed the lock, looked its own up, and looks at the other's now.
    let renewing = Arc::clone(&first);
    before(&world, "volume", 2, move || renewing.lock().expect("not poisoned").renew().expect("renews"));
    let LockAttempt::HeldBy(holder) = second.acquire() else { panic!("two runs hold one host") };
    assert_eq!(holder.run, "a".repeat(16));
    assert!(first.lock().expect("not poisoned").holds());
    assert!(!second.holds());
}

#[test]
fn r36_a_late_renewal_does_not_take_the_host_from_a_run_that_has_it() {
    let world = host();
    let mut first = Run::new(&world, "a");
    assert_eq!(first.acquire(), LockAttempt::Acquired);
    first.sleep(TTL + Duration::from_mins(1));
    world.lock().expect("not poisoned").pass(SignedDuration::from_secs(400));
    // The first run has seen that its lock is still there; the second one finds it dead and goes on.
    let second = shared(Run::new(&world, "b"));
    let taking = Arc::clone(&second);
    before(&world, "create_volume", 1, move || {
        // The rule counts the second run's call as well, which comes from within.
        if let Ok(mut second) = taking.try_lock()
            && second.fence.held().is_none()
        {
            assert_eq!(second.acquire(), LockAttempt::Acquired);
        }
    });
    let error = first.renew().expect_err("the lock is another run's");
    assert_eq!(error.reason, Reason::InProgress);
    assert!(!first.holds());
    assert!(second.lock().expect("not poisoned").holds());
    let left = world.lock().expect("not poisoned").to_file();
    assert_eq!(left.pool.volumes.len(), 1, "{:?}", left.pool.volumes);
}

#[test]
fn a_late_renewal_keeps_a_lock_that_nobody_else_took() {
    let world = host();
    let mut run = Run::new(&world, "a");
    assert_eq!(run.acquire(), LockAttempt::Acquired);
    run.sleep(TTL);
    assert!(!run.holds(), "nothing is begun under a lock that was not renewed");
    run.renew().expect("renews");
    assert!(run.holds());
}

#[test]
fn a_lock_that_an_earlier_try_left_counts_from_now_on() {
    let world = host();
    let mut run = Run::new(&world, "a");
    assert_eq!(run.acquire(), LockAttempt::Acquired);
    world.lock().expect("not poisoned").pass(SignedDuration::from_secs(299));
    run.fence.set(None);
    assert_eq!(run.acquire(), LockAttempt::Acquired);
    world.lock().expect("not poisoned").pass(SignedDuration::from_secs(100));
    assert!(matches!(Run::new(&world, "b").acquire(), LockAttempt::HeldBy(_)));
    assert!(run.holds());
}

#[test]
fn r36_a_run_whose_lock_was_found_dead_by_a_clock_that_jumped_does_not_renew_it() {
    let world = host();
    let (mut first, second) = (Run::new(&world, "a"), shared(Run::new(&world, "b")));
    assert_eq!(first.acquire(), LockAttempt::Acquired);
    // The host's clock is set forward, which the first run's own clocks know nothing of.
    world.lock().unwrap().pass(SignedDuration::from_mins(6));
    let other = Arc::clone(&second);
    before(&world, "create_volume", 1, move || {
        assert_eq!(other.lock().unwrap().acquire(), LockAttempt::Acquired);
    });
    assert!(first.renew().is_err());
    assert!(!first.holds() && second.lock().unwrap().holds());
}
