//! The block of the config, field by field.

use super::*;
use crate::provider::document::{Limits, Node, Severity};

const GOOD: &str = "\
sshKeyFile: ~/.ssh/id
knownHostsFile: known_hosts
images:
  debian-13: {url: 'https://a.example/d.qcow2', checksumUrl: 'https://a.example/SHA512SUMS'}
machineTypes:
  small: {vcpus: 1, memoryMiB: 1024}
hosts:
- {name: h1, address: kvm1, user: egress, bridge: br0}
";

fn read(text: &str) -> (Option<LibvirtConfig>, Vec<String>) {
    let node = Node::parse(text, 0, Limits::CONFIG).expect("YAML").expect("a document");
    let mut findings = Findings::default();
    let folders = Folders { config: "/etc/fleet".into(), home: Some("/home/u".into()) };
    let block = node.read("kvm2", &mut findings);
    let misfits = findings.has_errors();
    let entry: Label = "lab".parse().expect("a label");
    let (outline, config) = LibvirtConfig::read(&entry, &block, &folders, &mut findings);
    find_twins(&BTreeMap::from([(entry, outline)]), &mut findings);
    let lines = findings
        .into_vec()
        .into_iter()
        .map(|f| {
            let mark = if f.severity == Severity::Warning { "warning: " } else { "" };
            format!("{}:{}: {mark}{}: {}", f.at.line, f.at.column, f.path, f.message)
        })
        .collect();
    (config.filter(|_| !misfits), lines)
}

/// The messages of `GOOD` with `from` replaced by `to`.
fn changed(from: &str, to: &str) -> Vec<String> {
    assert!(GOOD.contains(from), "{from}");
    read(&GOOD.replacen(from, to, 1)).1
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let (config, lines) = read(GOOD);
    assert_eq!(lines, Vec::<String>::new());
    let config = config.expect("sound");
    assert_eq!(config.ssh_key_file, Some("/home/u/.ssh/id".into()));
    assert_eq!(config.known_hosts_file, Some("/etc/fleet/known_hosts".into()));
    assert_eq!((config.disk_bytes, config.max_image_bytes), (10 * GIB, 20 * GIB));
    assert_eq!((config.boot_deadline, config.drain_timeout), (Duration::from_mins(15), Duration::from_mins(1)));
    assert!(config.install_guest_agent && !config.autostart && !config.allow_url_images);
    let host = config.hosts.values().next().expect("a host");
    assert_eq!(
        (host.pool.as_str(), host.domain_type, host.cpu.mode),
        ("default", DomainType::Kvm, CpuMode::HostPassthrough)
    );
    let Access::Ssh(ssh) = &host.access else { panic!("SSH") };
    assert_eq!((ssh.address.to_string().as_str(), ssh.user.as_str()), ("kvm1:22", "egress"));
    assert_eq!(config.budgets, Budgets::default());
}

