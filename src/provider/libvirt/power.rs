//! Domain states and their reasons, as tables (`virDomainState` and the enums beside it).

use super::host::calls::state;
use crate::plan::Power;

const PAUSED: [&str; 15] = [
    "no reason is given",
    "by hand (user)",
    "migration",
    "save",
    "dump",
    "ioerror",
    "watchdog",
    "from snapshot",
    "shutting down",
    "snapshot",
    "crashed",
    "starting up",
    "postcopy",
    "postcopy failed",
    "api error",
];
const SHUTOFF: [&str; 9] = [
    "no reason is given",
    "shut down",
    "destroyed",
    "crashed",
    "migrated",
    "saved",
    "failed",
    "from snapshot",
    "daemon",
];

/// The reason of a domain that is off and whose memory is saved.
pub(super) const SAVED: i32 = 5;

fn word<const N: usize>(table: [&str; N], reason: i32) -> String {
    usize::try_from(reason)
        .ok()
        .and_then(|at| table.get(at))
        .map_or_else(|| format!("reason {reason}"), |word| (*word).to_owned())
}

/// What a domain is doing, for planning. `name` is the domain's, for the printed command.
pub(super) fn power(domain_state: i32, reason: i32, name: &str) -> Power {
    let resume = format!("virsh -c qemu:///system resume {name}");
    match domain_state {
        state::RUNNING | state::BLOCKED => Power::Running,
        state::SHUTDOWN => Power::ShuttingDown,
        state::SHUTOFF if reason == SAVED => Power::Saved,
        state::SHUTOFF => Power::Off(word(SHUTOFF, reason)),
        // Seen where somebody set on_crash to preserve: the domain is active until it is destroyed.
        state::CRASHED => Power::Paused {
            why: "it crashed and is kept as it was".to_owned(),
            hint: format!("look at it, then: virsh -c qemu:///system destroy {name}; the next run starts it"),
        },
        // Starting up and migrating pass by themselves.
        state::PAUSED if matches!(reason, 2 | 8 | 11 | 12) => Power::InTransition(word(PAUSED, reason)),
        state::PAUSED if reason == 5 => Power::Paused {
            why: "an I/O error (ioerror); the pool was probably full".to_owned(),
            hint: format!("free space on the pool, then: {resume}"),
        },
        state::PAUSED => Power::Paused {
            why: word(PAUSED, reason),
            hint: format!("find out why, then: {resume}; or have it made anew with --replace"),
        },
        state::PMSUSPENDED => Power::Paused {
            why: "suspended by the guest (pmsuspended)".to_owned(),
            hint: format!("virsh -c qemu:///system dompmwakeup {name}"),
        },
        other => Power::Unknown(format!("state {other}, reason {reason}")),
    }
}

/// Whether a domain in this state is active.
pub(super) fn is_active(domain_state: i32) -> bool {
    domain_state != state::SHUTOFF
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state of `virDomainState` and every reason of the enum that goes with it, in the order of
    /// libvirt's own numbers. A word stands for what a run makes of it.
    const STATES: [(i32, &[&str]); 8] = [
        (0, &["Unknown"]),
        // unknown, booted, migrated, restored, from snapshot, unpaused, migration cancelled, save
        // cancelled, wake-up, crashed and restarted, post-copy, post-copy failed
        (1, &["Running"; 12]),
        (2, &["Running"]),
        // unknown, user, migration, save, dump, I/O error, watchdog, from snapshot, shutting down,
        // snapshot, crashed, starting up, post-copy, post-copy failed, API error
        (
            3,
            &[
                "Paused",
                "Paused",
                "InTransition",
                "Paused",
                "Paused",
                "Paused",
                "Paused",
                "Paused",
                "InTransition",
                "Paused",
                "Paused",
                "InTransition",
                "InTransition",
                "Paused",
                "Paused",
            ],
        ),
        // unknown, user
        (4, &["ShuttingDown"; 2]),
        // unknown, shut down, destroyed, crashed, migrated, saved, failed, from snapshot, daemon
        (5, &["Off", "Off", "Off", "Off", "Off", "Saved", "Off", "Off", "Off"]),
        // unknown, panicked
        (6, &["Paused"; 2]),
        (7, &["Paused"]),
    ];

    #[test]
    fn c19_l12_every_state_and_reason_has_a_meaning() {
        for (state, reasons) in STATES {
            for (reason, expected) in (0..).zip(reasons) {
                let shown = format!("{:?}", power(state, reason, "d"));
                assert!(shown.starts_with(expected), "{state}/{reason}: {shown}");
                assert!(
                    state == 0 || !shown.contains(&format!("reason {reason}")),
                    "a reason of libvirt's has a word: {state}/{reason}: {shown}"
                );
            }
        }
    }

    #[test]
    fn c19_a_reason_that_came_after_this_program_keeps_its_state_and_is_shown_as_a_number() {
        for (state, expected) in [(1, "Running"), (3, "Paused"), (4, "ShuttingDown"), (5, "Off"), (6, "Paused")] {
            for reason in [77, -1, i32::MIN, i32::MAX] {
                let shown = format!("{:?}", power(state, reason, "d"));
                assert!(shown.starts_with(expected), "{state}/{reason}: {shown}");
                if matches!(state, 3 | 5) {
                    assert!(shown.contains(&format!("reason {reason}")), "{shown}");
                }
            }
        }
    }

    #[test]
    fn c19_a_state_that_came_after_this_program_is_unknown_and_counts_as_active() {
        for state in [8, 42, -1, i32::MIN, i32::MAX] {
            assert_eq!(power(state, 7, "d"), Power::Unknown(format!("state {state}, reason 7")));
            assert!(is_active(state));
        }
    }

    #[test]
    fn c06_every_printed_command_names_the_connection() {
        for (state, reason) in [(3, 1), (3, 5), (6, 1), (7, 0)] {
            let Power::Paused { hint, .. } = power(state, reason, "egress-a") else { panic!("paused") };
            assert!(hint.contains("virsh -c qemu:///system "), "{hint}");
            assert!(hint.contains("egress-a"), "{hint}");
        }
    }
}
