//! What may be pruned, on a recorded host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;

use super::*;
use crate::provider::LockAttempt;
use crate::provider::libvirt::config::PoolReserve;
use crate::provider::libvirt::host::calls::CallError;
use crate::provider::libvirt::host::link::{Link as _, Purpose};
use crate::provider::libvirt::host::recorded::{Effect, RecordedHost, RecordedLink, Rule, World};
use crate::provider::libvirt::naming::RunId;
use crate::provider::libvirt::site::Site;

const FOLDER: &str = "/var/lib/libvirt/images";
const ID: &str = "0123456789abcdef0123456789abcdef";
/// Long before the host's time, which is the first moment of 2026.
const OLD: &str = "2025-12-30T00:00:00Z";
const YOUNG: &str = "2025-12-31T23:00:00Z";

/// File name of base `n` of the image `id`.
fn base(id: &str, n: u32) -> String {
    format!("egress-plan-base-lab-debian-13-{id}-{n:012}.qcow2")
}

fn proof(base: &str) -> String {
    format!("{base}.sha256-{}", "e".repeat(64))
}

/// A host's file, put together line by line.
#[derive(Default)]
struct Host {
    volumes: String,
    domains: String,
}

impl Host {
    fn volume(mut self, name: &str, modified: &str, more: &str) -> Self {
        self.volumes += &format!(
            "  - {{name: {name}, format: qcow2, capacity: 2 GiB, allocation: 1 MiB, physical: 1 MiB, modified: {modified}{more}}}\n"
        );
        self
    }

    /// A base whose proof says its length.
    fn proven(self, base: &str, modified: &str) -> Self {
        self.volume(base, modified, "").proof_of(base, "1 MiB")
    }

    fn proof_of(mut self, base: &str, length: &str) -> Self {
        self.volumes += &format!("  - {{name: {}, capacity: {length}}}\n", proof(base));
        self
    }

    /// A disk of the file's `name` on top of `base`.
    fn overlay(self, name: &str, base: &str) -> Self {
        self.volume(name, OLD, &format!(", backing: {FOLDER}/{base}"))
    }

    /// Somebody's domain that names `path`.
    fn domain(mut self, name: &str, path: &str) -> Self {
        self.domains += &format!("- {{name: {name}, disks: [{{path: {path}}}]}}\n");
        self
    }

    fn start(self) -> Machine {
        let lists = |name: &str, list: &str| if list.is_empty() { String::new() } else { format!("{name}:\n{list}") };
        let yaml = format!(
            "format: egress-plan.dev/recorded/v1\nhostname: h1\npool:\n  path: {FOLDER}\n{}{}",
            lists("  volumes", &self.volumes),
            lists("domains", &self.domains)
        );
        Machine::start(RecordedHost::parse(&yaml, Path::new("h1.yaml")).expect("a host"))
    }
}

/// A host that this run has locked.
struct Machine {
    world: Arc<Mutex<World>>,
    calls: Box<dyn Calls>,
    fence: Fence,
}

impl Machine {
    fn start(host: RecordedHost) -> Self {
        let world = Arc::new(Mutex::new(World::new(host)));
        let link = RecordedLink::new(Arc::clone(&world));
        let opened = link.open(Purpose::Calls, Duration::from_secs(1)).now_or_never().expect("at once").expect("opens");
        let mut calls = opened.calls;
        let site = Site {
            fleet: "crawl".parse().expect("a label"),
            place: "lab/h1".parse().expect("a host"),
            aliases: Vec::new(),
            places: BTreeSet::new(),
            image_ids: BTreeSet::new(),
            run: RunId::parse("0123456789abcdef").expect("an id"),
            pool: "default".to_owned(),
            reserve: PoolReserve::Usual,
            wanted: BTreeSet::new(),
        };
        let (attempt, held) = lock::acquire(&mut *calls, &site).expect("locks");
        assert_eq!(attempt, LockAttempt::Acquired);
        let fence = Fence::default();
        fence.set(held);
        Self { world, calls, fence }
    }

