//! Traffic that is lost, late, or cut off in the middle of something.

use std::path::Path;
use std::time::Duration;

use super::fleet::{Running, json, records};
use super::lab::{lab, until};
use super::relay::{Door, Mishap, Relay, Traffic, lead, lead_through};
use super::road::Road;
use super::scene::{Scene, end, fresh_image, locks, proofs, wait_for};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_millis(1);

/// The end of any run of these scenes: the longest budget that may run out, a second try and its
/// pause, three times over.
const BUDGETS: u64 = 120;

pub fn swallowed_listing() {
    let scene = Scene::blank("net-listing");
    let mut run = scene.apply();
    wait_for(&mut run, &["\"host\":\"b\"", "\"rpc\":\"list_domains\""]);
    scene.relay.traffic(Traffic::Swallowed);
    let run = end(run, BUDGETS).must(3).says(&["lab/b", "unknown"]);
    scene.other_host_is_done(&run);
    scene.converges();
    scene.strike();
}

pub fn swallowed_upload() {
    let scene = Scene::fresh("net-upload", 32);
    scene.relay.after(8 * MIB, Mishap::Swallow);
    let run = end(scene.apply(), BUDGETS).must(7).says(&["lab/b"]);
    scene.other_host_is_done(&run);
    assert!(scene.relay.up() < 24 * MIB, "{}", scene.relay.up());
    scene.converges();
    scene.strike();
}

/// A scene whose host b is at the end of a road, and a run of it that lost the road in its upload.
fn lost_in_an_upload(name: &str, more: &[&str]) -> (Scene, Road, Running) {
    let scene = Scene::fresh(name, 64);
    let road = Road::new();
    lead(&scene.fleet, &scene.relay.address().to_string(), road.address());
    let mut run = scene.fleet.start(&[&["apply", "--auto-approve"], more].concat(), &[]);
    until("the upload to b has begun", 90, SOON, || {
        assert!(!run.has_ended(), "the run ended before its upload:\n{}", run.printed());
        (road.up() > 8 * MIB).then_some(())
    });
    road.lose_everything();
    assert!(road.up() < 64 * MIB, "the upload was over: {}", road.up());
    (scene, road, run)
}

/// The far end has heard nothing of an end, so that nothing but the loss of packets ended the run.
/// Then the road is there again, and the next run finds its way.
fn is_over(scene: Scene, road: Road) {
    assert!(road.established() > 0);
    assert_eq!(proofs("b").len(), 0);
    road.carry();
    scene.converges();
    scene.strike();
    drop(road);
}

pub fn dropped_upload() {
    let report = records().join("net-dropped.json");
    let (scene, road, run) = lost_in_an_upload("net-dropped", &["--report", report.to_str().unwrap()]);
    let run = end(run, BUDGETS).must(7).says(&["lab/b"]);
    scene.other_host_is_done(&run);
    let images = json(&report)["images"].clone();
    let of_b = images.as_array().unwrap().iter().find(|image| image["host"] == "lab/b").unwrap();
    let (outcome, first) = (&of_b["outcome"], &of_b["outcome"]["failures"][0]);
    assert_eq!((&outcome["result"], &outcome["reason"]), (&"failed".into(), &"Unreachable".into()), "{images:#}");
    // The first attempt was cut in its upload, and the report keeps it.
    assert!(first["reason"] == "Timeout" && first["message"].to_string().contains("upload"), "{images:#}");
    is_over(scene, road);
}

pub fn dropped_and_told_to_stop() {
    let (scene, road, run) = lost_in_an_upload("net-stopped", &[]);
    run.signal("INT");
    end(run, BUDGETS / 2).must(130).says(&["The run was interrupted", "the lock could not be given back"]);
    is_over(scene, road);
}

pub fn swallowed_start() {
    let scene = Scene::blank("net-start");
    let run = scene.apply();
    // QEMU's log is made in the middle of the call that starts the domain.
    let log = format!("/var/log/libvirt/qemu/{}.log", scene.machine("b"));
    until("the start has begun", 90, Duration::from_millis(1), || Path::new(&log).exists().then_some(()));
    scene.relay.traffic(Traffic::Swallowed);
    let run = end(run, BUDGETS).must(7).says(&["lab/b"]);
    scene.other_host_is_done(&run);
    // What was asked for may have happened: the lock of that host is left to run out.
    assert_eq!(locks(&scene.fleet, "b").len(), 1, "{}", run.all());
    scene.converges();
    scene.strike();
}

