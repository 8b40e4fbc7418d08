//! The built binary, run as a user runs it, in an environment with nothing but `PATH` and `HOME`.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod api;
mod cases;
mod cluster;
mod cluster_limits;
mod commands;
#[cfg(feature = "libvirt")]
mod early_end;
mod help;
mod images;
#[cfg(feature = "libvirt")]
mod interrupt;
mod lab;
mod looking;
mod people;
mod phases;
mod remembering;
mod rounds;
mod saving;
mod traces;
mod usage;

use std::time::Duration;

use assert_cmd::Command;

/// Longer than any command here takes; a test that hangs should say which.
const STUCK: Duration = Duration::from_mins(1);

/// Every command, as typed.
const COMMANDS: [&str; 16] = [
    "diff",
    "plan",
    "apply",
    "destroy",
    "check",
    "status",
    "validate",
    "record",
    "inventory",
    "images list",
    "images prefetch",
    "images prune",
    "schema",
    "crd",
    "completions",
    "version",
];

/// The binary with these arguments, split at spaces.
fn egress_plan(line: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .timeout(STUCK)
        .args(line.split_whitespace());
    command
}

/// How a run ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// Every line of stderr as JSON; fails on one that is not.
    fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stderr
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }
}

fn run(mut command: Command) -> Ended {
    let output = command.output().expect("starts");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}
