//! What every provider must do, on every kind of host that it has.
//!
//! The trials know the trait and nothing of what is behind it. A kind of host says how a fleet on it
//! is configured, and how somebody else would meddle with its machines ([`ground::Ground`]). Recorded
//! hosts are always tried; a real one inside of `tests/realhost/lab`, and anywhere else its trials
//! report themselves as ignored. A new provider is done when its ground passes.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod bench;
mod ground;
#[cfg(feature = "libvirt")]
mod lab;
mod recorded;
mod trials;

use std::sync::Arc;

use bench::Bench;
use ground::Ground;
use libtest_mimic::{Arguments, Trial};
use trials::TRIALS;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let recorded: Arc<dyn Ground> = Arc::new(recorded::Recorded);
    let trials = on("recorded", &recorded, false);
    #[cfg(feature = "libvirt")]
    let trials = {
        let ground: Arc<dyn Ground> = Arc::new(lab::Lab::default());
        let ignored = std::env::var_os("EGRESS_PLAN_LAB").is_none();
        trials.into_iter().chain(on("lab", &ground, ignored)).collect()
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Every trial on a ground. Each has a fleet of its own, swept first and last (L45).
fn on(kind: &str, ground: &Arc<dyn Ground>, ignored: bool) -> Vec<Trial> {
    TRIALS
        .iter()
        .map(|(name, trial)| {
            let (ground, trial) = (Arc::clone(ground), *trial);
            Trial::test(format!("{kind}::{name}"), move || {
                Bench::new(ground).swept(trial);
                Ok(())
            })
            .with_ignored_flag(ignored)
        })
        .collect()
}
