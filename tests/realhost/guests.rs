//! Debian guests with cloud-init, the guest agent and Squid: from nothing to proxies and back.
//!
//! Each boot takes a minute and more in software emulation, so there are five: three at once, one for
//! the replaced machine, and one for the machine that is started again, which nobody waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use super::fleet::{Fleet, Image, Run, Settings, json, records, uuids};
use super::lab::{domains, lab, nvram, pool, sha256, state, until, virsh, volumes};
use super::secrets::{IN_QUERY, IN_SECRET, IN_USER_DATA, IN_VENDOR_DATA};
use super::{foreign, proxy};

/// The proxies and their hosts.
const MACHINES: [(&str, &str); 3] = [("crawl-1", "a"), ("crawl-2", "b"), ("crawl-3", "a")];

/// The fleet. Its user-data comes in each of the three ways.
pub static CRAWL: LazyLock<Fleet> = LazyLock::new(|| {
    let image = lab("LAB_IMAGE");
    let sha256 = sha256(&Path::new(&lab("LAB_WEB_DIR")).join(&image));
    let url = format!("{image}?token={IN_QUERY}");
    let image = Image { key: "debian", url, sha256, format: "qcow2", firmware: "uefi" };
    let more = format!("    vendorData: \"#cloud-config\\nbootcmd: [[true, {IN_VENDOR_DATA}]]\\n\"\n");
    let settings = Settings { policy: "{minAge: 0s}", drain: "5m", disk_gib: 2, more };
    let fleet = Fleet::new("crawl", "lab", "libvirt", &[image], &settings);
    fs::write(fleet.folder.join("manifests/crawl-1.user-data"), user_data("crawl-1", IN_USER_DATA)).unwrap();
    let secret = fleet.folder.join("secrets/default/squid");
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("user-data"), user_data("crawl-3", IN_SECRET)).unwrap();
    fleet.manifest("crawl-1", "a", "small", "debian", "cloudInitFrom: {file: crawl-1.user-data}");
    inline(&fleet, "crawl-2");
    fleet.manifest("crawl-3", "a", "small", "debian", "cloudInitFrom: {secretKeyRef: {name: squid, key: user-data}}");
    fleet
});

/// Writes the manifest of crawl-2, whose Squid calls itself `host_name`.
fn inline(fleet: &Fleet, host_name: &str) {
    let text = serde_json::to_string(&user_data(host_name, IN_USER_DATA)).unwrap();
    fleet.manifest("crawl-2", "b", "small", "debian", &format!("cloudInit: {text}"));
}

/// The lab's Squid with a name of its own, and a secret in a comment.
fn user_data(host_name: &str, secret: &str) -> String {
    let squid = include_str!("squid.yaml");
    assert!(squid.contains("visible_hostname egress\n"));
    squid.replace("visible_hostname egress\n", &format!("visible_hostname {host_name}\n")) + &format!("# {secret}\n")
}

fn instances() -> Vec<String> {
    MACHINES.iter().map(|(proxy, zone)| CRAWL.instance(proxy, zone)).collect()
}

/// Pools before the first apply of this fleet.
static BEFORE: Mutex<BTreeMap<&str, BTreeSet<String>>> = Mutex::new(BTreeMap::new());
static APPLIED: Mutex<Option<Run>> = Mutex::new(None);
static ADDRESSES: Mutex<BTreeMap<&str, IpAddr>> = Mutex::new(BTreeMap::new());

fn address(proxy: &str) -> IpAddr {
    *ADDRESSES.lock().unwrap().get(proxy).expect("it has an address")
}

pub fn check() {
    let run = CRAWL.run(&["check", "--log-format", "text", "-vv"]).must(0);
    run.says(&[
        "lab/a",
        "lab/b",
        "libvirt ",
        "hypervisor ",
        "pool pool-a",
        "pool pool-b",
        "user root",
        "hostname host.lab.invalid",
    ])
    .ends_with("2 hosts: 2 ready, 0 not ready.");
}

pub fn diff_before() {
    BEFORE.lock().unwrap().extend(["a", "b"].map(|zone| (zone, volumes(zone))));
    let run = CRAWL.run(&["diff", "--detailed-exitcode"]).must(2);
    run.says(&["to be fetched first: debian"])
        .ends_with("Plan: 3 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 0 blocked.");
}

