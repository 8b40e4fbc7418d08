//! An sshd that is some way off: in a network namespace of its own, behind another one that carries
//! the packets between it and the lab, or loses them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::lab::{daemon_script, lab, tool};

/// The namespace in the middle, and the one at the end.
const ROAD: &str = "road";
const FAR: &str = "far";

/// Addresses that are for documentation: the lab's end, the middle's two, and the far end.
const NEAR_END: &str = "198.51.100.1";
const NEAR_HALF: &str = "198.51.100.2";
const FAR_HALF: &str = "203.0.113.1";
const FAR_END: &str = "203.0.113.2";

/// The road and the sshd at its end, which has the keys of sshd-b, until this is dropped.
pub struct Road {
    sshd: SocketAddr,
    /// Bytes that left the lab on the first link.
    counter: &'static str,
    middle: &'static str,
    far: &'static str,
}

impl Road {
    pub fn new() -> Self {
        let road = Self {
            sshd: SocketAddr::new(FAR_END.parse().unwrap(), 22),
            counter: "/sys/class/net/road-near/statistics/tx_bytes",
            middle: ROAD,
            far: FAR,
        };
        let ip = |line: String| drop(tool("ip", &line.split(' ').collect::<Vec<_>>()));
        for namespace in [ROAD, FAR] {
            ip(format!("netns add {namespace}"));
        }
        ip(format!("link add road-near type veth peer name near netns {ROAD}"));
        ip(format!("-n {ROAD} link add far type veth peer name near netns {FAR}"));
        ip(format!("address add {NEAR_END}/30 dev road-near"));
        ip(format!("-n {ROAD} address add {NEAR_HALF}/30 dev near"));
        ip(format!("-n {ROAD} address add {FAR_HALF}/30 dev far"));
        ip(format!("-n {FAR} address add {FAR_END}/30 dev near"));
        ip("link set road-near up".to_owned());
        for (namespace, link) in [(ROAD, "near"), (ROAD, "far"), (FAR, "near"), (FAR, "lo")] {
            ip(format!("-n {namespace} link set {link} up"));
        }
        ip(format!("route add {FAR_END} via {NEAR_HALF}"));
        ip(format!("-n {FAR} route add {NEAR_END} via {FAR_HALF}"));
        within(ROAD, "sh", &["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]);

        let ssh = Path::new(&lab("LAB_DIR")).join("ssh");
        let here = format!("ListenAddress {}", lab("LAB_SSH_B"));
        let config =
            fs::read_to_string(ssh.join("sshd-b")).unwrap().replace(&here, &format!("ListenAddress {FAR_END}:22"));
        fs::write(ssh.join("sshd-far"), config.replace("/pid/sshd-b", "/pid/sshd-far")).unwrap();
        within(FAR, &daemon(), &["start", "sshd-far"]);
        road
    }

    /// Where the sshd listens.
    pub fn address(&self) -> SocketAddr {
        self.sshd
    }

    /// Bytes that left the lab on this road so far.
    pub fn up(&self) -> u64 {
        fs::read_to_string(self.counter).unwrap().trim().parse().unwrap()
    }

    /// From now on the middle loses every packet, in both directions and without a word to anybody.
    pub fn lose_everything(&self) {
        self.blackholes("add");
    }

    /// Packets are carried again.
    pub fn carry(&self) {
        self.blackholes("del");
    }

    fn blackholes(&self, action: &str) {
        for end in [FAR_END, NEAR_END] {
            tool("ip", &["-n", self.middle, "route", action, "blackhole", &format!("{end}/32")]);
        }
    }

    /// Connections that the far end takes for established.
    pub fn established(&self) -> usize {
        let table = within(self.far, "cat", &["/proc/net/tcp"]);
        // The fourth column is the state.
        table.lines().filter(|line| line.split_whitespace().nth(3) == Some("01")).count()
    }
}

impl Drop for Road {
    fn drop(&mut self) {
        // What is not there, because it could not be made, need not go.
        let _ = std::panic::catch_unwind(|| within(FAR, &daemon(), &["stop", "sshd-far"]));
        for namespace in [self.far, self.middle] {
            let _ = std::panic::catch_unwind(|| tool("ip", &["netns", "delete", namespace]));
        }
        let _ = fs::remove_file(Path::new(&lab("LAB_DIR")).join("ssh/sshd-far"));
    }
}

fn daemon() -> String {
    daemon_script().to_str().unwrap().to_owned()
}

fn within(namespace: &str, program: &str, args: &[&str]) -> String {
    let network = format!("--net=/run/netns/{namespace}");
    tool("nsenter", &[&[network.as_str(), program], args].concat())
}