#[test]
fn all_problems_are_found_at_once_under_the_name_of_the_block() {
    let (config, lines) = read(
        "\
diskSizeGb: 17179869184
maxImageGiB: 0
images: {Debian: {url: 'http://a.example/d'}, b: {format: vmdk}}
machineTypes: {small: {vcpus: 513, memoryMiB: 32}}
bootDeadline: 90
hosts:
- {name: h1, address: '::1', user: a@b, bridge: '-br', domainType: qemu, cpu: {mode: host-passthrough}}
- {name: h1, local: true, bridge: br0, maxInstances: 0, colour: red}
budgets: {call: 1s}
",
    );
    assert!(config.is_none());
    let expected = [
        "2:14: kvm2.maxImageGiB: 0 is out of bounds",
        "1:13: kvm2.diskSizeGb: 17179869184 is out of bounds; use 1 to 65536",
        "3:10: kvm2.images.Debian: this key is no name",
        "kvm2.images.Debian.url: plain http needs a checksum",
        "kvm2.images.b.url: this field is required",
        "kvm2.images.b.format: expected qcow2 or raw",
        "kvm2.machineTypes.small.vcpus: 513 is out of bounds; use 1 to 512",
        "kvm2.machineTypes.small.memoryMiB: 32 is out of bounds",
        "1:1: kvm2.sshKeyFile: this field is required for SSH hosts",
        "1:1: kvm2.knownHostsFile: this field is required for SSH hosts",
        "5:15: kvm2.bootDeadline: expected a duration",
        "kvm2.hosts[0].address: an IPv6 address is written in brackets",
        "kvm2.hosts[0].user: this is no user name",
        "kvm2.hosts[0].bridge: use letters",
        "kvm2.hosts[0].cpu.mode: host-passthrough needs domainType kvm",
        "8:10: kvm2.hosts[1].name: h1 is taken, first on line 7",
        "kvm2.hosts[1].maxInstances: 0 is out of bounds",
        "kvm2.hosts[1].colour: unknown field",
        "kvm2.budgets.call: 1s is out of bounds; use 5s to 10m",
    ];
    for start in expected {
        assert!(lines.iter().any(|line| line.contains(start)), "{start}\n{lines:#?}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}

#[test]
fn one_thing_wrong_is_one_message() {
    let table = [
        ("sshKeyFile: ~/.ssh/id", "sshKeyFile: ~", "1:1: kvm2.sshKeyFile: this field is required for SSH hosts"),
        ("knownHostsFile: known_hosts", "knownHostsFile: ~x", "2:17: kvm2.knownHostsFile: only ~/ is expanded"),
        (
            "bridge: br0",
            "bridge: br0, local: true",
            "8:23: kvm2.hosts[0].address: a local host is not reached over SSH",
        ),
        (", bridge: br0", "", "8:3: kvm2.hosts[0].bridge: this field is required"),
        ("machineTypes:\n  small: {vcpus: 1, memoryMiB: 1024}", "machineTypes: {}", "kvm2.machineTypes: at least one"),
        ("name: h1", "name: H1", "8:10: kvm2.hosts[0].name: 'H' is not allowed here"),
        ("bridge: br0", "bridge: br0, pool: a/b", "kvm2.hosts[0].pool: use letters"),
        ("bridge: br0", "bridge: br0, socket: run/x", "kvm2.hosts[0].socket: expected the absolute path"),
        ("bridge: br0", "bridge: br0, aliases: [h1]", "kvm2.hosts[0].aliases[0]: h1 is taken"),
        ("bridge: br0", "bridge: br0, cpu: {mode: custom}", "kvm2.hosts[0].cpu.model: a custom CPU needs a model"),
        ("hosts:", "allowUrlImages: true\nhosts:", "7:17: kvm2.allowUrlImages: URL images need imageHosts"),
        ("hosts:", "diskOvercommit: 0.5\nhosts:", "7:17: kvm2.diskOvercommit: expected a number from 1.0 to 100.0"),
        ("hosts:", "poolReserve: 5GB\nhosts:", "7:14: kvm2.poolReserve: expected a size"),
        (
            "checksumUrl: 'https://a.example/SHA512SUMS'",
            "checksum: 'md5:00'",
            "kvm2.images.debian-13.checksum: expected sha256:",
        ),
        (
            ", checksumUrl: 'https://a.example/SHA512SUMS'",
            "",
            "warning: kvm2.images.debian-13.url: this image has no checksum",
        ),
        (
            "url: 'https://a.example/d.qcow2'",
            "url: 'https://a.example/d-bios-1.qcow2'",
            "warning: kvm2.images.debian-13.url: this image is not known to boot",
        ),
    ];
    for (from, to, start) in table {
        let lines = changed(from, to);
        assert_eq!(lines.len(), if to.contains("local: true") { 2 } else { 1 }, "{to}: {lines:#?}");
        assert!(lines[0].contains(start), "{start}\n{lines:#?}");
    }
}

#[test]
fn c07_one_name_with_several_ports_is_not_a_duplicate_and_one_daemon_twice_is() {
    let second = |host: &str| changed("hosts:\n", &format!("hosts:\n- {{name: h0, user: x, bridge: br1, {host}}}\n"));
    for host in ["address: 'kvm1:2222'", "address: kvm1, pool: other", "address: kvm2"] {
        assert_eq!(second(host), Vec::<String>::new(), "{host}");
    }
    for host in ["address: kvm1", "address: 'KVM1:22'"] {
        let lines = second(host);
        assert!(
            lines[0].contains("9:3: kvm2.hosts[1]: the host lab/h1 is the same daemon and pool as lab/h0 on line 8"),
            "{lines:#?}"
        );
    }
}

#[test]
fn l34_userinfo_in_a_url_is_refused_without_showing_it() {
    let lines = changed("https://a.example/d.qcow2", "https://u:CANARY@a.example/d.qcow2");
    assert!(lines[0].contains("4:20: kvm2.images.debian-13.url: a URL may not hold a user or password"), "{lines:#?}");
    assert!(!lines.concat().contains("CANARY"));
}

#[test]
fn plain_http_is_pinned_by_a_checksum_or_a_digest_file_over_https() {
    let from = "url: 'https://a.example/d.qcow2', checksumUrl: 'https://a.example/SHA512SUMS'";
    let sum = "a".repeat(64);
    for good in
        [format!("checksum: 'sha256:{sum}'"), format!("sha256: '{sum}'"), "checksumUrl: 'https://a.example/S'".into()]
    {
        assert_eq!(changed(from, &format!("url: 'http://a.example/d', {good}")), Vec::<String>::new(), "{good}");
    }
    let lines = changed(from, "url: 'http://a.example/d', checksumUrl: 'http://a.example/S'");
    assert!(lines[0].contains("plain http needs a checksum"), "{lines:#?}");
}

#[test]
fn l38_c03_vendor_data_that_cloud_init_would_ignore_is_refused_without_showing_it() {
    let lines = changed("hosts:", "vendorData: |\n  packages: [CANARY]\nhosts:");
    assert!(lines[0].contains("7:1: kvm2.vendorData: cloud-init would ignore this vendor-data"), "{lines:#?}");
    assert!(!lines.concat().contains("CANARY"));
    assert_eq!(changed("hosts:", "vendorData: |\n  #cloud-config\n  packages: [curl]\nhosts:"), Vec::<String>::new());
    let (config, _) = read(&GOOD.replacen("hosts:", "vendorData: |\n  #!/bin/sh\n  echo CANARY\nhosts:", 1));
    let config = config.expect("sound");
    assert!(!format!("{config:?}").contains("CANARY"));
}

#[test]
fn key_files_are_not_needed_for_recorded_and_local_hosts() {
    let text = GOOD.replacen("sshKeyFile: ~/.ssh/id\nknownHostsFile: known_hosts\n", "", 1);
    for host in ["recorded: rec/h1.yaml", "local: true"] {
        let text = text.replacen("address: kvm1, user: egress", host, 1);
        let (config, lines) = read(&text);
        assert_eq!(lines, Vec::<String>::new(), "{host}");
        assert!(config.is_some());
    }
    let (_, lines) = read(&text);
    assert_eq!(lines.len(), 2, "{lines:#?}");
}

#[test]
fn l35_url_images_are_off_and_then_bound_to_the_hosts_named() {
    let (config, _) = read(GOOD);
    assert!(config.expect("sound").image("https://a.example/x").expect_err("off").contains("may not be a URL"));
    let (config, _) = read(&GOOD.replacen("hosts:", "allowUrlImages: true\nimageHosts: [A.example]\nhosts:", 1));
    let config = config.expect("sound");
    let (key, _) = config.image("https://a.example/x?CANARY").expect("allowed");
    assert!(key.starts_with("url-") && key.len() == 20, "{key}");
    for bad in ["https://b.example/x?CANARY", "http://a.example/x", "https://u:CANARY@a.example/x", "https://"] {
        let message = config.image(bad).expect_err(bad);
        assert!(!message.contains("CANARY"), "{message}");
    }
}

#[test]
fn an_insecure_entry_warns_on_every_run() {
    let lines = changed("knownHostsFile: known_hosts", "insecureIgnoreHostKey: true");
    assert!(lines[0].contains("warning: kvm2.insecureIgnoreHostKey: any host key is accepted"), "{lines:#?}");
}
