//! A fleet whose host b is reached through a relay, and what must hold once all is well again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use egress_plan::provider::libvirt::naming::{BaseName, ProofName};

use super::CLOSING;
use super::fleet::{EMPTY, Fleet, Image, Run, Running, Settings};
use super::lab::{domains, lab, pool, sha256, tool, try_virsh, until, virsh, volumes};
use super::relay::{Relay, lead_through, random_disk};

/// Budgets that make a fault short. Each is well above what a loaded machine needs.
pub const SHORT: &str = "budgets: {dial: 8s, call: 10s, start: 15s, smallUpload: 10s, imageUpload: 120s, \
                         transferIdle: 5s, keepalive: 2s}";

/// A file of random bytes below the lab's web server: an image that no host has.
pub fn fresh_image(name: &str, mib: u32) -> Image {
    let file = format!("{name}.raw");
    let path = Path::new(&lab("LAB_WEB_DIR")).join(&file);
    random_disk(&path, mib);
    Image { key: "fresh", sha256: sha256(&path), url: file, format: "raw", firmware: "bios" }
}

/// A fleet with a machine on each host, of which b lies behind a relay.
pub struct Scene {
    pub fleet: Fleet,
    pub relay: Relay,
    image: Option<PathBuf>,
}

impl Scene {
    /// Blank machines, of an image that the hosts may have.
    pub fn blank(name: &str) -> Self {
        Self::new(name, Image::blank(), SHORT)
    }

    /// Machines of an image that no host has.
    pub fn fresh(name: &str, mib: u32) -> Self {
        // What a trial that failed has left would be counted.
        remove_bases();
        Self::new(name, fresh_image(name, mib), SHORT)
    }

    pub fn new(name: &str, image: Image, more: &str) -> Self {
        // Blank machines never get the address that a roll-out waits for from one to the next.
        let policy = "{minAge: 0s, maxDeletions: 100%, maxUnavailable: 100%}";
        let settings = Settings { policy, more: format!("    {more}\n"), ..Settings::default() };
        let key = image.key;
        let file = (key == "fresh").then(|| Path::new(&lab("LAB_WEB_DIR")).join(&image.url));
        let fleet = Fleet::new(name, "lab", "libvirt", &[image], &settings);
        let relay = Relay::to(&lab("LAB_SSH_B"));
        lead_through(&fleet, "LAB_SSH_B", &relay);
        for zone in ["a", "b"] {
            fleet.manifest(&format!("{name}-{zone}"), zone, "tiny", key, EMPTY);
        }
        Self { fleet, relay, image: file }
    }

    /// The machine on a host.
    pub fn machine(&self, zone: &str) -> String {
        self.fleet.instance(&format!("{}-{zone}", self.fleet.name), zone)
    }

    pub fn apply(&self) -> Running {
        self.fleet.start(&["apply", "--auto-approve"], &[])
    }

    /// Demands that a machine of the other host was made although b was in trouble.
    pub fn other_host_is_done(&self, run: &Run) {
        assert_eq!(try_virsh(&["domstate", &self.machine("a")]).as_deref(), Ok("running"), "{}", run.all());
    }

    /// All is well again: the next plain run, after the lock of a run that lost its host has run
    /// out, finishes what is missing, and leaves neither a twin nor debris but a base without a proof.
    pub fn converges(&self) {
        self.relay.heal();
        expire_locks(&self.fleet);
        let run = self.fleet.apply(0);
        self.fleet.diff(0).ends_with("No changes.");
        for zone in ["a", "b"] {
            let name = self.machine(zone);
            assert_eq!(virsh(&["domstate", &name]), "running", "{}", run.all());
            let short = virsh(&["domuuid", &name])[..8].to_owned();
            let disks: Vec<String> = volumes(zone).into_iter().filter(|file| file.starts_with(&name)).collect();
            assert_eq!(disks, [format!("{name}-{short}-seed.iso"), format!("{name}-{short}.qcow2")], "{}", run.all());
            assert_eq!(locks(&self.fleet, zone), Vec::<String>::new());
        }
        if self.image.is_some() {
            for zone in ["a", "b"] {
                assert_eq!(proofs(zone).len(), 1, "{:?}", volumes(zone));
                assert_whole(zone);
            }
        }
    }

