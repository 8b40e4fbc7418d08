//! The real host of `tests/realhost/lab`: a libvirtd behind an sshd, with a web server beside them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::bench::Bench;
use crate::ground::Ground;

/// The lab's first host. Machines have an empty disk: they run and do nothing.
#[derive(Default)]
pub struct Lab {
    /// Digest of the empty image, made once.
    digest: OnceLock<String>,
}

fn lab(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn tool(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn virsh(args: &[&str]) -> String {
    let uri = format!("qemu+unix:///system?socket={}", lab("LAB_SOCKET"));
    tool("virsh", &[&["--quiet", "-c", &uri], args].concat())
}

fn pool() -> PathBuf {
    PathBuf::from(lab("LAB_POOL_A_DIR"))
}

impl Lab {
    fn digest(&self) -> &str {
        self.digest.get_or_init(|| {
            let file = Path::new(&lab("LAB_WEB_DIR")).join("conformance.qcow2");
            let file = file.to_str().expect("a path of text");
            tool("qemu-img", &["create", "-q", "-f", "qcow2", file, "1M"]);
            tool("sha256sum", &[file])[..64].to_owned()
        })
    }
}

impl Ground for Lab {
    fn config(&self, fleet: &str) -> String {
        // The query makes the image another one for every fleet.
        format!(
            "fleet: {fleet}\nproviders:\n- name: lab\n  type: libvirt\n  libvirt:\n    diskSizeGb: 1\n    \
             poolReserve: 1GiB\n    drain: {{timeout: 0s}}\n    sshKeyFile: {key}\n    knownHostsFile: {known}\n    \
             images: {{blank: {{url: '{web}/conformance.qcow2?{fleet}', checksum: 'sha256:{digest}', firmware: bios}}}}\n    \
             machineTypes: {{tiny: {{vcpus: 1, memoryMiB: 64}}}}\n    \
             hosts: [{{name: h1, address: '{address}', user: {user}, pool: {pool}, bridge: {bridge}, domainType: qemu}}]\n",
            key = lab("LAB_KEY"),
            known = lab("LAB_KNOWN_HOSTS"),
            web = lab("LAB_WEB"),
            digest = self.digest(),
            address = lab("LAB_SSH_A"),
            user = lab("LAB_USER"),
            pool = lab("LAB_POOL_A"),
            bridge = lab("LAB_BRIDGE"),
        )
    }

    fn prepare(&self, _: &Path) {}

    fn files(&self, _: &Bench, machine: &str) -> Vec<String> {
        let entries = std::fs::read_dir(pool()).expect("the pool's folder");
        let names = entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(machine)).collect()
    }

    fn switch_off(&self, _: &Bench, machine: &str) {
        virsh(&["destroy", machine]);
    }

    fn pause(&self, _: &Bench, machine: &str) {
        virsh(&["suspend", machine]);
    }

    fn save(&self, _: &Bench, machine: &str) {
        virsh(&["managedsave", machine]);
    }

    fn remove_file(&self, _: &Bench, file: &str) {
        virsh(&["vol-delete", file, "--pool", &lab("LAB_POOL_A")]);
    }

    fn squat(&self, _: &Bench, machine: &str) {
        let xml = format!(
            "<domain type='qemu'><name>{machine}</name><memory unit='MiB'>64</memory>\
             <os><type arch='x86_64'>hvm</type></os></domain>"
        );
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), xml).expect("written");
        virsh(&["define", file.path().to_str().expect("a path of text")]);
        virsh(&["start", machine]);
    }

    fn told(&self, _: &Bench, machine: &str) -> String {
        [&["domstate"][..], &["dumpxml"], &["dumpxml", "--inactive"]]
            .map(|command| virsh(&[command, &[machine]].concat()))
            .concat()
    }

    fn evict(&self, _: &Bench, machine: &str) {
        virsh(&["destroy", machine]);
        virsh(&["undefine", machine]);
    }
}
