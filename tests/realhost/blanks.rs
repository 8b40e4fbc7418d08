//! What needs no guest that boots: machines with an empty disk, which run and do nothing.

use std::path::Path;

use super::fleet::{Fleet, records, uuids};
use super::lab::{daemon, domains, lab, state, virsh, volumes};

/// Undoes what a trial did to the lab, also when it fails.
struct Undo<F: Fn()>(F);

impl<F: Fn()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Whether a pool holds anything that belongs to a machine.
fn holds(zone: &str, instance: &str) -> bool {
    volumes(zone).iter().any(|volume| volume.starts_with(instance))
}

pub fn saved_plan() {
    let fleet = Fleet::blank("saved");
    fleet.want("saved-1", "a");
    fleet.want("saved-2", "b");
    let plan = records().join("saved.plan");
    let plan = plan.to_str().unwrap();
    fleet.run(&["diff", "--out", plan]).must(0);
    fleet
        .run(&["apply", plan, "--auto-approve"])
        .must(0)
        .ends_with("Applied: 2 created, 0 started, 0 updated, 0 replaced, 0 deleted, 0 failed, 0 skipped.");
    fleet.diff(0).ends_with("No changes.");

    // Somebody else's run does what the second plan wants to do, before it.
    let before = uuids([&fleet.instance("saved-1", "a")]);
    fleet.unwant("saved-2");
    fleet.run(&["diff", "--out", plan, "--detailed-exitcode"]).must(2);
    fleet.apply(0);
    fleet.want("saved-1", "a");
    fleet.run(&["apply", plan, "--auto-approve"]).must(5).says(&["stale", &fleet.instance("saved-2", "b")]);
    assert_eq!(uuids([&fleet.instance("saved-1", "a")]), before);
    fleet.destroy();
}

pub fn moves() {
    let fleet = Fleet::blank("moves");
    fleet.want("moves-1", "a");
    fleet.apply(0);
    let (old, new) = (fleet.instance("moves-1", "a"), fleet.instance("moves-1", "b"));
    assert!(domains().contains(&old) && holds("a", &old));
    fleet.want("moves-1", "b");
    fleet.diff(0).says(&["default/moves-1 moves to lab/b"]);
    fleet.apply(0).ends_with("Applied: 1 created, 0 started, 0 updated, 0 replaced, 1 deleted, 0 failed, 0 skipped.");
    assert!(!domains().contains(&old) && !holds("a", &old), "{:?}", volumes("a"));
    assert!(holds("b", &new));
    assert_eq!(state(&new), "running");
    fleet.diff(0).ends_with("No changes.");
    fleet.destroy();
}

pub fn snapshots() {
    let fleet = Fleet::blank("snapshots");
    fleet.want("snap-1", "a");
    fleet.want("saved-memory-1", "a");
    fleet.apply(0);
    let (snapped, saved) = (fleet.instance("snap-1", "a"), fleet.instance("saved-memory-1", "a"));
    virsh(&["snapshot-create-as", &snapped, "before", "--diskspec", "vdb,snapshot=no"]);
    assert_eq!(virsh(&["snapshot-list", &snapped, "--name"]), "before");
    virsh(&["managedsave", &saved]);

    fleet.unwant("snap-1");
    // The saved one is blocked, since its memory would be lost, and everything else goes on.
    fleet.apply(3).says(&["the machine is off and its memory is saved", "managedsave-remove"]);
    assert!(!domains().contains(&snapped) && !holds("a", &snapped), "{:?}", volumes("a"));
    let memory = format!("/var/lib/libvirt/qemu/save/{saved}.save");
    assert!(domains().contains(&saved) && Path::new(&memory).exists());

    fleet.run(&["destroy", "--target", "default/saved-memory-1", "--auto-approve"]).must(0);
    assert!(!domains().contains(&saved) && !holds("a", &saved) && !Path::new(&memory).exists());
}

pub fn pool_stopped() {
    let fleet = Fleet::blank("stopped");
    fleet.want("stopped-1", "a");
    fleet.want("stopped-2", "b");
    let pool = lab("LAB_POOL_B");
    virsh(&["pool-destroy", &pool]);
    let started = Undo(|| _ = virsh(&["pool-start", &lab("LAB_POOL_B")]));
    fleet
        .diff(3)
        .says(&["pool-b is not running", "virsh -c qemu:///system pool-start pool-b"])
        .ends_with("Plan: 1 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 1 blocked.");
    fleet
        .apply(3)
        .says(&["pool-b is not running", "virsh -c qemu:///system pool-start pool-b"])
        .ends_with("Applied: 1 created, 0 started, 0 updated, 0 replaced, 0 deleted, 0 failed, 0 skipped.");
    let (there, missing) = (fleet.instance("stopped-1", "a"), fleet.instance("stopped-2", "b"));
    assert_eq!(state(&there), "running");
    assert!(!domains().contains(&missing));
    drop(started);
    fleet.apply(0).ends_with("Applied: 1 created, 0 started, 0 updated, 0 replaced, 0 deleted, 0 failed, 0 skipped.");
    assert_eq!(state(&missing), "running");
    fleet.destroy();
}

pub fn host_away() {
    let fleet = Fleet::blank("away");
    fleet.want("away-1", "a");
    fleet.want("away-2", "b");
    daemon("stop", "sshd-b");
    let started = Undo(|| daemon("start", "sshd-b"));
    fleet
        .diff(3)
        .says(&["lab/b   unknown: Unreachable", "Nothing is planned on this host.", "1 of 2 hosts is unknown"])
        .ends_with("Plan: 1 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 0 blocked.");
    drop(started);
    fleet.diff(0).ends_with("Plan: 2 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 0 blocked.");
}