    /// Deletes all that the scene made.
    pub fn strike(self) {
        self.relay.heal();
        expire_locks(&self.fleet);
        self.fleet.destroy();
        if let Some(image) = &self.image {
            fs::remove_file(image).unwrap();
            remove_bases();
        }
    }
}

/// Waits until a line of the run's log holds all of the texts.
pub fn wait_for(run: &mut Running, texts: &[&str]) {
    until(&format!("the log holds {texts:?}"), 90, Duration::from_millis(2), || {
        let told = run.told(texts);
        assert!(told || !run.has_ended(), "the run ended before its log held {texts:?}");
        told.then_some(())
    });
}

/// Waits for the end of a run, which must come within `seconds` from now, and which must close
/// its connections at once.
pub fn end(run: Running, seconds: u64) -> Run {
    let begun = Instant::now();
    let run = run.finish();
    assert!(begun.elapsed() < Duration::from_secs(seconds), "it took {:?}\n{}", begun.elapsed(), run.all());
    assert!(run.closing < CLOSING, "closing took {:?}\n{}", run.closing, run.all());
    run
}

/// Lock volumes of a fleet on a host.
pub fn locks(fleet: &Fleet, zone: &str) -> Vec<String> {
    let prefix = format!("egress-plan-{}.lock-", fleet.name);
    volumes(zone).into_iter().filter(|volume| volume.starts_with(&prefix)).collect()
}

/// Makes the locks that a lost run left as old as they would be in ten minutes.
pub fn expire_locks(fleet: &Fleet) {
    for zone in ["a", "b"] {
        for lock in locks(fleet, zone) {
            tool("touch", &["-d", "10 minutes ago", pool(zone).join(lock).to_str().unwrap()]);
        }
    }
}

/// Proofs of the scenes' images in a pool.
pub fn proofs(zone: &str) -> Vec<ProofName> {
    let all = volumes(zone);
    all.iter().filter_map(|file| ProofName::parse(file)).filter(|proof| proof.base.owner() == "lab-fresh").collect()
}

/// Bases of the scenes' images in a pool.
pub fn bases(zone: &str) -> Vec<String> {
    let all = volumes(zone);
    all.into_iter().filter(|file| BaseName::parse(file).is_some_and(|base| base.owner() == "lab-fresh")).collect()
}

/// Demands that each proof's base is there and has the digest that the proof says.
pub fn assert_whole(zone: &str) {
    for proof in proofs(zone) {
        assert_eq!(sha256(&pool(zone).join(proof.base.to_string())), proof.sha256);
    }
}

/// Removes the scenes' images from both pools.
pub fn remove_bases() {
    for zone in ["a", "b"] {
        for file in bases(zone).into_iter().chain(proofs(zone).iter().map(ToString::to_string)) {
            fs::remove_file(pool(zone).join(file)).unwrap();
        }
        let name = lab(if zone == "a" { "LAB_POOL_A" } else { "LAB_POOL_B" });
        // The pool may be busy for a moment after an upload.
        until("the pool is looked at", 30, Duration::from_millis(50), || try_virsh(&["pool-refresh", &name]).ok());
    }
}

/// Every trial has swept away what it made: no machine is left, and in the pools nothing but the one
/// image that all share.
pub fn nothing_is_left() {
    assert_eq!(domains(), BTreeSet::new());
    for zone in ["a", "b"] {
        let left: Vec<String> =
            volumes(zone).into_iter().filter(|file| !file.starts_with("egress-plan-base-lab-blank-")).collect();
        assert_eq!(left, Vec::<String>::new(), "pool {zone}");
    }
}
