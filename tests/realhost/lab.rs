//! The lab: its variables, its libvirt as `virsh` sees it, its pools as folders, its daemons.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A variable that the lab sets.
pub fn lab(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// The folder of a pool: `a` or `b`.
pub fn pool(zone: &str) -> PathBuf {
    PathBuf::from(lab(if zone == "a" { "LAB_POOL_A_DIR" } else { "LAB_POOL_B_DIR" }))
}

/// Names of the files in a pool's folder.
pub fn volumes(zone: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(pool(zone)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs `virsh` on the lab's libvirt, past the program and its SSH.
pub fn try_virsh(args: &[&str]) -> Result<String, String> {
    let uri = format!("qemu+unix:///system?socket={}", lab("LAB_SOCKET"));
    let output = Command::new("virsh").args(["--quiet", "-c", &uri]).args(args).output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap().trim_end().to_owned());
    }
    Err(format!("virsh {args:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// As [`try_virsh`], and it must succeed.
pub fn virsh(args: &[&str]) -> String {
    try_virsh(args).unwrap_or_else(|error| panic!("{error}"))
}

/// Names of all domains.
pub fn domains() -> BTreeSet<String> {
    virsh(&["list", "--all", "--name"]).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// State of a domain, as `virsh domstate` says it.
pub fn state(domain: &str) -> String {
    virsh(&["domstate", domain])
}

/// Where libvirt keeps the UEFI variables of a domain.
pub fn nvram(domain: &str) -> PathBuf {
    PathBuf::from(format!("/var/lib/libvirt/qemu/nvram/{domain}_VARS.fd"))
}

/// Starts, stops or restarts a daemon of the lab.
pub fn daemon(action: &str, name: &str) {
    daemon_with(action, name, "TERM");
}

/// The same, by a signal of the caller's choice.
pub fn daemon_with(action: &str, name: &str, signal: &str) {
    assert!(Command::new(daemon_script()).args([action, name, signal]).status().unwrap().success(), "{action} {name}");
}

/// What starts and stops daemons.
pub fn daemon_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/realhost/daemon")
}

/// Runs a tool that must succeed, and returns what it printed.
pub fn tool(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// SHA-256 of a file. A tool's, because a debug build would take long over an image.
pub fn sha256(path: &Path) -> String {
    tool("sha256sum", &[path.to_str().unwrap()])[..64].to_owned()
}

/// Looks every `pause` until `look` finds something, for at most `seconds`.
pub fn until<T>(what: &str, seconds: u64, pause: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(seconds), "not within {seconds} s: {what}");
        std::thread::sleep(pause);
    }
}
