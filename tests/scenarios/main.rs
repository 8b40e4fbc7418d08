//! Scenarios: manifests, a config and recorded hosts, and what a user is shown for them.
//!
//! Every folder beside this file is one test of the built binary. `README.md` here says what is in
//! such a folder, and how a scenario is made.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod golden;
mod redact;
mod scenario;

use libtest_mimic::{Arguments, Trial};

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let trials = scenario::all()
        .into_iter()
        .map(|scenario| Trial::test(scenario.name.clone(), move || scenario.check().map_err(Into::into)))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
