//! No fault harms: every kind of plan is struck at every remote call by every kind of fault, and one
//! plain run afterwards must leave exactly what a run without a fault leaves.
//!
//! Runs what `egress-plan apply` and `egress-plan images prune` run, in this process and on recorded
//! hosts. `docs/reliability.md` holds the table of what came of it; the test fails when the table is not
//! current, and `UPDATE_DOCS=1` writes it.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod document;
mod ends;
mod ground;
mod kinds;
mod many;
mod matrix;
mod partial;
mod point;
mod rivals;
mod run;
mod shape;

use libtest_mimic::{Arguments, Failed, Trial};

use kinds::KINDS;

/// Of a kind with many wrong points, the first say enough.
const SHOWN: usize = 12;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let trials = KINDS.iter().enumerate().map(|(at, kind)| {
        let name =
            format!("l31_r02_every_fault_of_a_run_is_mended_by_the_next_one::{}", kind.name.replace([' ', ','], "_"));
        Trial::test(name, move || struck(at))
    });
    let rivals =
        rivals::TRIALS.iter().chain(many::TRIALS).chain(ends::TRIALS).chain(partial::TRIALS).map(|(name, trial)| {
            let trial = *trial;
            Trial::test(*name, move || {
                trial();
                Ok(())
            })
        });
    let table = Trial::test("the_table_of_the_documentation_is_current", document::current);
    libtest_mimic::run(&arguments, trials.chain(rivals).chain([table]).collect()).exit_code()
}

fn struck(at: usize) -> Result<(), Failed> {
    let row = matrix::row(at);
    if row.wrong.is_empty() && row.faults > 0 {
        return Ok(());
    }
    let shown: Vec<&str> = row.wrong.iter().take(SHOWN).map(String::as_str).collect();
    Err(format!("{} of {} points went wrong:\n{}", row.wrong.len(), row.faults, shown.join("\n")).into())
}