pub fn apply() {
    let (report, inventory) = (records().join("crawl-report.json"), records().join("crawl-inventory.json"));
    let run = CRAWL.run(&[
        "apply",
        "--auto-approve",
        "--wait",
        "address",
        "--wait-timeout",
        "20m",
        "--report",
        report.to_str().unwrap(),
        "--inventory",
        inventory.to_str().unwrap(),
    ]);
    let run =
        run.must(0).ends_with("Applied: 3 created, 0 started, 0 updated, 0 replaced, 0 deleted, 0 failed, 0 skipped.");
    *APPLIED.lock().unwrap() = Some(run);
    let report = json(&report);
    let leases = fs::read_to_string(Path::new(&lab("LAB_DIR")).join("leases")).unwrap();
    for (proxy, zone) in MACHINES {
        let name = CRAWL.instance(proxy, zone);
        fs::write(records().join(format!("{name}.xml")), virsh(&["dumpxml", &name])).unwrap();
        let told = report["proxies"].as_array().unwrap().iter().find(|told| told["instance"] == name.as_str()).unwrap();
        let (ip, state) = (told["ip"].as_str().unwrap_or("none"), told["addressState"].as_str().unwrap_or("none"));
        assert_eq!(state, "known", "{told}");
        // The network card's line of `domiflist` ends with its MAC.
        let card = virsh(&["domiflist", &name]);
        let mac = card.split_whitespace().last().unwrap();
        let agent = virsh(&["domifaddr", &name, "--source", "agent"]);
        let said = agent.lines().find(|line| line.contains(mac)).unwrap_or_else(|| panic!("{agent}"));
        assert!(said.contains(&format!("{ip}/")), "{ip} is not what the agent says: {agent}");
        assert!(leases.contains(&format!("{mac} {ip} ")), "{mac} {ip}: {leases}");
        ADDRESSES.lock().unwrap().insert(proxy, ip.parse().unwrap());

        // The secrets are where they are meant to be, or the search at the end would prove nothing.
        let uuid = virsh(&["domuuid", &name]);
        let seed = fs::read(pool(zone).join(format!("{name}-{}-seed.iso", &uuid[..8]))).unwrap();
        let secret = if proxy == "crawl-3" { IN_SECRET } else { IN_USER_DATA };
        assert!(seed.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()), "{secret} in {name}");
        assert!(nvram(&name).exists());
    }
    assert_eq!(json(&inventory)["proxies"].as_array().unwrap().len(), 3);
}

pub fn transfers() {
    let (image, log) = (lab("LAB_IMAGE"), fs::read_to_string(lab("LAB_WEB_LOG")).unwrap());
    let length = fs::metadata(Path::new(&lab("LAB_WEB_DIR")).join(&image)).unwrap().len();
    let asked: Vec<&str> = log.lines().filter(|line| line.contains(&image)).collect();
    assert_eq!(asked, [format!("GET /{image}?token={IN_QUERY} 200 {length}")]);
    let applied = APPLIED.lock().unwrap();
    let run = applied.as_ref().unwrap();
    for zone in ["a", "b"] {
        let lengths = run.calls(zone, "upload").into_iter().map(|call| call["length"].as_u64().unwrap());
        assert_eq!(lengths.filter(|sent| *sent == length).count(), 1, "uploads of the image to {zone}");
    }
}

/// Waits until a guest's Squid lets a GET through, and demands that its CONNECT works as the seed
/// says: to one port, and to no other.
fn serves(proxy: &str, host_name: &str) {
    let ip = address(proxy);
    let answer = until(&format!("{proxy} answers"), 600, Duration::from_secs(1), || {
        proxy::get(ip).ok().filter(proxy::Answer::is_hello)
    });
    assert!(answer.head.contains(&format!("from {host_name}")), "{proxy}: {}", answer.head);
    let answer = proxy::tunnel(ip, 443).unwrap();
    assert!(answer.is_hello(), "{proxy}: {}", answer.head);
    let answer = proxy::tunnel(ip, 22).unwrap();
    assert!(proxy::is_refused(&answer), "{proxy}: {}", answer.head);
}

pub fn proxies() {
    for (proxy, _) in MACHINES {
        serves(proxy, proxy);
    }
}

pub fn diff_after() {
    CRAWL.run(&["diff", "--detailed-exitcode"]).must(0).ends_with("No changes.");
}

