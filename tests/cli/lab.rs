//! A copy of the fixture fleet: two recorded hosts, two machines, and images in every state.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use tempfile::TempDir;

use super::{Ended, egress_plan, run};

/// Where the fixtures are.
pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The exit code of a process, which must end within that time. `what` says which it is.
pub(super) fn ends_within(child: &mut Child, time: Duration, what: &str) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("asked") {
            return status.code();
        }
        if begun.elapsed() > time {
            child.kill().expect("killed");
            panic!("{what}: it did not end within {} s", time.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The fleet of `tests/fixtures/fleet`, to be changed.
pub(super) struct Lab {
    folder: TempDir,
}

impl Lab {
    /// A fresh copy.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["config.yaml", "proxies.yaml", "h1.yaml", "h2.yaml"] {
            std::fs::copy(fixtures().join("fleet").join(file), folder.path().join(file)).expect("copied");
        }
        Self { folder }
    }

    /// A file of the copy.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of a file.
    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Replaces a text, which must be there, in a file.
    pub(super) fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{name} holds no {from}");
        self.write(name, &text.replace(from, to));
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    /// Makes a host answer nothing.
    pub(super) fn lose(&self, host: &str) {
        let unreachable = "unreachable: {reason: Unreachable, message: connection refused}";
        self.write(&format!("{host}.yaml"), &format!("format: egress-plan.dev/recorded/v1\n{unreachable}\n"));
    }

    /// A command in the folder of the copy.
    pub(super) fn command(&self, line: &str) -> Command {
        let mut command = egress_plan(line);
        command.current_dir(self.folder.path()).args(["-c", "config.yaml"]);
        command
    }

    /// Runs a command with the config.
    pub(super) fn run(&self, line: &str) -> Ended {
        run(self.command(line))
    }

    /// Runs a command with the config and the manifests.
    pub(super) fn run_with_manifests(&self, line: &str) -> Ended {
        let mut command = self.command(line);
        command.args(["-f", "proxies.yaml"]);
        run(command)
    }
}