    fn pool(&mut self) -> Pool {
        Pool::read(&mut *self.calls, "default").expect("answers")
    }

    fn now(&mut self) -> Timestamp {
        lock::clock(&mut *self.calls, &self.fence).expect("answers")
    }

    fn found(&mut self, needed: &[&str], leftovers: bool) -> Vec<(PruneKind, String)> {
        let needed = needed.iter().map(|id| (*id).to_owned()).collect();
        let now = self.now();
        let found = prunables(&self.pool(), &needed, leftovers, now);
        found.items.into_iter().map(|item| (item.kind, item.file)).collect()
    }

    fn remove(&mut self, kind: PruneKind, file: &str) -> Result<Pruned, ProviderError> {
        let item = Prunable { kind, file: file.to_owned(), bytes: 0, modified: None, machine: None };
        remove(&mut *self.calls, "default", &self.fence, &item)
    }

    fn has(&mut self, file: &str) -> bool {
        self.calls.volume(file).expect("answers").is_some()
    }

    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().expect("not poisoned")
    }
}

#[test]
fn a_base_is_proven_unproven_or_debris() {
    let (whole, young, old, used, short, alone) =
        (base(ID, 1), base(ID, 2), base(ID, 3), base(ID, 4), base(ID, 5), base(ID, 6));
    let mut host = Host::default()
        .proven(&whole, OLD)
        .volume(&young, YOUNG, "")
        .volume(&old, OLD, "")
        .volume(&used, OLD, "")
        .overlay("disk.qcow2", &used)
        .volume(&short, OLD, "")
        .proof_of(&short, "3 MiB")
        .proof_of(&alone, "1 MiB")
        .start();
    let now = host.now();
    let states: BTreeMap<String, (ImageState, Vec<String>)> = host
        .pool()
        .images(&"lab".parse().expect("a label"), now)
        .into_iter()
        .map(|image| {
            assert_eq!((image.key.as_str(), image.id.as_str()), ("debian-13", ID));
            (image.file, (image.state, image.users.into_iter().collect()))
        })
        .collect();
    let none = Vec::new;
    assert_eq!(
        states,
        BTreeMap::from([
            (whole, (ImageState::Proven, none())),
            (young, (ImageState::Unproven, none())),
            (old, (ImageState::Debris, none())),
            (used, (ImageState::Unproven, vec!["disk.qcow2".to_owned()])),
            (short, (ImageState::Debris, none())),
            (proof(&alone), (ImageState::Debris, none())),
        ])
    );
}

#[test]
fn a_machine_that_has_the_disk_is_the_user_and_not_the_disk() {
    let mut host = Host::default()
        .proven(&base(ID, 1), OLD)
        .overlay("disk.qcow2", &base(ID, 1))
        .domain("machine", &format!("{FOLDER}/disk.qcow2"))
        .start();
    assert_eq!(host.pool().users(&base(ID, 1)), BTreeSet::from(["machine".to_owned()]));
}

#[test]
fn l25_an_image_that_a_disk_a_domain_or_a_manifest_needs_never_goes() {
    let ids: Vec<String> = (1..=4).map(|n| format!("{n:032x}")).collect();
    let mut host = Host::default()
        .proven(&base(&ids[0], 1), OLD)
        .overlay("by-hand.qcow2", &base(&ids[0], 1))
        .proven(&base(&ids[1], 1), OLD)
        // Not active, and by another path to the folder.
        .domain("somebodys", &format!("/mnt/pool/{}", base(&ids[1], 1)))
        .proven(&base(&ids[2], 1), OLD)
        .proven(&base(&ids[3], 1), YOUNG)
        .start();
    assert_eq!(host.found(&[&ids[2]], false), [(PruneKind::Unused, base(&ids[3], 1))]);
}

#[test]
fn of_several_whole_bases_of_a_wanted_image_the_one_in_use_stays_alone() {
    let bases = |host: Host| host.proven(&base(ID, 2), OLD).proven(&base(ID, 1), OLD);
    let mut host = bases(Host::default()).overlay("disk.qcow2", &base(ID, 2)).start();
    assert_eq!(host.found(&[ID], false), [(PruneKind::Unused, base(ID, 1))]);
    let mut host = bases(Host::default()).start();
    assert_eq!(host.found(&[ID], false), [(PruneKind::Unused, base(ID, 2))]);
}

