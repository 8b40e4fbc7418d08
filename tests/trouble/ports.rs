//! Several hosts behind one name, each port of it with keys of its own.

use std::fs;
use std::path::{Path, PathBuf};

use super::fleet::Fleet;
use super::lab::{daemon, lab, pool, tool, virsh};

fn ssh(file: &str) -> PathBuf {
    Path::new(&lab("LAB_DIR")).join("ssh").join(file)
}

/// An sshd with host keys of its own, until this is dropped.
struct Sshd {
    name: String,
    kinds: &'static [&'static str],
}

impl Sshd {
    fn at(address: &str, kinds: &'static [&'static str]) -> Self {
        let name = format!("sshd-{}", address.rsplit_once(':').unwrap().1);
        let sshd = Self { name, kinds };
        let pid = Path::new(&lab("LAB_DIR")).join("pid").join(&sshd.name);
        let mut config = format!("ListenAddress {address}\nPidFile {}\n", pid.display());
        for kind in kinds {
            tool("ssh-keygen", &["-q", "-N", "", "-t", kind, "-f", sshd.file(kind).to_str().unwrap()]);
            config += &format!("HostKey {}\n", sshd.file(kind).display());
        }
        let of_a = fs::read_to_string(ssh("sshd-a")).unwrap();
        let own = |line: &&str| ["ListenAddress ", "PidFile ", "HostKey "].iter().any(|word| line.starts_with(word));
        let rest: Vec<&str> = of_a.lines().filter(|line| !own(line)).collect();
        fs::write(ssh(&sshd.name), config + &rest.join("\n") + "\n").unwrap();
        daemon("start", &sshd.name);
        sshd
    }

    fn file(&self, kind: &str) -> PathBuf {
        ssh(&format!("{}-{kind}", self.name))
    }

    /// A public key, as a line of `known_hosts` ends.
    fn key(&self, kind: &str) -> String {
        let text = fs::read_to_string(self.file(kind).with_extension("pub")).unwrap();
        text.split(' ').take(2).collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        daemon("stop", &self.name);
        for kind in self.kinds {
            fs::remove_file(self.file(kind)).unwrap();
            fs::remove_file(self.file(kind).with_extension("pub")).unwrap();
        }
        fs::remove_file(ssh(&self.name)).unwrap();
    }
}

/// A name for this machine, until this is dropped.
struct Named(PathBuf);

impl Named {
    fn new(name: &str) -> Self {
        let file = Path::new(&lab("LAB_DIR")).join("hosts");
        fs::write(&file, format!("127.0.0.1 localhost {name}\n::1 localhost\n")).unwrap();
        tool("mount", &["--bind", file.to_str().unwrap(), "/etc/hosts"]);
        Self(file)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        tool("umount", &["/etc/hosts"]);
        fs::remove_file(&self.0).unwrap();
    }
}

/// A third pool, for a third host, until this is dropped.
struct Third(PathBuf);

impl Third {
    const NAME: &str = "pool-c";

    fn new() -> Self {
        let folder = pool("b").with_file_name(Self::NAME);
        fs::create_dir(&folder).unwrap();
        virsh(&["pool-define-as", Self::NAME, "dir", "--target", folder.to_str().unwrap()]);
        virsh(&["pool-start", Self::NAME]);
        Self(folder)
    }
}

impl Drop for Third {
    fn drop(&mut self) {
        for action in ["pool-destroy", "pool-undefine"] {
            virsh(&[action, Self::NAME]);
        }
        fs::remove_dir(&self.0).unwrap();
    }
}

pub fn each_port_has_its_own_keys() {
    let (_named, _third) = (Named::new("relay.test"), Third::new());
    let one = Sshd::at("127.0.0.1:22001", &["ed25519", "rsa"]);
    let two = Sshd::at("127.0.0.1:22002", &["ed25519", "rsa"]);
    let three = Sshd::at("[::1]:22003", &["ed25519"]);
    let fourth = Sshd::at("127.0.0.1:22004", &["ed25519"]);

    let fleet = Fleet::blank("ports");
    let (config, known) = (fleet.folder.join("config.yaml"), fleet.folder.join("known_hosts"));
    let text = fs::read_to_string(&config).unwrap().replace(&lab("LAB_KNOWN_HOSTS"), known.to_str().unwrap());
    let mut text = text[..text.find("    hosts:\n").unwrap()].to_owned() + "    hosts:\n";
    for (name, address, pool) in [
        ("one", "relay.test:22001", lab("LAB_POOL_A")),
        ("two", "relay.test:22002", lab("LAB_POOL_B")),
        ("three", "[::1]:22003", Third::NAME.to_owned()),
    ] {
        let (user, bridge) = (lab("LAB_USER"), lab("LAB_BRIDGE"));
        text += &format!(
            "    - {{name: {name}, address: '{address}', user: {user}, pool: {pool}, bridge: {bridge}, domainType: qemu}}\n"
        );
    }
    fs::write(&config, text).unwrap();
    let write_lines = |lines: &[(&str, String)]| {
        let lines: Vec<String> = lines.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
        fs::write(&known, lines.concat()).unwrap();
    };
    let (first, second, ipv6) = ("[relay.test]:22001", "[relay.test]:22002", "[0:0:0:0:0:0:0:1]:22003");
    let of_first = [(first, one.key("ed25519")), (first, one.key("rsa"))];
    // Of the second only the RSA key is known, although its sshd prefers the other one.
    let of_others = [(second, two.key("rsa")), (ipv6, three.key("ed25519")), ("relay.test", fourth.key("ed25519"))];

    write_lines(&[&of_first[..], &of_others[..]].concat());
    let run = fleet.run(&["check"]).must(0);
    assert!(run.stdout.contains("3 hosts: 3 ready, 0 not ready."), "{}", run.stdout);

    // Without its lines the first is unknown, not changed, even where other lines have its very key.
    let lent = [(second, one.key("ed25519")), ("relay.test", one.key("ed25519"))];
    for others in [of_others.to_vec(), [&of_others[..], &lent[..]].concat()] {
        write_lines(&others);
        let run = fleet.run(&["check", "--target", "lab/one"]).must(1);
        let says = format!(
            "HostKeyMismatch at ssh: the host key is unknown: {} has no key for {first}; the host shows",
            known.display()
        );
        assert!(run.stdout.contains(&says) && !run.stdout.contains("changed"), "{}", run.stdout);
        assert!(run.stdout.contains("ssh-keyscan -p 22001 "), "{}", run.stdout);
    }
    // The others are what they were.
    write_lines(&of_others);
    let run = fleet.run(&["check"]).must(3);
    assert!(run.stdout.contains("3 hosts: 2 ready, 1 not ready."), "{}", run.stdout);
}
