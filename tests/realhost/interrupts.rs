//! Runs that meet another run, are killed, or are told to stop.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::fleet::{EMPTY, Fleet, Image, Settings, json, records};
use super::lab::{domains, lab, pool, sha256, state, tool, until, virsh, volumes};

const SOON: Duration = Duration::from_millis(20);

/// The lock volume of a fleet on a host.
fn lock(fleet: &Fleet, zone: &str) -> Option<String> {
    let prefix = format!("egress-plan-{}.lock-", fleet.name);
    volumes(zone).into_iter().find(|volume| volume.starts_with(&prefix))
}

fn without_lock(fleet: &Fleet) {
    for zone in ["a", "b"] {
        assert_eq!(lock(fleet, zone), None, "pool {zone}");
    }
}

pub fn two_runs() {
    let fleet = Fleet::blank("twins");
    fleet.want("twins-1", "a");
    let mut first = fleet.start(&["apply", "--auto-approve"], &[]);
    // Both hosts are locked in order, so that b's lock says that a's is held too.
    until("the first run holds the lock", 60, SOON, || {
        assert!(!first.has_ended(), "the first run has ended");
        lock(&fleet, "b")
    });
    // Stopped, it cannot end before the second one has looked.
    first.signal("STOP");
    let second = fleet.run(&["apply", "--auto-approve", "--lock-timeout", "0s"]);
    first.signal("CONT");
    let name = fleet.instance("twins-1", "a");
    second.must(6).says(&["another run is at work on lab/a; nothing was done", "holds the lock, until"]);
    first.finish().must(0);
    assert_eq!(state(&name), "running");
    fleet.diff(0).ends_with("No changes.");

    // Without stopping either, one waits for the other, and both find nothing left to do but once.
    fleet.want("twins-2", "b");
    let start = || fleet.start(&["apply", "--auto-approve", "--lock-timeout", "5m"], &[]);
    let (one, other) = (start(), start());
    let runs = [one.finish(), other.finish()];
    let made = |run: &&super::fleet::Run| run.stdout.contains("Applied: 1 created");
    let codes: Vec<_> = runs.iter().map(|run| run.code).collect();
    assert_eq!((codes, runs.iter().filter(made).count()), (vec![Some(0), Some(0)], 1));
    without_lock(&fleet);
    fleet.destroy();
}

pub fn killed() {
    let fleet = Fleet::blank("killed");
    fleet.want("killed-1", "a");
    let name = fleet.instance("killed-1", "a");
    let first = fleet.start(&["apply", "--auto-approve"], &[]);
    let defined = format!("/etc/libvirt/qemu/{name}.xml");
    until("the domain is defined", 120, Duration::from_millis(1), || fs::metadata(&defined).ok());
    first.signal("KILL");
    assert_eq!(first.finish().code, None);
    let (xml, uuid) = (virsh(&["dumpxml", "--inactive", &name]), virsh(&["domuuid", &name]));
    assert!(xml.contains(">creating<"), "the kill came too late: {xml}");

    // The dead run's lock lives on until it is old, and holds the others off.
    fleet.diff(0).says(&["in progress: run", "is at work on it"]);
    fleet.run(&["apply", "--auto-approve", "--lock-timeout", "1s"]).must(6);
    for zone in ["a", "b"] {
        let lock = lock(&fleet, zone).expect("the dead run's lock");
        tool("touch", &["-d", "10 minutes ago", pool(zone).join(lock).to_str().unwrap()]);
    }
    fleet.diff(0).says(&["an interrupted run left it unfinished"]);
    fleet.apply(0);
    assert_ne!(virsh(&["domuuid", &name]), uuid);
    assert_eq!(state(&name), "running");
    let uuid = virsh(&["domuuid", &name]);
    let disks: Vec<String> = volumes("a").into_iter().filter(|volume| volume.starts_with(&name)).collect();
    let short = &uuid[..8];
    assert_eq!(disks, [format!("{name}-{short}-seed.iso"), format!("{name}-{short}.qcow2")]);
    without_lock(&fleet);
    fleet.diff(0).ends_with("No changes.");
    fleet.destroy();
}

pub fn interrupted_upload() {
    const LENGTH: u64 = 512 << 20;
    let file = Path::new(&lab("LAB_WEB_DIR")).join("big.raw");
    fs::File::create(&file).unwrap().set_len(LENGTH).unwrap();
    let image = Image { key: "big", url: "big.raw".to_owned(), sha256: sha256(&file), format: "raw", firmware: "bios" };
    let fleet = Fleet::new("upload", "lab", "libvirt", &[image], &Settings::default());
    fleet.manifest("upload-1", "a", "tiny", "big", EMPTY);
    let report = records().join("upload-report.json");
    let run = fleet.start(&["apply", "--auto-approve", "--report", report.to_str().unwrap()], &[]);
    let bases = || volumes("a").into_iter().filter(|volume| volume.starts_with("egress-plan-base-lab-big-"));
    let there = until("a part of the image is there", 300, SOON, || {
        let base = bases().next()?;
        let length = fs::metadata(pool("a").join(base)).ok()?.len();
        (length > 8 << 20).then_some(length)
    });
    run.signal("INT");
    let run = run.finish().must(130);
    assert!(there < LENGTH, "the upload was over before the signal");
    assert_eq!(bases().collect::<Vec<_>>(), Vec::<String>::new(), "{}", run.stdout);
    assert!(!domains().contains(&fleet.instance("upload-1", "a")));
    without_lock(&fleet);
    let report = json(&report);
    assert_eq!((&report["run"]["result"], &report["run"]["exitCode"]), (&"interrupted".into(), &130.into()));
    fs::remove_file(file).unwrap();
}
