//! Two runs of two fleets that bring one image to one host at once, of which one may be killed.

use std::fs;
use std::time::{Duration, Instant};

use super::fleet::{EMPTY, Fleet, Settings};
use super::lab::{pool, tool};
use super::scene::{assert_whole, bases, expire_locks, fresh_image, proofs, remove_bases};

/// How often, in the suite and in `make soak`.
const ROUNDS: [u32; 2] = [6, 40];

/// A generator that is good enough to choose moments (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

pub fn rivals() {
    let seed =
        std::env::var("EGRESS_PLAN_SEED").map_or_else(|_| std::process::id().into(), |seed| seed.parse().unwrap());
    println!("EGRESS_PLAN_SEED={seed}");
    let mut random = Random(seed);
    let rounds = ROUNDS[usize::from(super::is_soak())];
    remove_bases();
    let first = fresh_image("rivals", 3);
    let fleets = ["riv-one", "riv-two"].map(|name| {
        let image = super::fleet::Image { url: first.url.clone(), sha256: first.sha256.clone(), ..first };
        let fleet = Fleet::new(name, "lab", "libvirt", &[image], &Settings::default());
        fleet.with_one_host();
        fleet.manifest(&format!("{name}-1"), "a", "tiny", "fresh", EMPTY);
        fleet
    });
    let start = |fleet: &Fleet| {
        fleet.start(&["images", "prefetch", "-f", fleet.folder.join("manifests").to_str().unwrap()], &[])
    };
    // Kills are spread over the whole of a run, however fast this machine is.
    let begun = Instant::now();
    start(&fleets[0]).finish().must(0);
    let whole = u64::try_from(begun.elapsed().as_millis()).unwrap();
    remove_bases();
    let (mut killed, mut alone) = (0, 0);
    for round in 0..rounds {
        let moment = Duration::from_millis(random.below(whole + whole / 4));
        let victim = usize::try_from(random.below(3)).unwrap();
        let mut runs = fleets.each_ref().map(start);
        if let Some(run) = runs.get_mut(victim) {
            std::thread::sleep(moment);
            if !run.has_ended() {
                run.signal("KILL");
                killed += 1;
            }
        }
        let runs = runs.map(super::fleet::Running::finish);
        for (index, run) in runs.into_iter().enumerate() {
            let may_be_dead = index == victim && run.code.is_none();
            let all = run.all();
            assert!(may_be_dead || run.code == Some(0), "round {round}, {moment:?} for {victim}\n{all}");
        }
        // Whoever lived to its end leaves an image that may be used, and nobody one that may not.
        assert_whole("a");
        assert!(!proofs("a").is_empty(), "round {round}");
        alone += u32::from(proofs("a").len() == 1);
        for fleet in &fleets {
            expire_locks(fleet);
            // And one who comes later needs nothing more.
            let run =
                fleet.run(&["images", "prefetch", "-f", fleet.folder.join("manifests").to_str().unwrap()]).must(0);
            assert!(run.stdout.contains("0 images brought, 1 there already"), "round {round}\n{}", run.all());
        }
        // What nobody proved is debris as soon as it is old, and goes.
        for base in bases("a") {
            tool("touch", &["-d", "3 hours ago", pool("a").join(base).to_str().unwrap()]);
        }
        let manifests = fleets[0].folder.join("manifests");
        fleets[0].run(&["images", "prune", "--auto-approve", "-f", manifests.to_str().unwrap()]).must(0);
        assert_eq!((bases("a").len(), proofs("a").len()), (1, 1), "round {round}");
        assert_whole("a");
        remove_bases();
    }
    println!("{rounds} rounds of two rivals: {killed} runs killed, {alone} rounds with one upload that counted");
    fs::remove_file(std::path::Path::new(&super::lab::lab("LAB_WEB_DIR")).join(first.url)).unwrap();
}
