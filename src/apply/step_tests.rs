//! Steps on a provider that fails as it is told: how often each is tried, and how many run at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::join_all;
use jiff::Timestamp;

use super::super::execute::{Stop, Wait, execute};
use super::super::schedule::Limits;
use super::*;
use crate::plan::{
    ActionId, ActionKind, Address, Expect, HostTrouble, HostView, ImageNeed, Label, Managed, Plan, Proxy,
};
use crate::provider::{CheckReport, Depth, HostImage, LockAttempt, Provider, Prunable, Prunables, Pruned};

/// Fails as often as it is told, and counts.
struct Fake {
    entry: Label,
    /// How it fails, and how often before it succeeds.
    fails: Option<(Class, usize)>,
    attempts: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
    /// Cancelled by the first attempt.
    stops: Mutex<Option<CancellationToken>>,
}

impl Fake {
    fn new(fails: Option<(Class, usize)>) -> Arc<Self> {
        Arc::new(Self {
            entry: "lab".parse().unwrap(),
            fails,
            attempts: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            stops: Mutex::default(),
        })
    }

    async fn attempt(&self) -> Result<Done, ProviderError> {
        let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
        if let Some(stop) = self.stops.lock().unwrap().take() {
            stop.cancel();
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Whoever else may begin does so meanwhile.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        match self.fails {
            Some((class, times)) if attempt < times => {
                let text = format!("attempt {attempt} failed");
                Err(ProviderError::new(class, Reason::TransientError, "try", "it", text))
            }
            _ => Ok(Done::default()),
        }
    }
}

#[async_trait]
impl Provider for Fake {
    fn entry(&self) -> &Label {
        &self.entry
    }

    fn hosts(&self) -> Vec<Label> {
        Vec::new()
    }

    async fn reach(&self, _: &Label) -> Result<(), HostTrouble> {
        unreachable!("a step does not dial")
    }

    async fn lock(&self, _: &Label) -> Result<LockAttempt, HostTrouble> {
        unreachable!("a step takes no lock")
    }

    async fn renew(&self, _: &Label) -> Result<(), ProviderError> {
        unreachable!("a step takes no lock")
    }

    async fn unlock(&self, _: &Label) {}

    async fn observe(&self, _: &Label, _: Depth) -> Result<HostView, HostTrouble> {
        unreachable!("a step does not look at a whole host")
    }

    async fn ensure_image(&self, _: &Label, _: &ImageNeed, _: &StepContext) -> Result<Done, ProviderError> {
        self.attempt().await
    }

    async fn act(&self, _: &Action, _: Option<(&Proxy, &Managed)>, _: &StepContext) -> Result<Done, ProviderError> {
        self.attempt().await
    }

    async fn address(&self, _: &Label, _: &str) -> Address {
        Address::NotAsked
    }

    async fn check(&self, _: &Label, _: Duration) -> CheckReport {
        unreachable!("a step checks nothing")
    }

    async fn images(&self, _: &Label) -> Result<Vec<HostImage>, HostTrouble> {
        unreachable!("a step lists no images")
    }

    async fn prunables(&self, _: &Label, _: &BTreeSet<String>, _: bool) -> Result<Prunables, HostTrouble> {
        unreachable!("a step prunes nothing")
    }

    async fn prune(&self, _: &Label, _: &Prunable, _: &CancellationToken) -> Result<Pruned, ProviderError> {
        unreachable!("a step prunes nothing")
    }

    fn calls(&self, _: &Label) -> u64 {
        0
    }

    fn looked_for(&self, _: &Label) -> Option<Duration> {
        None
    }