pub fn swallowed_idle() {
    // Host a's upload takes so long that the connections to b, where nothing is left to do, are idle.
    let scene = Scene::fresh("net-idle", 24);
    let slow = Relay::to(&lab("LAB_SSH_A"));
    lead_through(&scene.fleet, "LAB_SSH_A", &slow);
    scene.fleet.unwant("net-idle-b");
    slow.traffic(Traffic::Narrow(2 << 20));
    let mut run = scene.apply();
    wait_for(&mut run, &["\"host\":\"b\"", "\"rpc\":\"list_domains\""]);
    until("the upload to a has begun", 90, Duration::from_millis(5), || (slow.up() > MIB).then_some(()));
    assert!(!run.has_ended());
    scene.relay.traffic(Traffic::Swallowed);
    let run = end(run, BUDGETS);
    scene.other_host_is_done(&run);
    run.must(0).says(&["the lock could not be given back"]);
    slow.heal();
    scene.fleet.manifest("net-idle-b", "b", "tiny", "fresh", super::fleet::EMPTY);
    scene.converges();
    scene.strike();
}

/// A firewall forgets a connection over which nothing went, and the host is well.
pub fn reset_idle() {
    let scene = Scene::fresh("net-forgot", 16);
    let slow = Relay::to(&lab("LAB_SSH_A"));
    lead_through(&scene.fleet, "LAB_SSH_A", &slow);
    scene.fleet.unwant("net-forgot-b");
    slow.traffic(Traffic::Narrow(4 << 20));
    let run = scene.apply();
    until("the upload to a has begun", 90, Duration::from_millis(5), || (slow.up() > MIB).then_some(()));
    scene.relay.reset();
    let run = end(run, BUDGETS).must(0);
    scene.other_host_is_done(&run);
    // The lock went with the run: nobody has to wait until it runs out.
    assert_eq!(locks(&scene.fleet, "b"), Vec::<String>::new(), "{}", run.all());
    slow.heal();
    scene.fleet.manifest("net-forgot-b", "b", "tiny", "fresh", super::fleet::EMPTY);
    scene.converges();
    scene.strike();
}

pub fn reset_listing() {
    let scene = Scene::blank("net-reset");
    // So that the rest of the look outlasts the moment until the first line of it is seen.
    scene.relay.traffic(Traffic::Carried(Duration::from_millis(50)));
    let mut run = scene.apply();
    wait_for(&mut run, &["\"host\":\"b\"", "\"rpc\":\"list_domains\""]);
    scene.relay.reset();
    // Half a listing is none: the host is unknown, and nothing is planned there.
    let run = end(run, BUDGETS).must(3).says(&["lab/b   unknown: Unreachable"]);
    scene.other_host_is_done(&run);
    scene.converges();
    scene.strike();
}

pub fn reset_upload() {
    let scene = Scene::fresh("net-rst-upload", 32);
    scene.relay.after(8 * MIB, Mishap::Reset);
    let run = end(scene.apply(), BUDGETS);
    scene.other_host_is_done(&run);
    // One cut is got over within the run: the upload is tried again on a connection of its own.
    run.must(0);
    scene.converges();
    scene.strike();
}

pub fn late() {
    let scene = Scene::new("net-late", fresh_image("net-late", 8), "budgets: {}");
    scene.relay.traffic(Traffic::Carried(Duration::from_millis(200)));
    end(scene.apply(), 2 * BUDGETS).must(0);
    scene.converges();
    scene.strike();
}

pub fn bursts() {
    let scene = Scene::fresh("net-bursts", 32);
    let mut run = scene.apply();
    let mut stalls = 0;
    while !run.has_ended() {
        scene.relay.traffic(Traffic::Held);
        std::thread::sleep(Duration::from_millis(1200));
        scene.relay.heal();
        std::thread::sleep(Duration::from_millis(400));
        stalls += 1;
    }
    assert!(stalls > 1);
    end(run, BUDGETS).must(0);
    scene.converges();
    scene.strike();
}

/// Peers that are no sshd, or one that goes away at once.
pub fn strange_peers() {
    let scene = Scene::blank("net-peers");
    // Behind the handshakes of SSH come some five kilobytes.
    for door in [Door::Silent, Door::Garbage, Door::CutAfter(40), Door::CutAfter(3000), Door::CutAfter(6000)] {
        scene.relay.door(door);
        let run = end(scene.apply(), BUDGETS).must(3).says(&["lab/b", "unknown"]);
        scene.other_host_is_done(&run);
    }
    scene.converges();
    scene.strike();
}