#[test]
fn of_several_whole_bases_of_a_wanted_image_the_first_stays() {
    let mut host = Host::default()
        .proven(&base(ID, 2), OLD)
        .proven(&base(ID, 1), OLD)
        .overlay("disk.qcow2", &base(ID, 1))
        .volume(&base(ID, 0), YOUNG, "")
        .start();
    assert_eq!(host.found(&[ID], false), [(PruneKind::Unused, base(ID, 2))]);
}

#[test]
fn l24_what_somebody_may_be_writing_is_left_alone() {
    let mut host = Host::default().volume(&base(ID, 1), YOUNG, "").volume(&base(ID, 2), OLD, "").start();
    assert_eq!(host.found(&[], false), [(PruneKind::Debris, base(ID, 2))]);
    host.world().pass(jiff::SignedDuration::from_hours(24));
    assert_eq!(host.found(&[], false).len(), 1, "the lock says what time it is, and it is an old one");
}

#[test]
fn leftovers_are_old_disks_of_ours_that_no_domain_has() {
    let disk = |name: &str| format!("egress-{name}-abcdefgh-01234567.qcow2");
    let mut host = Host::default()
        .volume(&disk("left"), OLD, "")
        .volume(&disk("written"), YOUNG, "")
        .volume(&disk("named"), OLD, "")
        .domain("somebodys", &format!("{FOLDER}/{}", disk("named")))
        .volume(&disk("below"), OLD, "")
        .overlay("snapshot.qcow2", &disk("below"))
        .volume("theirs-01234567.qcow2", OLD, "")
        .start();
    assert_eq!(host.found(&[], false), []);
    assert_eq!(host.found(&[], true), [(PruneKind::Leftover, disk("left"))]);
    for (name, pruned) in [
        ("left", Pruned::Removed),
        ("left", Pruned::Gone),
        ("written", Pruned::Kept("it is in use".to_owned())),
        ("named", Pruned::Kept("it is in use".to_owned())),
    ] {
        assert_eq!(host.remove(PruneKind::Leftover, &disk(name)).expect("answers"), pruned, "{name}");
    }
}

#[test]
fn an_unused_base_goes_with_its_proof() {
    let mut host = Host::default().proven(&base(ID, 1), OLD).proof_of(&base(ID, 2), "1 MiB").start();
    assert_eq!(host.remove(PruneKind::Unused, &base(ID, 1)).expect("answers"), Pruned::Removed);
    assert_eq!(host.remove(PruneKind::LoneProof, &proof(&base(ID, 2))).expect("answers"), Pruned::Removed);
    for file in [base(ID, 1), proof(&base(ID, 1)), proof(&base(ID, 2))] {
        assert!(!host.has(&file), "{file}");
    }
}

#[test]
fn l25_a_user_that_appears_meanwhile_gets_the_proof_back() {
    let mut host = Host::default().proven(&base(ID, 1), OLD).start();
    let world = Arc::clone(&host.world);
    let overlay = Host::default().overlay("new.qcow2", &base(ID, 1)).volumes;
    let appear = move || {
        let yaml = format!("pool:\n  volumes:\n{overlay}");
        let mut more = RecordedHost::parse(&yaml, Path::new("more.yaml")).expect("a host");
        world.lock().expect("not poisoned").edit(|host| host.pool.volumes.append(&mut more.pool.volumes));
    };
    let rule = Rule::nth(1, Effect::After(Arc::new(appear))).of("delete_volume").on(proof(&base(ID, 1)));
    host.world().fail(rule);
    let kept = host.remove(PruneKind::Unused, &base(ID, 1)).expect("answers");
    assert_eq!(kept, Pruned::Kept("new.qcow2 uses it".to_owned()));
    let pool = host.pool();
    assert!(pool.base(&base(ID, 1)).is_some_and(|base| base.is_proven()));
}

