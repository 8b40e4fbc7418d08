//! Runs that are struck at moments that a seed chooses: killed, or cut off from a host. One plain run
//! afterwards must leave every machine whole, once, and nothing besides.
//!
//! `EGRESS_PLAN_SEED` chooses the moments again; the seed of a run is printed with what came of it.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::fleet::{ENTRY, Fleet, Image, Running, Settings};
use super::lab::{domains, lab, pool, state, tool, try_virsh, until, virsh, volumes};

/// How many runs are struck.
const STRIKES: usize = 12;
/// A run of this fleet makes about as many calls, on two hosts.
const CALLS: u64 = 70;
const SOON: Duration = Duration::from_millis(1);

/// What befalls a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strike {
    /// The program gets SIGKILL.
    Killed,
    /// Each session of both sshds gets SIGKILL: whatever is under way loses its answer.
    Cut,
}

/// Numbers that follow from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn seed() -> u64 {
    match std::env::var("EGRESS_PLAN_SEED") {
        Ok(text) => text.parse().expect("EGRESS_PLAN_SEED is a number"),
        Err(_) => u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap(),
    }
}

/// What is wanted in a round, as user-data by proxy and zone: from one round to the next there is a
/// create, a replacement, a move, and a deletion with a create elsewhere.
const ROUNDS: [&[(&str, &str, &str)]; 4] = [
    &[("struck-1", "a", "one")],
    &[("struck-1", "a", "two")],
    &[("struck-1", "b", "two"), ("struck-2", "a", "one")],
    &[("struck-2", "a", "one"), ("struck-3", "b", "one")],
];

fn want(fleet: &Fleet, round: &[(&str, &str, &str)]) {
    for entry in fs::read_dir(fleet.folder.join("manifests")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (proxy, zone, text) in round {
        let user_data = format!("cloudInit: \"#cloud-config\\n# {text}\\n\"");
        fleet.manifest(proxy, zone, "tiny", "blank", &user_data);
    }
}

/// Waits until the run has made `calls` calls; whether it did before it ended.
fn reaches(run: &mut Running, calls: u64) -> bool {
    loop {
        let ended = run.has_ended();
        if run.calls_so_far() >= calls {
            return !ended;
        }
        if ended {
            return false;
        }
        std::thread::sleep(SOON);
    }
}

/// Ends every session of both hosts, as a firewall or a crash would.
fn cut() {
    for name in ["sshd-a", "sshd-b"] {
        let listener = fs::read_to_string(format!("{}/pid/{name}", lab("LAB_DIR"))).unwrap();
        let output = std::process::Command::new("pgrep").args(["-P", listener.trim()]).output().unwrap();
        for session in String::from_utf8(output.stdout).unwrap().lines() {
            // One that has just ended is as good as one that is ended here.
            let _ = std::process::Command::new("kill").args(["-s", "KILL", session]).status();
        }
    }
}

/// Waits until the daemon has done what it was asked: a call goes on without whoever made it. A lock
/// outlives every call by far, and is about to be made old.
fn until_quiet(fleet: &Fleet) {
    let admin = |what: &str| tool("virt-admin", &["-c", "libvirtd:///system", what, "libvirtd"]);
    let figure = |text: &str, name: &str| -> u64 {
        let line = text.lines().find(|line| line.split(':').next().unwrap().trim() == name).unwrap();
        line.split(':').nth(1).unwrap().trim().parse().unwrap()
    };
    until("libvirtd is idle", 60, Duration::from_millis(10), || {
        let (threads, clients) = (admin("srv-threadpool-info"), admin("srv-clients-info"));
        let idle = figure(&threads, "freeWorkers") == figure(&threads, "nWorkers");
        (idle && figure(&threads, "jobQueueDepth") == 0 && figure(&clients, "nclients") == 0).then_some(())
    });
    // Workers for urgent calls are not in those figures. This asks for what is so already, and waits for
    // its turn with the domain; one that is gone meanwhile needs no waiting for.
    for name in domains().into_iter().filter(|name| machines_of(fleet).contains(name)) {
        let _ = try_virsh(&["autostart", "--disable", &name]);
    }
}

/// Names of all machines that the fleet may have.
fn machines_of(fleet: &Fleet) -> Vec<String> {
    let places = |proxy| ["a", "b"].map(|zone| fleet.instance(proxy, zone));
    ["struck-1", "struck-2", "struck-3"].into_iter().flat_map(places).collect()
}

/// Makes whatever lock a run left look as if its life were over.
fn outlive_locks(fleet: &Fleet) {
    let prefix = format!("egress-plan-{}.lock-", fleet.name);
    for zone in ["a", "b"] {
        for lock in volumes(zone).into_iter().filter(|volume| volume.starts_with(&prefix)) {
            tool("touch", &["-d", "10 minutes ago", pool(zone).join(lock).to_str().unwrap()]);
        }
    }
}

/// What differs from what is wanted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    /// Machines that are missing, off or unfinished, and disks that are missing.
    lost: Vec<String>,
    /// Machines, disks and locks that are too much.
    leaked: Vec<String>,
}

