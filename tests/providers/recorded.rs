//! Recorded hosts.

use std::path::Path;

use egress_plan::provider::libvirt::host::calls::state;
use egress_plan::provider::libvirt::host::recorded::{DomainState, RecordedDomain, RecordedHost};

use crate::bench::Bench;
use crate::ground::Ground;

/// Files that answer for hosts.
pub struct Recorded;

/// Changes the host as somebody else would.
fn edit(bench: &Bench, change: impl FnOnce(&mut RecordedHost)) {
    let world = bench.links.worlds().values().next().expect("the recorded host");
    world.lock().expect("no trial panicked with it").edit(change);
}

fn set(bench: &Bench, machine: &str, to: i32, reason: i32) {
    edit(bench, |host| {
        let domain = host.domains.iter_mut().find(|domain| domain.name == machine).expect("the machine");
        let live_xml = domain.live_xml.take().filter(|_| to != state::SHUTOFF);
        *domain = RecordedDomain { state: DomainState(to), reason: Some(reason), live_xml, ..domain.clone() };
    });
}

impl Ground for Recorded {
    fn config(&self, fleet: &str) -> String {
        format!(
            "fleet: {fleet}\nproviders:\n- name: lab\n  type: libvirt\n  libvirt:\n    diskSizeGb: 3\n    \
             drain: {{timeout: 0s}}\n    \
             images: {{blank: {{url: 'https://images.example/blank.qcow2', checksum: 'sha256:{}'}}}}\n    \
             machineTypes: {{tiny: {{vcpus: 1, memoryMiB: 64}}}}\n    \
             hosts: [{{name: h1, recorded: h1.yaml, bridge: br0}}]\n",
            "0".repeat(64)
        )
    }

    fn prepare(&self, folder: &Path) {
        // Its clock is right: whether a lock seems to be alive is judged by this machine's.
        let now = jiff::Timestamp::now();
        let host = format!("format: egress-plan.dev/recorded/v1\nrecordedAt: {now}\n");
        std::fs::write(folder.join("h1.yaml"), host).expect("a file");
    }

    fn files(&self, bench: &Bench, machine: &str) -> Vec<String> {
        let mut files = Vec::new();
        edit(bench, |host| {
            files = host.pool.volumes.iter().map(|volume| volume.name.clone()).collect();
        });
        files.retain(|file| file.starts_with(machine));
        files
    }

    fn switch_off(&self, bench: &Bench, machine: &str) {
        set(bench, machine, state::SHUTOFF, 2);
    }

    fn pause(&self, bench: &Bench, machine: &str) {
        set(bench, machine, state::PAUSED, 1);
    }

    fn save(&self, bench: &Bench, machine: &str) {
        set(bench, machine, state::SHUTOFF, 0);
        edit(bench, |host| {
            host.domains.iter_mut().find(|domain| domain.name == machine).expect("the machine").managed_save = true;
        });
    }

    fn remove_file(&self, bench: &Bench, file: &str) {
        edit(bench, |host| host.pool.volumes.retain(|volume| volume.name != file));
    }

    fn squat(&self, bench: &Bench, machine: &str) {
        let squatter = serde_json::json!({"name": machine, "state": "running"});
        edit(bench, |host| host.domains.push(serde_json::from_value(squatter).expect("a domain")));
    }

    fn told(&self, bench: &Bench, machine: &str) -> String {
        let mut told = Vec::new();
        edit(bench, |host| {
            let named = host.domains.iter().filter(|domain| domain.name == machine);
            told = named.map(|domain| serde_json::to_string(domain).expect("JSON")).collect();
        });
        told.join("\n")
    }

    fn evict(&self, bench: &Bench, machine: &str) {
        edit(bench, |host| host.domains.retain(|domain| domain.name != machine));
    }
}
