//! Exit codes: one list, one function that picks, one table for help and documents.

use std::fmt::Write as _;

/// How a run ended, as other programs see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// Everything that was asked for was done.
    Success,
    /// It failed as a whole.
    Failed,
    /// `diff --detailed-exitcode`: changes are pending.
    Changes,
    /// Some hosts or proxies were left out; the rest was planned or applied.
    Incomplete,
    /// A guard refused the plan.
    Refused,
    /// The saved plan no longer stands.
    Stale,
    /// Another run holds the lock.
    Locked,
    /// Some actions failed.
    ActionsFailed,
    /// The wait for readiness timed out.
    NotReady,
    /// The command line was wrong.
    Usage,
    /// A signal ended the run.
    Interrupted,
}

impl ExitCode {
    /// The number that the process ends with.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Changes => 2,
            Self::Incomplete => 3,
            Self::Refused => 4,
            Self::Stale => 5,
            Self::Locked => 6,
            Self::ActionsFailed => 7,
            Self::NotReady => 8,
            Self::Usage => 64,
            Self::Interrupted => 130,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.number().into()
    }
}

/// Every code and what it means, by number. Help and documents render it.
pub const TABLE: [(ExitCode, &str); 11] = [
    (ExitCode::Success, "success; with diff also when changes are pending, unless --detailed-exitcode"),
    (ExitCode::Failed, "it failed: bad manifests or config, every host lost, or a bug (which says so)"),
    (ExitCode::Changes, "diff --detailed-exitcode: changes are pending"),
    (ExitCode::Incomplete, "incomplete: some hosts could not be observed, or some proxies are blocked"),
    (ExitCode::Refused, "refused by a guard; nothing was done"),
    (ExitCode::Stale, "the saved plan is stale; nothing was done"),
    (ExitCode::Locked, "another run holds the lock; nothing was done"),
    (ExitCode::ActionsFailed, "some actions failed, the others were done"),
    (ExitCode::NotReady, "the wait for machines to be ready timed out"),
    (ExitCode::Usage, "wrong usage"),
    (ExitCode::Interrupted, "interrupted; what was done is in the report"),
];

/// What held at the end of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// A signal ended the run early.
    pub interrupted: bool,
    /// The run failed as a whole: nothing could be planned, or every host was lost.
    pub failed: bool,
    /// Another run held the lock.
    pub locked: bool,
    /// A guard refused the plan.
    pub refused: bool,
    /// The saved plan no longer stood.
    pub stale: bool,
    /// An action or an image failed.
    pub actions_failed: bool,
    /// A machine was not ready in time.
    pub not_ready: bool,
    /// A host is unknown or a proxy blocked. Waiting and kept ones do not count.
    pub incomplete: bool,
    /// Changes are pending and `--detailed-exitcode` asks to hear of it.
    pub changes_to_tell: bool,
}

/// A code and whether the facts call for it.
type Rule = (ExitCode, fn(&Facts) -> bool);

/// In the order in which they are asked: the first that holds is the exit code.
const PRECEDENCE: [Rule; 9] = [
    (ExitCode::Interrupted, |facts| facts.interrupted),
    (ExitCode::Failed, |facts| facts.failed),
    (ExitCode::Locked, |facts| facts.locked),
    (ExitCode::Refused, |facts| facts.refused),
    (ExitCode::Stale, |facts| facts.stale),
    (ExitCode::ActionsFailed, |facts| facts.actions_failed),
    (ExitCode::NotReady, |facts| facts.not_ready),
    (ExitCode::Incomplete, |facts| facts.incomplete),
    (ExitCode::Changes, |facts| facts.changes_to_tell),
];

/// The exit code of a run: where several hold, 130, 1, 6, 4, 5, 7, 8, 3, 2, 0 in this order.
#[must_use]
pub fn pick(facts: &Facts) -> ExitCode {
    PRECEDENCE.iter().find(|(_, holds)| holds(facts)).map_or(ExitCode::Success, |(code, _)| *code)
}

/// The table as help shows it.
#[must_use]
pub fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in TABLE {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:>3}  {meaning}", code.number());
    }
    text.push_str("Where several apply, the first of 130, 1, 6, 4, 5, 7, 8, 3, 2, 0.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_has_its_code() {
        let none = Facts::default();
        for (facts, number) in [
            (none, 0),
            (Facts { interrupted: true, ..none }, 130),
            (Facts { failed: true, ..none }, 1),
            (Facts { locked: true, ..none }, 6),
            (Facts { refused: true, ..none }, 4),
            (Facts { stale: true, ..none }, 5),
            (Facts { actions_failed: true, ..none }, 7),
            (Facts { not_ready: true, ..none }, 8),
            (Facts { incomplete: true, ..none }, 3),
            (Facts { changes_to_tell: true, ..none }, 2),
        ] {
            assert_eq!(pick(&facts).number(), number, "{facts:?}");
        }
    }

    #[test]
    fn where_several_hold_the_first_of_the_order_wins() {
        let mut facts = Facts {
            interrupted: true,
            failed: true,
            locked: true,
            refused: true,
            stale: true,
            actions_failed: true,
            not_ready: true,
            incomplete: true,
            changes_to_tell: true,
        };
        let mut seen = Vec::new();
        let clears: [fn(&mut Facts); 9] = [
            |f| f.interrupted = false,
            |f| f.failed = false,
            |f| f.locked = false,
            |f| f.refused = false,
            |f| f.stale = false,
            |f| f.actions_failed = false,
            |f| f.not_ready = false,
            |f| f.incomplete = false,
            |f| f.changes_to_tell = false,
        ];
        for clear in clears {
            seen.push(pick(&facts).number());
            clear(&mut facts);
        }
        seen.push(pick(&facts).number());
        assert_eq!(seen, [130, 1, 6, 4, 5, 7, 8, 3, 2, 0]);
    }

    #[test]
    fn the_table_has_every_code_once_and_in_order() {
        let numbers: Vec<u8> = TABLE.iter().map(|(code, _)| code.number()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 64, 130]);
    }

    #[test]
    fn the_table_fits_a_terminal() {
        assert!(help().lines().all(|line| line.chars().count() <= 100), "{}", help());
    }
}
