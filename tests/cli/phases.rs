//! Signals in each phase of an `apply` on recorded hosts that are slow in just that phase: what is
//! given back, what is left for the next run, and that the next run finishes it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::lab::{Lab, ends_within};

/// What a run may take to end after its last signal, its grace of a second included.
const BUDGET: Duration = Duration::from_secs(30);

/// A phase, by what makes it slow and what is said once it has begun.
struct Phase {
    name: &'static str,
    /// A text of `h1.yaml`, and what takes its place.
    slow: (&'static str, &'static str),
    /// Begins within this line of stderr.
    begun: &'static str,
    /// Whether locks are held by then, and whether something was changed.
    locked: bool,
    acting: bool,
}

const PHASES: [Phase; 3] = [
    Phase {
        name: "waiting for another run's lock",
        slow: (
            "  volumes:\n",
            "  volumes:\n  - {name: egress-plan-fixtures.lock-300-aaaaaaaaaaaaaaaa-1, modified: \"2026-11-20T10:00:11Z\"}\n",
        ),
        begun: "waiting for run aaaaaaaaaaaaaaaa",
        locked: false,
        acting: false,
    },
    Phase {
        name: "looking at a host whose pool is busy",
        slow: ("  active: true\n", "  active: true\n  busyRefreshes: 20\n"),
        begun: "rpc=refresh_pool",
        locked: true,
        acting: false,
    },
    Phase {
        name: "waiting for a guest that ignores the shutdown",
        slow: (
            "  state: running\n  reason: 1\n  nvram: true\n",
            "  state: running\n  nvram: true\n  ignoresShutdown: true\n",
        ),
        begun: "rpc=shutdown",
        locked: true,
        acting: true,
    },
];

/// A lab whose first machine is renamed, so that one is made and one goes.
fn slow(phase: &Phase) -> Lab {
    let lab = Lab::new();
    lab.edit("h1.yaml", phase.slow.0, phase.slow.1);
    lab.edit("proxies.yaml", "name: crawl-1,", "name: crawl-9,");
    lab
}

/// Begins an apply and returns once it is in the phase, with the rest of its stderr being read.
fn begin(lab: &Lab, phase: &Phase, grace: &str) -> (Child, std::thread::JoinHandle<String>) {
    begin_command(lab, phase, "apply --auto-approve", grace)
}

fn begin_command(lab: &Lab, phase: &Phase, command: &str, grace: &str) -> (Child, std::thread::JoinHandle<String>) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
        .env_clear()
        .current_dir(lab.path("."))
        .args(command.split(' '))
        .args("-c config.yaml -f proxies.yaml --simulate --save-recorded out -v".split(' '))
        .args(["--lock-timeout", "10m", "--grace", grace])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let begun = lines.by_ref().any(|line| line.expect("text").contains(phase.begun));
    assert!(begun, "{}: it ended before", phase.name);
    (child, std::thread::spawn(move || lines.map(|line| line.expect("text") + "\n").collect()))
}

fn signal(child: &Child, signal: &str) {
    let kill = Command::new("kill").arg(signal).arg(child.id().to_string()).status().expect("kill starts");
    assert!(kill.success());
}

/// The locks of runs other than the invented one, in the hosts that were saved.
fn locks(lab: &Lab) -> usize {
    let of = |host: &str| lab.read(&format!("out/{host}.yaml")).matches("egress-plan-fixtures.lock-").count();
    of("h1") + of("h2") - lab.read("out/h1.yaml").matches("lock-300-aaaaaaaaaaaaaaaa").count()
}

/// Lets the hosts' clocks go on by the life of a lock, and runs again on what was left.
fn the_next_run_finishes(lab: &Lab, phase: &Phase) {
    for host in ["h1.yaml", "h2.yaml"] {
        let text = lab.read(&format!("out/{host}"));
        let clock = text.lines().find(|line| line.starts_with("recordedAt:")).expect("a clock").to_owned();
        lab.write(
            host,
            &text.replace(&clock, "recordedAt: \"2026-11-20T11:00:00Z\"").replace("ignoresShutdown: true", ""),
        );
    }
    let applied = lab.run_with_manifests("apply --simulate --auto-approve --lock-timeout 0s --save-recorded .");
    assert_eq!(applied.code, Some(0), "{}: {}{}", phase.name, applied.stdout, applied.stderr);
    let again = lab.run_with_manifests("diff");
    assert!(again.stdout.ends_with("No changes.\n"), "{}: {}", phase.name, again.stdout);
    for host in ["h1.yaml", "h2.yaml"] {
        assert!(!lab.read(host).contains("egress-plan-fixtures.lock-"), "{}: a lock is left on {host}", phase.name);
    }
}

#[test]
fn l2_r2_r36_one_signal_in_any_phase_leaves_what_the_next_run_finishes() {
    for kind in ["-INT", "-TERM"] {
        for phase in &PHASES {
            let lab = slow(phase);
            let (mut child, reader) = begin(&lab, phase, "1s");
            signal(&child, kind);
            assert_eq!(ends_within(&mut child, BUDGET, phase.name), Some(130), "{}", phase.name);
            reader.join().expect("reads");
            if !phase.acting {
                assert_eq!(locks(&lab), 0, "{}: a lock was not given back", phase.name);
            }
            the_next_run_finishes(&lab, phase);
        }
    }
}

#[test]
fn l2_r2_r34_r36_two_signals_in_any_phase_leave_what_the_next_run_finishes() {
    for phase in &PHASES {
        let lab = slow(phase);
        // The first signal's grace outlasts the trial: what ends the run is the second one.
        let (mut child, reader) = begin(&lab, phase, "10m");
        signal(&child, "-INT");
        signal(&child, "-TERM");
        assert_eq!(ends_within(&mut child, BUDGET, phase.name), Some(130), "{}", phase.name);
        reader.join().expect("reads");
        assert!(phase.locked || locks(&lab) == 0, "{}", phase.name);
        the_next_run_finishes(&lab, phase);
    }
}

#[test]
fn l2_r21_a_drain_that_outlasts_the_grace_is_left_to_the_next_run_and_nothing_is_switched_off() {
    let phase = &PHASES[2];
    let lab = slow(phase);
    let (mut child, reader) = begin(&lab, phase, "1s");
    signal(&child, "-TERM");
    assert_eq!(ends_within(&mut child, BUDGET, phase.name), Some(130));
    reader.join().expect("reads");
    let host = lab.read("out/h1.yaml");
    let machine =
        host.split("\n- name: ").find(|domain| domain.contains("ignoresShutdown: true")).expect("it is there");
    assert!(machine.contains("state: running") && machine.contains("deleting"), "{machine}");
    the_next_run_finishes(&lab, phase);
}

#[test]
fn l2_r34_a_signal_while_a_prefetch_looks_at_its_hosts_ends_it_there() {
    let phase = &PHASES[1];
    let lab = slow(phase);
    let (mut child, reader) = begin_command(&lab, phase, "images prefetch", "1s");
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    let told = reader.join().expect("reads");
    assert!(told.contains("interrupted; nothing was done"), "{told}");
    assert_eq!(locks(&lab), 0);
}
