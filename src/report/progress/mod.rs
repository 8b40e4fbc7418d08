//! Progress of an apply. The only part of the report that owns a terminal.
//!
//! On a terminal: a line for each action in flight, a bar for each transfer, and what ended above
//! them. Elsewhere: plain lines without any escape byte, one at the start, one at the end, and one
//! every ten seconds for what is still in flight. With JSON logs: nothing.

mod bars;
mod flight;
mod plain;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use indicatif::ProgressDrawTarget;

use crate::apply::{Event, Listener};
use bars::Bars;
use plain::Plain;

/// Time since a fixed moment; injectable, so that tests need no sleep.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How often [`Progress::tick`] wants to be called.
pub const TICK: Duration = Duration::from_millis(500);

/// A listener that shows progress. Never fails: a terminal that cannot be written to is not written to.
pub struct Progress {
    clock: Clock,
    shown: Mutex<Shown>,
}

enum Shown {
    Off,
    Plain(Plain),
    Bars(Bars),
}

/// A clock that starts now.
#[must_use]
pub fn monotonic() -> Clock {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}

impl Progress {
    /// Shows nothing: for `--log-format json`.
    #[must_use]
    pub fn off() -> Self {
        Self { clock: monotonic(), shown: Mutex::new(Shown::Off) }
    }

    /// Plain lines to `to`.
    #[must_use]
    pub fn plain(to: Box<dyn std::io::Write + Send>, clock: Clock) -> Self {
        Self { clock, shown: Mutex::new(Shown::Plain(Plain::new(to))) }
    }

    /// Lines and bars that move, on `target`; [`ProgressDrawTarget::stderr`] but for tests.
    #[must_use]
    pub fn bars(target: ProgressDrawTarget, clock: Clock) -> Self {
        Self { clock, shown: Mutex::new(Shown::Bars(Bars::new(target))) }
    }

    /// Brings elapsed times up to date. To be called every [`TICK`] or so while a run is on.
    pub fn tick(&self) {
        let now = (self.clock)();
        match &mut *self.lock() {
            Shown::Off => {}
            Shown::Plain(plain) => plain.tick(now),
            Shown::Bars(bars) => bars.tick(now),
        }
    }

    /// Calls [`Progress::tick`] for ever; to be raced against the run, or spawned and aborted.
    pub async fn keep_ticking(&self) {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            interval.tick().await;
            self.tick();
        }
    }

    /// Writes other text, whole lines, without tearing the bars: log lines on a terminal.
    pub fn print(&self, text: &str) {
        match &mut *self.lock() {
            Shown::Off => {}
            Shown::Plain(plain) => plain.print(text),
            Shown::Bars(bars) => bars.print(text),
        }
    }

    /// Takes the moving lines away; to be called before anything else is written to the terminal.
    pub fn finish(&self) {
        if let Shown::Bars(bars) = &mut *self.lock() {
            bars.finish();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        // What a panicking thread left is at worst a stale line.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Progress {
    fn on(&self, event: &Event) {
        let now = (self.clock)();
        match &mut *self.lock() {
            Shown::Off => {}
            Shown::Plain(plain) => plain.on(event, now),
            Shown::Bars(bars) => bars.on(event, now),
        }
    }
}

#[cfg(test)]
mod tests;
