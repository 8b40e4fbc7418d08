//! A fleet of recorded hosts that a cluster's objects describe, in a namespace of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::api::{Api, Said};

pub struct Fleet<'a> {
    pub api: &'a Api,
    pub name: &'static str,
    pub folder: TempDir,
}

/// Writes two empty hosts, `h1` and `h2`, and the config of a fleet that has them.
pub fn recorded_hosts(folder: &Path, fleet: &str) {
    for host in ["h1", "h2"] {
        let text = format!(
            "format: egress-plan.dev/recorded/v1\nrecordedAt: {}\nhostname: {host}-{fleet}\ninterfaces: [br0]\n\
             guestRange: 192.0.2.0/24\n",
            jiff::Timestamp::now()
        );
        std::fs::write(folder.join(format!("{host}.yaml")), text).expect("written");
    }
    let config = format!(
        "fleet: {fleet}\npolicy: {{minAge: 0s, maxDeletions: 100%}}\nproviders:\n- name: lab\n  type: libvirt\n  libvirt:\n    \
         drain: {{timeout: 0s}}\n    images: {{debian-13: {{url: 'https://images.example/debian-13.qcow2', checksum: 'sha256:{}'}}}}\n    \
         machineTypes: {{small: {{vcpus: 1, memoryMiB: 512}}}}\n    hosts:\n    \
         - {{name: h1, recorded: h1.yaml, bridge: br0}}\n    - {{name: h2, recorded: h2.yaml, bridge: br0}}\n",
        "0".repeat(64)
    );
    std::fs::write(folder.join("config.yaml"), config).expect("written");
}

/// A Proxy on a host.
pub fn proxy(namespace: &str, name: &str, zone: &str, port: u16) -> String {
    format!(
        "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  provider: lab\n  \
         port: {port}\n  placement: {{zone: {zone}, machineType: small, image: debian-13}}\n  \
         cloudInit: \"#cloud-config\\npackages: [squid]\\n\"\n"
    )
}

/// Deletes all that a trial wanted: the runs of another one may be of all namespaces.
pub fn take_away(api: &Api, namespace: &str) {
    for kind in ["proxies", "proxysets"] {
        let said = api.kubectl(&format!("delete --raw /apis/egress-plan.dev/v1alpha1/namespaces/{namespace}/{kind}"));
        if !std::thread::panicking() {
            said.ok();
        }
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        take_away(self.api, self.name);
    }
}

impl<'a> Fleet<'a> {
    /// Two empty hosts, `h1` and `h2`, and a namespace of the fleet's name.
    pub fn new(api: &'a Api, name: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let fleet = Self { api, name, folder };
        recorded_hosts(fleet.folder.path(), name);
        api.kubectl(&format!("create namespace {name}")).ok();
        fleet
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("written");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).expect("there")
    }

    /// A Proxy on a host.
    pub fn proxy(&self, name: &str, zone: &str, port: u16) -> String {
        proxy(self.name, name, zone, port)
    }

    pub fn want(&self, text: &str) {
        self.api.kubectl_with("apply -f -", text).ok();
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KUBECONFIG", self.api.path("kubeconfig"))
            .env("POD_NAME", "egress-plan-29000000-abcde")
            .current_dir(self.folder.path())
            .args(line.split_whitespace())
            .args(["-c", "config.yaml", "--from-cluster", "-n", self.name, "--cluster-namespace", self.name]);
        command
    }

    /// Applies on the recorded hosts, and keeps what became of them.
    pub fn apply(&self, more: &str) -> Said {
        self.command(&format!("apply --simulate --auto-approve --save-recorded . {more}"))
            .output()
            .expect("starts")
            .into()
    }

    /// Begins the same, and does not wait.
    pub fn start(&self, more: &str) -> Child {
        let mut command = self.command(&format!("apply --simulate --auto-approve --save-recorded . {more}"));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts")
    }
}