fn differences(fleet: &Fleet, round: &[(&str, &str, &str)]) -> Differences {
    let (mut lost, mut leaked) = (Vec::new(), Vec::new());
    let all = machines_of(fleet);
    let there = domains();
    let mut machines = BTreeSet::new();
    for zone in ["a", "b"] {
        let mut files = BTreeSet::new();
        for (proxy, _, _) in round.iter().filter(|(_, at, _)| *at == zone) {
            let name = fleet.instance(proxy, zone);
            if !there.contains(&name) || state(&name) != "running" || !virsh(&["dumpxml", &name]).contains(">ready<") {
                lost.push(name);
                continue;
            }
            let short = virsh(&["domuuid", &name])[..8].to_owned();
            files.extend([format!("{name}-{short}.qcow2"), format!("{name}-{short}-seed.iso")]);
            machines.insert(name);
        }
        let ours = |file: &String| {
            all.iter().any(|name| file.starts_with(name.as_str()))
                || file.starts_with(&format!("egress-plan-{}.lock-", fleet.name))
        };
        let found: BTreeSet<String> = volumes(zone).into_iter().filter(ours).collect();
        lost.extend(files.difference(&found).cloned());
        leaked.extend(found.difference(&files).cloned());
    }
    leaked.extend(all.into_iter().filter(|name| there.contains(name) && !machines.contains(name)));
    Differences { lost, leaked }
}

/// Base images of the entry that have no proof.
fn unproven() -> usize {
    let prefix = format!("egress-plan-base-{ENTRY}-blank-");
    let count = |zone| {
        let volumes = volumes(zone);
        let is_base = |volume: &&String| volume.starts_with(&prefix) && volume.rsplit('.').next() == Some("qcow2");
        volumes
            .iter()
            .filter(is_base)
            .filter(|base| !volumes.iter().any(|other| other.starts_with(&format!("{base}.sha256-"))))
            .count()
    };
    count("a") + count("b")
}

pub fn any_moment() {
    let seed = seed();
    let mut numbers = Numbers(seed);
    // Machines that a dead run left unfinished are replaced, one after the other has an address; these have
    // nothing to boot and never get one.
    let policy = "{minAge: 0s, maxDeletions: 100%, maxUnavailable: 100%}";
    let settings = Settings { policy, ..Settings::default() };
    let fleet = Fleet::new("struck", ENTRY, "libvirt", &[Image::blank()], &settings);
    let mut struck = [0; 2];
    for round in ROUNDS.iter().cycle().take(STRIKES) {
        let strike = if numbers.below(2) == 0 { Strike::Killed } else { Strike::Cut };
        let calls = 1 + numbers.below(CALLS);
        let context = format!("EGRESS_PLAN_SEED={seed}: {strike:?} at call {calls} on the way to {round:?}");
        want(&fleet, round);
        let mut run = fleet.start(&["apply", "--auto-approve", "--lock-timeout", "0s"], &[]);
        if reaches(&mut run, calls) {
            match strike {
                Strike::Killed => run.signal("KILL"),
                Strike::Cut => cut(),
            }
            struck[usize::from(strike == Strike::Cut)] += 1;
        }
        run.finish();
        until_quiet(&fleet);
        outlive_locks(&fleet);
        let again = fleet.run(&["apply", "--auto-approve"]);
        assert_eq!(again.code, Some(0), "{context}\n{}\n{}", again.stdout, again.stderr);
        fleet.diff(0).ends_with("No changes.");
        assert_eq!(differences(&fleet, round), Differences::default(), "{context}");
    }
    super::foreign::check().unwrap();
    // Each round has shown that nothing was lost or leaked and that one run was enough.
    println!("| {seed} | {} | {} | 0 | 0 | 0 | 1 | {} |", struck[0], struck[1], unproven());
    assert!(struck[0] + struck[1] >= STRIKES / 2, "EGRESS_PLAN_SEED={seed}: most runs ended before they were struck");
    fleet.destroy();
}
