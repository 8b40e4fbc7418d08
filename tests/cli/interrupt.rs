//! A host that takes the connection and says nothing: a signal ends every command at once.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use russh::keys::{Algorithm, PrivateKey};

use super::lab::{Lab, ends_within};

/// What a command may take to end after a signal: three times the usual budget of a dial. The dial under
/// way has a longer one, and no command may wait for it.
const BUDGET: Duration = Duration::from_secs(30);

/// A lab whose only host is a listener of this process that never answers.
pub(super) fn silent() -> (Lab, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let lab = Lab::new();
    let key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).expect("a key");
    lab.write("key", &key.to_openssh(russh::keys::ssh_key::LineEnding::LF).expect("text"));
    lab.write(
        "config.yaml",
        &format!(
            "fleet: fixtures
providers:
- name: lab
  type: libvirt
  libvirt:
    sshKeyFile: key
    insecureIgnoreHostKey: true
    budgets: {{dial: 60s}}
    images: {{debian-13: {{url: https://images.example/debian-13.qcow2, checksum: sha256:{}}}}}
    machineTypes: {{small: {{vcpus: 1, memoryMiB: 1024}}}}
    hosts:
    - {{name: h1, address: \"{}\", user: egress, bridge: br0}}
",
            "0".repeat(64),
            listener.local_addr().expect("bound")
        ),
    );
    let proxy = lab.read("proxies.yaml");
    lab.write("proxies.yaml", proxy.split("---").next().expect("a document"));
    (lab, listener)
}

#[test]
fn l2_a_signal_ends_each_command_while_a_host_is_silent() {
    for line in [
        "check --timeout 60s",
        "status",
        "inventory -f proxies.yaml",
        "record lab/h1",
        "images list",
        "images prefetch -f proxies.yaml",
        "images prune -f proxies.yaml",
        "diff -f proxies.yaml",
        "apply -f proxies.yaml --auto-approve",
    ] {
        let (lab, listener) = silent();
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
            .env_clear()
            .current_dir(lab.path("."))
            .args(line.split_whitespace())
            .args(["-c", "config.yaml"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let (_open, _) = listener.accept().expect("it dials");
        let kill = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().expect("kill starts");
        assert!(kill.success());
        assert_eq!(ends_within(&mut child, BUDGET, line), Some(130), "{line}");
        let mut stdout = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut stdout).expect("text");
        assert_eq!(stdout, "", "{line}");
    }
}

#[test]
fn the_end_of_the_time_is_told() {
    for (line, code) in [("status --timeout 1s", 1), ("record lab/h1 --timeout 1s", 1), ("images list --timeout 1s", 1)]
    {
        let (lab, _listener) = silent();
        let ended = lab.run(line);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains("--timeout"), "{line}: {}", ended.stderr);
    }
    let (lab, _listener) = silent();
    let ended = lab.run("check --timeout 1s");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("Timeout at ssh"), "{}", ended.stdout);
}
