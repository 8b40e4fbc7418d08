//! Runs that are ended as a job is in a cluster: SIGTERM, and SIGKILL half a minute later.

use std::fs;
use std::time::{Duration, Instant};

use super::fleet::{EMPTY, Run, Running, json, records};
use super::lab::{domains, until};
use super::relay::Traffic;
use super::scene::{Scene, expire_locks, fresh_image, wait_for};

const MIB: u64 = 1 << 20;

/// What a cluster gives a job between the two signals when nobody says otherwise.
const UNTIL_KILLED: Duration = Duration::from_secs(30);

/// Ends a run of `apply --report` and demands that the second signal would have found nothing: the run
/// has its own exit code, and has written its report.
fn terminate(scene: &Scene, mut run: Running) -> Run {
    run.signal("TERM");
    let begun = Instant::now();
    while !run.has_ended() && begun.elapsed() < UNTIL_KILLED {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{}: ended after {:.1} s", scene.fleet.name, begun.elapsed().as_secs_f64());
    if !run.has_ended() {
        run.signal("KILL");
    }
    let run = run.finish().must(130).says(&["The run was interrupted"]);
    let report = json(&records().join(format!("{}.json", scene.fleet.name)));
    assert_eq!((&report["run"]["result"], &report["run"]["exitCode"]), (&"interrupted".into(), &130.into()));
    run
}

fn apply(scene: &Scene) -> Running {
    let report = records().join(format!("{}.json", scene.fleet.name));
    scene.fleet.start(&["apply", "--auto-approve", "--report", report.to_str().unwrap()], &[])
}

/// In the middle of an upload, over a link that is well and over one that swallows everything, with the
/// budgets that every run has.
pub fn in_an_upload() {
    for (name, then) in [("end-upload", Traffic::Narrow(4 << 20)), ("end-frozen", Traffic::Swallowed)] {
        super::scene::remove_bases();
        let scene = Scene::new(name, fresh_image(name, 64), "budgets: {}");
        scene.relay.traffic(Traffic::Narrow(4 << 20));
        let mut run = apply(&scene);
        until("the upload to b has begun", 90, Duration::from_millis(5), || {
            assert!(!run.has_ended(), "the run ended before its upload:\n{}", run.printed());
            (scene.relay.up() > 8 * MIB).then_some(())
        });
        scene.relay.traffic(then);
        terminate(&scene, run);
        assert!(!domains().contains(&scene.machine("b")));
        scene.converges();
        scene.strike();
    }
}

/// In the middle of a drain that would last much longer, of a guest that does not hear.
pub fn in_a_drain() {
    let scene = Scene::blank("end-drain");
    scene.converges();
    let config = scene.fleet.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("drain: {timeout: 0s}", "drain: {timeout: 10m}")).unwrap();
    scene.fleet.unwant("end-drain-b");
    let mut run = apply(&scene);
    wait_for(&mut run, &["\"host\":\"b\"", "\"rpc\":\"shutdown\""]);
    let run = terminate(&scene, run);
    // Nobody waits ten minutes for the rest.
    fs::write(&config, text).unwrap();
    expire_locks(&scene.fleet);
    scene.fleet.apply(0);
    assert!(!domains().contains(&scene.machine("b")), "{}", run.all());
    scene.fleet.diff(0).ends_with("No changes.");
    scene.fleet.manifest("end-drain-b", "b", "tiny", "blank", EMPTY);
    scene.converges();
    scene.strike();
}
