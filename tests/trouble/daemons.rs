//! Daemons of the host that refuse, end, or come back in the middle of a run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lab::{daemon, lab, until};
use super::scene::{Scene, end, fresh_image};

/// Lines added to sshd-b's configuration, and taken away again.
pub struct Sshd {
    file: PathBuf,
    before: String,
}

impl Sshd {
    pub fn with(lines: &str) -> Self {
        let file = Path::new(&lab("LAB_DIR")).join("ssh/sshd-b");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{lines}\n{before}")).unwrap();
        daemon("restart", "sshd-b");
        Self { file, before }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        fs::write(&self.file, &self.before).unwrap();
        daemon("restart", "sshd-b");
    }
}

pub fn max_startups() {
    let scene = Scene::new("net-startups", fresh_image("net-startups", 8), "budgets: {}");
    let strict = Sshd::with("MaxStartups 1:100:1");
    end(scene.apply(), 120).must(0);
    drop(strict);
    scene.converges();
    scene.strike();
}

pub fn sshd_restarted() {
    let scene = Scene::new("net-sshd", fresh_image("net-sshd", 64), "budgets: {}");
    let mut run = scene.apply();
    let before = scene.relay.up();
    until("the upload to b has begun", 120, Duration::from_millis(2), || {
        assert!(!run.has_ended(), "the run ended before its upload:\n{}", run.printed());
        (scene.relay.up() > before + (8 << 20)).then_some(())
    });
    daemon("restart", "sshd-b");
    let run = end(run, 120);
    scene.other_host_is_done(&run);
    run.must(0);
    scene.converges();
    scene.strike();
}

pub fn libvirtd_restarted() {
    for signal in ["TERM", "KILL"] {
        let scene = Scene::blank("net-libvirtd");
        let run = scene.apply();
        let log = format!("/var/log/libvirt/qemu/{}.log", scene.machine("a"));
        until("a start has begun", 90, Duration::from_millis(1), || Path::new(&log).exists().then_some(()));
        super::lab::daemon_with("restart", "libvirtd", signal);
        let run = end(run, 120);
        assert!(matches!(run.code, Some(0 | 3 | 7)), "{}", run.all());
        scene.converges();
        scene.strike();
        fs::remove_file(log).unwrap();
    }
}
