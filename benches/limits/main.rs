//! The figures that the README promises, measured on a real host, and their limits.
//!
//! `tests/realhost/bench` builds this and runs it inside the lab. Each figure is printed beside its
//! limit; one that breaks it makes the program fail. Times are of this machine at this moment, so
//! the limits on them are ratios, or sums of what was measured in the same minute.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

#[allow(dead_code, reason = "the bench uses a part of what the suite needs")]
#[path = "../../tests/realhost/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "the bench uses a part of what the suite needs")]
#[path = "../../tests/realhost/lab.rs"]
mod lab;

#[allow(dead_code, reason = "the bench uses a part of what the suite needs")]
#[path = "../../tests/trouble/relay.rs"]
mod relay;

mod crowd;
mod frozen;
mod memory;
mod silent;

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What was measured, and whether it is within its limit.
pub struct Figure {
    pub what: String,
    pub measured: String,
    pub limit: String,
    pub within: bool,
}

/// Runs `work` and says how long it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let done = work();
    (done, begun.elapsed())
}

/// Seconds, with as many digits as they deserve.
#[must_use]
pub fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// A measure and its name.
type Measure = (&'static str, fn() -> Vec<Figure>);

const MEASURES: [Measure; 4] =
    [("memory", memory::measure), ("crowd", crowd::measure), ("silent", silent::measure), ("frozen", frozen::measure)];

fn main() -> ExitCode {
    assert!(std::env::var_os("EGRESS_PLAN_LAB").is_some(), "the figures need root and the lab: make bench");
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{profile} build, {} processors", std::thread::available_parallelism().unwrap());
    // Cargo adds flags of its own; names of measures choose among them.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let unknown = chosen.iter().find(|chosen| !MEASURES.iter().any(|(name, _)| chosen == name));
    assert!(unknown.is_none(), "no measure is named {unknown:?}");
    let mut broken = 0;
    for (name, measure) in MEASURES {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        for figure in measure() {
            let Figure { what, measured, limit, within } = figure;
            let word = if within { "ok     " } else { "BROKEN " };
            println!("{word} {what}: {measured}, limit {limit}");
            broken += u32::from(!within);
        }
    }
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
