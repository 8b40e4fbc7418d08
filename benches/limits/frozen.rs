//! An `apply` while one of three hosts does not answer from beginning to end: the other two may wait
//! for its dial, and for nothing else.

use std::fs;
use std::time::{Duration, Instant};

use super::fleet::{EMPTY, Fleet, Image, Settings};
use super::lab::{lab, pool, sha256, volumes};
use super::relay::{Relay, Traffic, lead_through, random_disk};
use super::{Figure, seconds};

/// How much is uploaded to each host, and how fast its network is, so that the work takes about as
/// long as a small roll-out does and no processor is busy with it.
const IMAGE_MIB: u32 = 72;
const BYTES_A_SECOND: u32 = 1 << 20;
const RATIO_LIMIT: f64 = 1.2;
/// `budgets.dial` for the lock, and once more for giving back what may be held.
const DIALS: Duration = Duration::from_secs(20);

pub fn measure() -> Vec<Figure> {
    let path = std::path::Path::new(&lab("LAB_WEB_DIR")).join("frozen.raw");
    random_disk(&path, IMAGE_MIB);
    let image = || Image {
        key: "frozen",
        url: "frozen.raw".to_owned(),
        sha256: sha256(&path),
        format: "raw",
        firmware: "bios",
    };
    let fleet = Fleet::new("frozen", "lab", "libvirt", &[image()], &Settings::default());
    let relays = ["LAB_SSH_A", "LAB_SSH_B"].map(|host| {
        let relay = Relay::to(&lab(host));
        lead_through(&fleet, host, &relay);
        relay.traffic(Traffic::Narrow(BYTES_A_SECOND));
        relay
    });
    for zone in ["a", "b"] {
        fleet.manifest(&format!("frozen-{zone}"), zone, "tiny", "frozen", EMPTY);
    }
    let (two, _) = apply(&fleet, 0);

    let frozen = Relay::to(&lab("LAB_SSH_B"));
    frozen.traffic(Traffic::Swallowed);
    let config = fleet.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    let third = format!(
        "    - {{name: c, address: '{}', user: {}, pool: {}, bridge: {}, domainType: qemu}}\n",
        frozen.address(),
        lab("LAB_USER"),
        lab("LAB_POOL_B"),
        lab("LAB_BRIDGE")
    );
    fs::write(&config, text.clone() + &third).unwrap();
    fleet.manifest("frozen-c", "c", "tiny", "frozen", EMPTY);
    let (three, whole) = apply(&fleet, 3);
    fs::write(&config, text).unwrap();
    fleet.unwant("frozen-c");
    fs::remove_file(path).unwrap();
    drop((relays, frozen));
    let ratio = three.as_secs_f64() / two.as_secs_f64();
    vec![
        Figure {
            what: format!("time until two hosts are done ({}) while a third one is frozen", seconds(two)),
            measured: format!("{}, {ratio:.2} times", seconds(three)),
            limit: format!("{RATIO_LIMIT} times"),
            within: ratio <= RATIO_LIMIT,
        },
        Figure {
            what: "the end of that run".to_owned(),
            measured: seconds(whole),
            limit: seconds(two + DIALS),
            within: whole <= two + DIALS,
        },
    ]
}

/// Makes both machines from nothing. Returns when the other hosts were done, and the end of the run.
fn apply(fleet: &Fleet, code: i32) -> (Duration, Duration) {
    let begun = Instant::now();
    let mut run = fleet.start(&["apply", "--auto-approve"], &[]);
    let done = |zone: &str| format!("create default/frozen-{zone} on lab/{zone}");
    let mut finished = None;
    while !run.has_ended() {
        if finished.is_none() && ["a", "b"].iter().all(|zone| run.printed().contains(&done(zone))) {
            finished = Some(begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let whole = begun.elapsed();
    run.finish().must(code);
    fleet.run(&["destroy", "--all", "--auto-approve"]);
    for zone in ["a", "b"] {
        for file in volumes(zone).iter().filter(|file| file.starts_with("egress-plan-base-lab-frozen-")) {
            fs::remove_file(pool(zone).join(file)).unwrap();
        }
    }
    (finished.unwrap_or(whole), whole)
}
