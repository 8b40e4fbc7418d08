//! Pools that fill up, are busy or go away, and files that somebody meddles with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::fleet::Fleet;
use super::lab::{domains, lab, pool, state, tool, try_virsh, until, virsh, volumes};
use super::relay::Traffic;
use super::scene::{Scene, assert_whole, bases, end, proofs};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_millis(1);

/// A file that takes room in a pool's file system, until this is dropped.
struct Filler(PathBuf);

impl Filler {
    /// Takes this many bytes, or all that there are.
    fn taking(zone: &str, bytes: Option<u64>) -> Self {
        let path = pool(zone).join("filler");
        let count = bytes.map_or(1 << 30, |bytes| bytes / 4096);
        let args = [
            "if=/dev/zero".to_owned(),
            format!("of={}", path.display()),
            "bs=4096".to_owned(),
            format!("count={count}"),
        ];
        let ended = Command::new("dd").args(args).arg("status=none").output().unwrap();
        assert_eq!(ended.status.success(), bytes.is_some(), "{ended:?}");
        Self(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// The pool's file system is this much larger than what is in it, until this is dropped.
struct Small(&'static str);

impl Small {
    fn new(zone: &'static str, free: u64) -> Self {
        let used = tool("du", &["-s", "-B1", pool(zone).to_str().unwrap()]);
        let used: u64 = used.split_whitespace().next().unwrap().parse().unwrap();
        resize(zone, used + free);
        Self(zone)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        resize(self.0, 12 << 30);
    }
}

fn resize(zone: &str, bytes: u64) {
    tool("mount", &["-o", &format!("remount,size={bytes}"), pool(zone).to_str().unwrap()]);
}

/// Lets the config set nothing aside beyond what a trial fills.
fn small_reserve(fleet: &Fleet) {
    let config = fleet.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap().replace("poolReserve: 1GiB", "poolReserve: 1MiB");
    fs::write(&config, text.replace("diskSizeGb: 1", "diskSizeGb: 1\n    diskOvercommit: 100")).unwrap();
}

/// The pool is filled while an image is uploaded: at once, and so that only its last bytes do not
/// fit, which libvirt can report as a success.
pub fn full_in_an_upload() {
    for left in [None, Some(24 * MIB - 60 * 1024)] {
        let scene = Scene::fresh("sto-full", 24);
        small_reserve(&scene.fleet);
        let small = Small::new("b", 64 * MIB);
        scene.relay.traffic(Traffic::Narrow(8 << 20));
        let run = scene.apply();
        until("the upload to b has begun", 90, SOON, || bases("b").into_iter().next());
        let filler = Filler::taking("b", left.map(|left| 64 * MIB - left));
        let run = end(run, 120).must(7);
        scene.other_host_is_done(&run);
        assert!(run.stdout.contains("lab/b") && run.stdout.contains("quota"), "{}", run.stdout);
        // What did not arrive is neither proven nor left behind.
        assert_eq!((bases("b").len(), proofs("b").len()), (0, 0), "{}", run.all());
        drop((filler, small));
        scene.converges();
        scene.strike();
    }
}

pub fn full_at_the_overlay() {
    let scene = Scene::blank("sto-overlay");
    small_reserve(&scene.fleet);
    // The image is there, so that nothing but the disks takes room.
    scene.fleet.run(&["images", "prefetch", "-f", scene.fleet.folder.join("manifests").to_str().unwrap()]).must(0);
    let small = Small::new("b", 64 * MIB);
    let run = scene.apply();
    let defined = format!("/etc/libvirt/qemu/{}.xml", scene.machine("b"));
    until("the machine is defined", 90, SOON, || Path::new(&defined).exists().then_some(()));
    scene.relay.traffic(Traffic::Held);
    let filler = Filler::taking("b", None);
    scene.relay.heal();
    let run = end(run, 120).must(7);
    scene.other_host_is_done(&run);
    assert!(run.stdout.contains("quota"), "{}", run.stdout);
    drop((filler, small));
    scene.converges();
    scene.strike();
}

/// Somebody's jobs keep the pool busy while an image comes.
pub fn busy() {
    let scene = Scene::fresh("sto-busy", 8);
    let pool_name = lab("LAB_POOL_B");
    virsh(&["vol-create-as", &pool_name, "busy.raw", "512M", "--format", "raw"]);
    let ended = Arc::new(AtomicBool::new(false));
    let wiper = std::thread::spawn({
        let (ended, pool_name) = (Arc::clone(&ended), pool_name.clone());
        move || {
            while !ended.load(Ordering::SeqCst) {
                let _ = try_virsh(&["vol-wipe", "busy.raw", "--pool", &pool_name]);
            }
        }
    });
    let run = scene.apply().finish();
    ended.store(true, Ordering::SeqCst);
    wiper.join().unwrap();
    let refreshes = run.calls("b", "refresh_pool");
    let busy = refreshes.iter().filter(|call| call["error"].to_string().contains("asynchronous jobs")).count();
    assert!(busy > 0, "the pool was never busy: {refreshes:?}");
    let run = run.must(0);
    scene.other_host_is_done(&run);
    scene.converges();
    virsh(&["vol-delete", "busy.raw", "--pool", &pool_name]);
    scene.strike();
}

/// What may happen to a base and its proof, and what becomes of each.
pub fn meddled_bases() {
    let scene = Scene::fresh("sto-bases", 4);
    let fleet = &scene.fleet;
    let manifests = fleet.folder.join("manifests");
    let prefetch = || fleet.run(&["images", "prefetch", "-f", manifests.to_str().unwrap()]).must(0);
    let prune = || {
        fleet.run(&["images", "prune", "--auto-approve", "-f", manifests.to_str().unwrap()]).must(0);
    };
    let refresh = || {
        until("the pool is looked at", 30, Duration::from_millis(50), || {
            try_virsh(&["pool-refresh", &lab("LAB_POOL_B")]).ok()
        });
    };
    let only_base = || {
        let found = bases("b");
        assert_eq!((found.len(), proofs("b").len()), (1, 1), "{found:?}");
        pool("b").join(&found[0])
    };
    prefetch();

    // Deleted by hand: another one is brought, and the lone proof goes with the next prune.
    virsh(&["vol-delete", only_base().file_name().unwrap().to_str().unwrap(), "--pool", &lab("LAB_POOL_B")]);
    prefetch();
    assert_eq!((bases("b").len(), proofs("b").len()), (1, 2));
    prune();
    only_base();

    // Without its proof: not used, and kept while it may be somebody's upload.
    let unproven = only_base();
    fs::remove_file(pool("b").join(proofs("b")[0].to_string())).unwrap();
    refresh();
    prefetch();
    assert_eq!((bases("b").len(), proofs("b").len()), (2, 1));
    assert_ne!(pool("b").join(proofs("b")[0].base.to_string()), unproven);
    prune();
    assert!(unproven.exists());
    tool("touch", &["-d", "3 hours ago", unproven.to_str().unwrap()]);
    prune();
    assert!(!unproven.exists());

    // Shorter than its proof says: not used.
    let short = only_base();
    fs::OpenOptions::new().write(true).open(&short).unwrap().set_len(3 * MIB).unwrap();
    refresh();
    prefetch();
    assert_eq!(bases("b").len(), 2);
    let lengths: Vec<u64> = bases("b").iter().map(|base| fs::metadata(pool("b").join(base)).unwrap().len()).collect();
    assert!(lengths.contains(&(3 * MIB)) && lengths.contains(&(4 * MIB)), "{lengths:?}");
    tool("touch", &["-d", "3 hours ago", short.to_str().unwrap()]);
    prune();
    assert!(!short.exists());
    only_base();
    assert_whole("b");
    scene.converges();
    scene.strike();
}

pub fn unmounted() {
    let scene = Scene::blank("sto-mount");
    scene.converges();
    let (folder, name) = (pool("b"), lab("LAB_POOL_B"));
    let refresh = || virsh(&["pool-refresh", &name]);
    let before = volumes("b");
    tool("mount", &["-t", "tmpfs", "empty", folder.to_str().unwrap()]);
    refresh();
    let run = scene.fleet.diff(3).says(&["PoolLooksUnmounted", "mount"]);
    // The lab's hosts share a daemon, so that the other one shows the machine too, as not its own.
    assert!(run.stdout.contains("Plan: 0 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, "));
    let run = scene.fleet.run(&["apply", "--auto-approve"]).must(3);
    assert_eq!(volumes("b"), std::collections::BTreeSet::new(), "{}", run.all());
    assert_eq!(state(&scene.machine("b")), "running");
    tool("umount", &[folder.to_str().unwrap()]);
    refresh();
    assert_eq!(volumes("b"), before);
    scene.converges();
    scene.strike();
}

pub fn attached_disk() {
    let scene = Scene::blank("sto-disk");
    scene.converges();
    let (name, machine) = (lab("LAB_POOL_B"), scene.machine("b"));
    virsh(&["vol-create-as", &name, "data.qcow2", "16M", "--format", "qcow2"]);
    let data = pool("b").join("data.qcow2");
    let path = data.to_str().unwrap();
    virsh(&["attach-disk", &machine, path, "vdc", "--subdriver", "qcow2", "--persistent", "--live"]);
    scene.fleet.diff(0).ends_with("No changes.");
    scene.fleet.unwant("sto-disk-b");
    let run = scene.fleet.apply(0).says(&["data.qcow2"]);
    assert!(data.exists() && !domains().contains(&machine), "{}", run.all());
    assert!(!volumes("b").iter().any(|volume| volume.starts_with(&machine)));
    virsh(&["vol-delete", "data.qcow2", "--pool", &name]);
    scene.strike();
}

pub fn undefined_while_running() {
    let scene = Scene::blank("sto-transient");
    scene.converges();
    let machine = scene.machine("b");
    virsh(&["undefine", &machine]);
    // Recognised by the mark of what runs: no twin is built, and the run says what to do.
    scene.fleet.diff(0).says(&["define"]);
    scene.fleet.unwant("sto-transient-b");
    let run = scene.fleet.apply(0);
    assert!(!domains().contains(&machine), "{}", run.all());
    assert!(!volumes("b").iter().any(|volume| volume.starts_with(&machine)), "{}", run.all());
    scene.fleet.diff(0).ends_with("No changes.");
    scene.strike();
}

/// An overlay that somebody made by hand on a disk of ours, and that libvirt has not seen yet.
pub fn overlay_by_hand() {
    let scene = Scene::blank("sto-clone");
    scene.converges();
    let machine = scene.machine("b");
    let short = virsh(&["domuuid", &machine])[..8].to_owned();
    let disk = format!("{machine}-{short}.qcow2");
    let (clone, below) = (pool("b").join("clone.qcow2"), pool("b").join(&disk));
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"])
        .args([&below, &clone])
        .status()
        .expect("qemu-img starts");
    assert!(made.success());
    scene.fleet.unwant("sto-clone-b");
    let run = scene.fleet.apply(0).says(&[&disk]);
    assert!(below.exists() && clone.exists() && !domains().contains(&machine), "{}", run.all());
    for name in ["clone.qcow2", &disk] {
        virsh(&["vol-delete", name, "--pool", &lab("LAB_POOL_B")]);
    }
    scene.strike();
}

/// Another fleet prunes while this one brings its image and makes its machine.
pub fn prune_beside_a_create() {
    let scene = Scene::fresh("sto-prune", 24);
    let other = Fleet::blank("sto-other");
    other.want("sto-other-a", "a");
    let manifests = other.folder.join("manifests");
    scene.relay.traffic(Traffic::Narrow(4 << 20));
    let mut run = scene.apply();
    let mut prunes = 0;
    while !run.has_ended() {
        let args = ["images", "prune", "--leftovers", "--auto-approve", "-f", manifests.to_str().unwrap()];
        // Exit 0 in any case: what is in use is kept, which is no failure.
        other.run(&args).must(0);
        prunes += 1;
    }
    assert!(prunes > 1);
    let run = end(run, 120).must(0);
    for zone in ["a", "b"] {
        assert_eq!(state(&scene.machine(zone)), "running", "{}", run.all());
    }
    scene.converges();
    scene.strike();
}