pub fn replace_one() {
    let before = uuids(&instances());
    let changed = CRAWL.instance("crawl-2", "b");
    inline(&CRAWL, "crawl-2-again");
    CRAWL
        .run(&["diff", "--log-format", "text", "-vv"])
        .must(3)
        .says(&["default/crawl-2", "replace: user-data changed"])
        .ends_with("Plan: 0 to create, 0 to start, 0 to update, 1 to replace, 0 to delete, 1 blocked.");
    let report = records().join("replaced.json");
    let wait = ["--wait", "address", "--wait-timeout", "20m"];
    CRAWL
        .run(&[&["apply", "--auto-approve", "--report", report.to_str().unwrap()][..], &wait].concat())
        .must(3)
        .ends_with("Applied: 0 created, 0 started, 0 updated, 1 replaced, 0 deleted, 0 failed, 0 skipped.");
    // The MAC stays, and yet a guest that names itself to DHCP by its machine-id gets another lease.
    let report = json(&report);
    let told = report["proxies"].as_array().unwrap().iter().find(|told| told["instance"] == changed.as_str()).unwrap();
    ADDRESSES.lock().unwrap().insert("crawl-2", told["ip"].as_str().unwrap().parse().unwrap());
    let after = uuids(&instances());
    for (name, uuid) in &after {
        assert_eq!(before[name] != *uuid, *name == changed, "{name}");
    }
    let old = format!("{changed}-{}", &before[&changed][..8]);
    assert!(!volumes("b").iter().any(|volume| volume.starts_with(&old)), "{:?}", volumes("b"));
    serves("crawl-2", "crawl-2-again");
    serves("crawl-1", "crawl-1");
}

pub fn remove_one() {
    let name = CRAWL.instance("crawl-3", "a");
    let stay: Vec<String> = instances().into_iter().filter(|other| *other != name).collect();
    let before = uuids(&stay);
    assert!(volumes("a").iter().any(|volume| volume.starts_with(&name)) && nvram(&name).exists());
    CRAWL.unwant("crawl-3");
    let run = CRAWL
        .apply(3)
        .ends_with("Applied: 0 created, 0 started, 0 updated, 0 replaced, 1 deleted, 0 failed, 0 skipped.");
    assert!(!domains().contains(&name));
    assert!(!volumes("a").iter().any(|volume| volume.starts_with(&name)), "{:?}", volumes("a"));
    assert!(!nvram(&name).exists());
    assert_eq!(uuids(&stay), before);
    assert!(stay.iter().all(|name| state(name) == "running"));
    // The guest heard the power button, so nobody had to pull the plug.
    assert_eq!((run.calls("a", "shutdown").len(), run.calls("a", "destroy").len()), (1, 0));
}

pub fn paused() {
    let name = CRAWL.instance("crawl-1", "a");
    virsh(&["suspend", &name]);
    let before = virsh(&["dumpxml", &name]);
    let run = CRAWL.run(&["apply", "--auto-approve"]);
    let (after, found) = (virsh(&["dumpxml", &name]), state(&name));
    virsh(&["resume", &name]);
    run.must(3)
        .says(&["blocked: the machine is paused: by hand (user)", &format!("virsh -c qemu:///system resume {name}")]);
    assert_eq!((after, found.as_str()), (before, "paused"));
}

pub fn shut_off() {
    let name = CRAWL.instance("crawl-1", "a");
    let before = uuids(&instances()[..2]);
    virsh(&["destroy", &name]);
    CRAWL.diff(3).says(&["start: it is off (destroyed)"]);
    CRAWL.apply(3).ends_with("Applied: 0 created, 1 started, 0 updated, 0 replaced, 0 deleted, 0 failed, 0 skipped.");
    assert_eq!(state(&name), "running");
    assert_eq!(uuids(&instances()[..2]), before);
}

pub fn destroy() {
    // One of the guests has just begun to boot and would not hear the power button for a minute.
    let config = CRAWL.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("drain: {timeout: 5m}"));
    fs::write(&config, text.replace("drain: {timeout: 5m}", "drain: {timeout: 0s}")).unwrap();
    // The clone with the copied mark stays blocked, which is why this is incomplete.
    CRAWL.run(&["destroy", "--all", "--auto-approve"]).must(3);
    for name in instances() {
        assert!(!domains().contains(&name) && !nvram(&name).exists(), "{name}");
    }
    for zone in ["a", "b"] {
        let before = BEFORE.lock().unwrap()[zone].clone();
        let foreign = foreign::files();
        let left: Vec<String> =
            volumes(zone).into_iter().filter(|name| !before.contains(name) && !foreign.contains(name)).collect();
        let [base, proof] = &left[..] else { panic!("pool {zone}: {left:?}") };
        assert!(base.starts_with("egress-plan-base-lab-debian-") && base.rsplit('.').next() == Some("qcow2"), "{base}");
        assert!(proof.starts_with(&format!("{base}.sha256-")), "{proof}");
    }
}
