//! The run lock over all hosts in scope: taken before anything is observed, renewed while the run
//! lasts, given back at its end.
//!
//! On a conflict everything that was taken is given back before the next try, so that two runs that
//! lock the same hosts can never wait for each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::event::{Event, Listener};
use super::outcome::NotStarted;
use crate::plan::{HostRef, HostTrouble, LockHolder, Reason};
use crate::provider::{LockAttempt, Provider, Providers};

/// How often a lock is renewed.
const RENEWAL: Duration = Duration::from_secs(100);
/// When a renewal that failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);
/// Between two tries to take the locks, from this to twice this.
const PAUSE: Duration = Duration::from_millis(500);

/// The locks that a run holds. [`Locks::release`] gives them back.
#[derive(Default)]
pub struct Locks {
    held: Vec<Held>,
}

/// One host's lock, and the task that renews it from the moment it is held, so that a slow host
/// delays no other.
struct Held {
    place: HostRef,
    provider: Arc<dyn Provider>,
    ended: CancellationToken,
    renewing: JoinHandle<()>,
}

/// Hosts that this run may use, and those that it could not reach.
pub struct Locked {
    /// What is held.
    pub locks: Locks,
    /// Hosts that are unknown for this run.
    pub unreachable: BTreeMap<HostRef, HostTrouble>,
}

/// Locks every host of `places` that can be reached, in sorted order. At most `limit` hosts are dialled
/// at a time.
///
/// # Errors
/// [`NotStarted::Locked`] when another run holds one until `timeout` is over, and
/// [`NotStarted::Interrupted`] when `stop` came first. Nothing is held then.
pub async fn take(
    providers: &Providers,
    places: &[HostRef],
    limit: usize,
    timeout: Duration,
    stop: &CancellationToken,
    listener: &dyn Listener,
) -> Result<Locked, NotStarted> {
    let mut unreachable = BTreeMap::new();
    let mut within = Vec::new();
    let reached = tokio::select! {
        reached = reach(providers, places, limit) => reached,
        () = stop.cancelled() => return Err(NotStarted::Interrupted),
    };
    for (place, trouble) in reached {
        match trouble {
            Some(trouble) => {
                unreachable.insert(place, trouble);
            }
            None => within.push(place),
        }
    }
    within.sort();
    let begun = Instant::now();
    loop {
        let mut locks = Locks::default();
        let Some((place, holder)) = locks.take_all(providers, &within, &mut unreachable, stop).await else {
            if stop.is_cancelled() {
                locks.release().await;
                return Err(NotStarted::Interrupted);
            }
            return Ok(Locked { locks, unreachable });
        };
        locks.release().await;
        if begun.elapsed() >= timeout {
            return Err(NotStarted::Locked { place, holder, unreachable });
        }
        listener.on(&Event::WaitingForLock { place, run: holder.run });
        let pause = PAUSE + PAUSE.mul_f64(rand::random::<f64>());
        tokio::select! {
            () = tokio::time::sleep(pause.min(timeout.saturating_sub(begun.elapsed()))) => {}
            () = stop.cancelled() => return Err(NotStarted::Interrupted),
        }
    }
}

async fn reach(providers: &Providers, places: &[HostRef], limit: usize) -> Vec<(HostRef, Option<HostTrouble>)> {
    stream::iter(places.iter().cloned())
        .map(|place| async move {
            let trouble = match providers.of(&place) {
                Some(provider) => provider.reach(&place.host).await.err(),
                None => Some(HostTrouble {
                    reason: Reason::Unresolved,
                    message: "it is not in the config".to_owned(),
                    hint: None,
                }),
            };
            (place, trouble)
        })
        .buffer_unordered(limit.max(1))
        .collect()
        .await
}

impl Locks {
    /// Takes one lock after the other until one is another run's, which is returned, or `stop` comes.
    async fn take_all(
        &mut self,
        providers: &Providers,
        places: &[HostRef],
        unreachable: &mut BTreeMap<HostRef, HostTrouble>,
        stop: &CancellationToken,
    ) -> Option<(HostRef, LockHolder)> {
        for place in places {
            let Some(provider) = providers.of(place).filter(|_| !unreachable.contains_key(place)) else { continue };
            if stop.is_cancelled() {
                return None;
            }
            match provider.lock(&place.host).await {
                Ok(LockAttempt::Acquired) => self.held.push(Held::new(place.clone(), Arc::clone(provider))),
                // The plan does nothing on a host whose store is stopped, and no step begins unlocked.
                Ok(LockAttempt::NoStore) => {}
                Ok(LockAttempt::HeldBy(holder)) => return Some((place.clone(), holder)),
                Err(trouble) => {
                    unreachable.insert(place.clone(), trouble);
                }
            }
        }
        None
    }

    /// Leaves every lock to run out by itself: something may still be at work on the hosts, and there
    /// is no time to ask.
    pub fn abandon(self) {
        for held in self.held {
            held.renewing.abort();
        }
    }

    /// Gives every lock back. One whose host may still be at work on a lost call is left to run out.
    pub async fn release(self) {
        join_all(self.held.into_iter().map(|held| async move {
            held.ended.cancel();
            // A renewal under way is waited for, so that it cannot make a lock after its release.
            held.renewing.await.ok();
            held.provider.unlock(&held.place.host).await;
        }))
        .await;
    }
}

impl Held {
    fn new(place: HostRef, provider: Arc<dyn Provider>) -> Self {
        let ended = CancellationToken::new();
        let renewing = tokio::spawn(renew(place.clone(), Arc::clone(&provider), ended.clone()));
        Self { place, provider, ended, renewing }
    }
}

async fn renew(place: HostRef, provider: Arc<dyn Provider>, ended: CancellationToken) {
    let mut pause = RENEWAL;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ended.cancelled() => return,
        }
        pause = match provider.renew(&place.host).await {
            Ok(()) => RENEWAL,
            Err(error) => {
                // Steps look at the lock before they act, so that nothing more needs to be done here.
                tracing::warn!(host = %place, %error, "the lock of a host could not be renewed");
                AGAIN
            }
        };
    }
}