/// The lock of a run of another fleet, made at that moment.
fn other_lock(modified: &str) -> Host {
    Host::default().volume("egress-plan-other.lock-300-abcdefabcdefabcd-1", modified, "")
}

#[test]
fn l25_an_image_stays_while_a_run_of_another_fleet_may_be_about_to_use_it() {
    const NOW: &str = "2025-12-31T23:59:00Z";
    let kept = Pruned::Kept("a run of the fleet other is at work on the host".to_owned());
    let mut host = other_lock(NOW).proven(&base(ID, 1), OLD).start();
    assert_eq!(host.remove(PruneKind::Unused, &base(ID, 1)).expect("answers"), kept);
    assert!(host.pool().base(&base(ID, 1)).is_some_and(|base| base.is_proven()));
    // One that has run out is nobody's.
    let mut host = other_lock(YOUNG).proven(&base(ID, 1), OLD).start();
    assert_eq!(host.remove(PruneKind::Unused, &base(ID, 1)).expect("answers"), Pruned::Removed);
    // A run that locks the host while the proof goes has seen it, or does not see it any more.
    let mut host = Host::default().proven(&base(ID, 1), OLD).start();
    let (world, lock) = (Arc::clone(&host.world), other_lock(NOW).volumes);
    let appear = move || {
        let mut more =
            RecordedHost::parse(&format!("pool:\n  volumes:\n{lock}"), Path::new("more.yaml")).expect("a host");
        world.lock().expect("not poisoned").edit(|host| host.pool.volumes.append(&mut more.pool.volumes));
    };
    let rule = Rule::nth(1, Effect::After(Arc::new(appear))).of("delete_volume").on(proof(&base(ID, 1)));
    host.world().fail(rule);
    assert_eq!(host.remove(PruneKind::Unused, &base(ID, 1)).expect("answers"), kept);
    assert!(host.pool().base(&base(ID, 1)).is_some_and(|base| base.is_proven()));
}

#[test]
fn a_base_that_cannot_be_removed_gets_its_proof_back() {
    let mut host = Host::default().proven(&base(ID, 1), OLD).start();
    let refusal =
        CallError { code: code::SYSTEM_ERROR, domain: 0, message: "read-only".to_owned(), dead: false, ended: None };
    host.world().fail(Rule::always(Effect::Refuse(refusal)).of("delete_volume").on(base(ID, 1)));
    let failure = host.remove(PruneKind::Unused, &base(ID, 1)).expect_err("refused");
    assert!(failure.to_string().contains("read-only"), "{failure}");
    assert!(host.pool().base(&base(ID, 1)).is_some_and(|base| base.is_proven()));
}

#[test]
fn what_changed_since_it_was_chosen_stays() {
    let mut host = Host::default()
        .proven(&base(ID, 1), OLD)
        .volume(&base(ID, 2), YOUNG, "")
        .overlay("disk.qcow2", &base(ID, 1))
        .proven(&base(ID, 3), OLD)
        .start();
    for (kind, file, why) in [
        (PruneKind::Unused, base(ID, 1), "disk.qcow2 uses it"),
        (PruneKind::Unused, base(ID, 2), "somebody else is at work on it"),
        (PruneKind::Debris, base(ID, 3), "it was proven meanwhile"),
        (PruneKind::LoneProof, proof(&base(ID, 3)), "its image is there"),
    ] {
        assert_eq!(host.remove(kind, &file).expect("answers"), Pruned::Kept(why.to_owned()), "{file}");
        assert!(host.has(&file), "{file}");
    }
}

#[test]
fn nothing_goes_without_the_lock() {
    let mut host = Host::default().proven(&base(ID, 1), OLD).start();
    let held = host.fence.held().expect("locked");
    lock::release(&mut *host.calls, &held).expect("released");
    assert!(host.remove(PruneKind::Unused, &base(ID, 1)).is_err());
    host.fence.set(None);
    assert!(host.remove(PruneKind::Unused, &base(ID, 1)).is_err());
    assert!(host.has(&base(ID, 1)) && host.has(&proof(&base(ID, 1))));
}