    async fn close(&self) {}
}

/// Counts what was told of.
#[derive(Default)]
struct Told {
    retries: AtomicUsize,
}

impl Listener for Told {
    fn on(&self, event: &Event) {
        if matches!(event, Event::Retrying(..)) {
            self.retries.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn desired() -> Arc<Desired> {
    Arc::new(Desired {
        namespaces: None,
        fleet: "f".parse().unwrap(),
        source: None,
        complete: true,
        proxies: BTreeMap::new(),
        hosts: BTreeMap::new(),
    })
}

fn providers(fake: &Arc<Fake>) -> Providers {
    let provider: Arc<dyn Provider> = Arc::<Fake>::clone(fake);
    Providers::new([provider])
}

fn action() -> Action {
    let expect =
        Expect { uuid: "u".to_owned(), spec: "s".to_owned(), catalogue: "c".to_owned(), protect: false, source: None };
    Action {
        id: ActionId("delete p".to_owned()),
        place: "lab/h1".parse().unwrap(),
        key: "t/p".parse().unwrap(),
        instance: "egress-p".to_owned(),
        kind: ActionKind::Delete { expect, removes: Vec::new(), forced: false },
        why: "because".to_owned(),
        details: Vec::new(),
        after: Vec::new(),
    }
}

fn image(number: usize) -> ImageAction {
    ImageAction {
        place: format!("lab/h{number}").parse().unwrap(),
        image: ImageNeed { key: "img".to_owned(), id: "0".repeat(32) },
    }
}

/// What came of a step.
struct Ended {
    outcome: ActionOutcome,
    class: Option<Class>,
    attempts: usize,
    retries: usize,
}

/// One step, an action or the bringing of an image, on a provider that fails so.
async fn step(fails: Option<(Class, usize)>, is_image: bool, stopped: bool) -> Ended {
    let (fake, told, stop) = (Fake::new(fails), Arc::<Told>::default(), CancellationToken::new());
    if stopped {
        *fake.stops.lock().unwrap() = Some(stop.clone());
    }
    let shared = Shared {
        providers: providers(&fake),
        desired: desired(),
        listener: Arc::<Told>::clone(&told),
        stop,
        cancel: CancellationToken::new(),
    };
    let (outcome, class) = if is_image { shared.image(&image(1)).await } else { shared.action(&action()).await };
    let (attempts, retries) = (fake.attempts.load(Ordering::SeqCst), told.retries.load(Ordering::SeqCst));
    Ended { outcome, class, attempts, retries }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[test]
fn l15_l40_each_class_of_failure_has_its_number_of_attempts_and_each_attempt_is_told() {
    let table = [
        (Class::Permanent, 1, StepResult::Failed),
        (Class::Quota, 1, StepResult::Failed),
        (Class::Changed, 1, StepResult::Changed),
        (Class::Cancelled, 1, StepResult::Failed),
        (Class::Transient, 3, StepResult::Failed),
    ];
    let steps = table.iter().flat_map(|row| [(row, false), (row, true)]);
    // All at once, since retries wait.
    run(join_all(steps.map(|((class, attempts, result), is_image)| async move {
        let ended = step(Some((*class, usize::MAX)), is_image, false).await;
        assert_eq!((ended.attempts, ended.class), (*attempts, Some(*class)), "{class:?}");
        assert_eq!((ended.outcome.result, ended.retries), (*result, attempts - 1), "{class:?}");
        let told: Vec<String> = ended.outcome.failures.iter().map(|failure| failure.message.clone()).collect();
        let each: Vec<String> = (0..*attempts).map(|n| format!("try it: attempt {n} failed")).collect();
        assert_eq!(told, each, "{class:?}");
        assert!(ended.outcome.failures.iter().all(|failure| failure.class == class.as_str()), "{class:?}");
    })));
}

#[test]
fn l15_r9_what_passes_is_tried_again_and_its_failures_are_told_all_the_same() {
    let [once, twice] = run(async {
        let ended = join_all([1, 2].map(|times| step(Some((Class::Transient, times)), false, false))).await;
        <[Ended; 2]>::try_from(ended).ok().unwrap()
    });
    for (ended, times) in [(once, 1), (twice, 2)] {
        assert_eq!((ended.attempts, ended.class), (times + 1, None));
        assert_eq!((ended.outcome.result, ended.outcome.failures.len()), (StepResult::Done, times));
    }
}

#[test]
fn l2_a_run_that_was_told_to_end_tries_nothing_again() {
    let ended = run(step(Some((Class::Transient, usize::MAX)), false, true));
    assert_eq!((ended.attempts, ended.retries, ended.outcome.result), (1, 0, StepResult::Failed));
}

#[test]
fn l43_r35_no_more_images_are_brought_at_a_time_than_there_may_be_downloads() {
    for downloads in [1, 2, 5] {
        let fake = Fake::new(None);
        let plan = Plan {
            format: Plan::FORMAT.to_owned(),
            fleet: "f".parse().unwrap(),
            made_at: Timestamp::UNIX_EPOCH,
            recorded: false,
            hosts: BTreeMap::new(),
            images: (0..12).map(image).collect(),
            actions: Vec::new(),
            held: Vec::new(),
            unchanged: Vec::new(),
            notes: Vec::new(),
            refusals: Vec::new(),
        };
        let limits = Limits { hosts: 16, per_host: 2, downloads, unavailable: 1 };
        let (stop, told) = (Stop::default(), Arc::<Told>::default());
        let outcome = run(execute(&plan, desired(), providers(&fake), limits, Wait::None, &stop, told));
        assert_eq!(outcome.images.len(), 12);
        assert!(outcome.images.iter().all(|image| image.what.result == StepResult::Done), "{outcome:?}");
        // As many as may be, and never one more.
        assert_eq!(fake.most.load(Ordering::SeqCst), downloads);
    }
}
