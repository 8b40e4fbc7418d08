//! The lock of a run that changes hosts, and the end of its time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::exit::ExitCode;
use super::fleet::Fleet;
use super::{Failure, Kind, Signals};
use crate::apply::lock::{self, Locked, Locks};
use crate::apply::{Listener, NotStarted};
use crate::plan::{HostRef, HostTrouble};

/// Why a run holds no lock, and what it learnt of the hosts all the same.
pub struct NotLocked {
    /// How the run ends.
    pub failure: Failure,
    /// Hosts that could not be reached.
    pub unreachable: BTreeMap<HostRef, HostTrouble>,
}

impl From<Failure> for NotLocked {
    fn from(failure: Failure) -> Self {
        Self { failure, unreachable: BTreeMap::new() }
    }
}

/// Locks every host in scope.
///
/// # Errors
/// Another run holds a host, or a signal came first. Nothing is held then, or, after the second
/// signal, what is held runs out by itself.
pub async fn take_locks(
    fleet: &Fleet,
    lock_timeout: Duration,
    signals: &Signals,
    listener: &dyn Listener,
) -> Result<Locked, NotLocked> {
    let taken = tokio::select! {
        taken = lock::take(&fleet.providers, &fleet.places, fleet.hosts_at_a_time, lock_timeout, &signals.first, listener) => taken,
        () = signals.second.cancelled() => Err(NotStarted::Interrupted),
    };
    taken.map_err(|not_started| match not_started {
        NotStarted::Interrupted => Failure::interrupted().into(),
        NotStarted::Locked { place, holder, unreachable } => {
            let until = holder.until.map_or_else(
                || "until it is given back".to_owned(),
                |until| format!("until {until} by the host's clock, unless it is renewed"),
            );
            let what = format!("another run is at work on {place}; nothing was done");
            let failure = Failure::new(Kind::World, ExitCode::Locked, what)
                .cause(format!("run {} holds the lock, {until}", holder.run))
                .hint("wait for it, or raise --lock-timeout");
            let failure = match holder.removal {
                None => failure,
                Some(removal) => failure
                    .cause("the host's clock was ahead when that lock was made, so that it outlives its run")
                    .hint(format!("when no such run is at work any more: {removal}")),
            };
            NotLocked { failure, unreachable }
        }
    })
}

/// Gives the locks back, unless the work was `cut_short` by the second signal: then something may still
/// be at work on the hosts, there is no time to ask, and the locks run out by themselves. A second signal
/// that came later, while others were told of the work, leaves a moment for it.
pub async fn give_back(locks: Locks, cut_short: bool, signals: &Signals) {
    if cut_short {
        return locks.abandon();
    }
    let stop = signals.stop();
    tokio::select! {
        () = locks.release() => {}
        () = stop.overdue() => {}
    }
}

/// Ends a run as an interrupt would, once its time is over; never after it was dropped.
pub struct Deadline(Option<JoinHandle<()>>);

impl Deadline {
    /// `timeout` from now; none without one.
    #[must_use]
    pub fn after(timeout: Option<Duration>, signals: &Signals) -> Self {
        Self(timeout.map(|timeout| {
            let signals = signals.clone();
            tokio::spawn(async move {
                tokio::time::sleep(timeout).await;
                signals.expire();
            })
        }))
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let Some(timer) = &self.0 {
            timer.abort();
        }
    }
}
