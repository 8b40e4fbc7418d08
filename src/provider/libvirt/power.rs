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

    #[test]
    fn c19_every_state_has_a_meaning_and_an_unknown_one_is_shown_as_such() {
        let table = [
            (1, 1, "Running"),
            (2, 0, "Running"),
            (4, 1, "ShuttingDown"),
            (5, 1, "Off"),
            (5, 3, "Off"),
            (5, 5, "Saved"),
            (5, 77, "Off"),
            (6, 1, "Paused"),
            (3, 1, "Paused"),
            (3, 5, "Paused"),
            (3, 10, "Paused"),
            (3, 2, "InTransition"),
            (3, 11, "InTransition"),
            (7, 0, "Paused"),
            (0, 0, "Unknown"),
            (42, 0, "Unknown"),
            (-1, -1, "Unknown"),
        ];
        for (state, reason, expected) in table {
            let shown = format!("{:?}", power(state, reason, "d"));
            assert!(shown.starts_with(expected), "{state}/{reason}: {shown}");
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
