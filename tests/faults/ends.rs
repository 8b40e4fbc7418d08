//! How a run ends that is told to in the middle of a call, or that meets a fault of its own.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use egress_plan::load::Loaded;
use egress_plan::provider::libvirt::host::recorded::{Effect, Rule};
use egress_plan::run::{CommandResult, ExitCode, Kind, Signals};
use serde_json::Value;
use tempfile::TempDir;

use crate::ground::{FLEET, Ground, Hosts, Proxy};
use crate::rivals::Trial;
use crate::run::{End, Line, check, signalled, whole};

pub const TRIALS: &[Trial] = &[
    ("r37_a_signal_while_addresses_are_read_leaves_the_inventory_and_ends_as_interrupted", in_the_telling),
    ("l2_r34_the_second_signal_ends_a_prune_whose_host_stands_still", in_a_prune),
    ("l15_images_that_came_before_the_second_signal_are_told", in_the_images),
    ("l44_a_check_names_the_call_that_cost_the_connection", check_of_a_lost_link),
    ("a_step_that_breaks_a_promise_of_the_program_is_told_as_a_bug", broken_promise),
];

/// Within this a run ends after the second signal; a test allows three times as much.
const AFTER_SECOND: Duration = Duration::from_secs(2);

const ONE: Proxy = Proxy::new("p", "h1", "blank");
const OTHER: Proxy = Proxy::new("q", "h2", "blank");

/// A call that stands still until the test is over.
#[derive(Clone, Default)]
struct Hang(Arc<(Mutex<bool>, Condvar)>);

impl Hang {
    fn wait(&self) {
        let over = self.0.0.lock().expect("nobody panicked");
        drop(self.0.1.wait_while(over, |over| !*over));
    }

    fn end(&self) {
        *self.0.0.lock().expect("nobody panicked") = true;
        self.0.1.notify_all();
    }
}

/// A call in which both signals come and whose answer does not.
fn both_signals_and_no_answer() -> (Signals, Hang, Effect) {
    let (signals, hang) = (Signals::default(), Hang::default());
    let (told, stands) = (signals.clone(), hang.clone());
    let effect = Effect::Before(Arc::new(move || {
        told.first.cancel();
        told.second.cancel();
        stands.wait();
    }));
    (signals, hang, effect)
}

/// Befalls one host of a scene.
fn befall(hosts: &Hosts, zone: &str, rule: &Rule) {
    hosts.each(|name, world| {
        if name == zone {
            world.fail(rule.clone());
        }
    });
}

fn result(end: End) -> CommandResult {
    match end {
        End::Ended(result) => result,
        End::Killed => panic!("nobody killed it"),
    }
}

fn apply(report: &Path, inventory: &Path) -> Line {
    let (report, inventory) = (report.display(), inventory.display());
    Line::typed(&format!("apply --auto-approve --simulate --lock-timeout 0s --report {report} --inventory {inventory}"))
}

fn two_hosts() -> (Ground, Loaded, Hosts, TempDir) {
    let ground = Ground::new(&["h1", "h2"], "0s");
    let wanted = ground.load(FLEET, &[ONE, OTHER]);
    let hosts = Hosts::of(&wanted);
    (ground, wanted, hosts, tempfile::tempdir().expect("a folder"))
}

fn in_the_telling() {
    let (_ground, wanted, hosts, folder) = two_hosts();
    let (report, inventory) = (folder.path().join("report.json"), folder.path().join("inventory.json"));
    std::fs::write(&inventory, "as it was").expect("written");
    let signals = Signals::default();
    let first = signals.first.clone();
    befall(&hosts, "h1", &Rule::nth(1, Effect::Before(Arc::new(move || first.cancel()))).of("addresses"));
    let (end, _) = signalled(&apply(&report, &inventory), &wanted, &hosts, &signals);
    assert_eq!(result(end), Ok(ExitCode::Interrupted));
    assert_eq!(std::fs::read_to_string(&inventory).expect("there"), "as it was");
    let report: Value = serde_json::from_slice(&std::fs::read(&report).expect("there")).expect("JSON");
    assert_eq!(report["run"]["exitCode"], 130);
}

fn in_a_prune() {
    let (ground, wanted, hosts, _folder) = two_hosts();
    assert_eq!(whole(&Line::apply(), &wanted, &hosts).code(), Ok(0));
    let nothing = ground.load(FLEET, &[]);
    assert_eq!(whole(&Line::apply(), &nothing, &hosts).code(), Ok(0));
    let (signals, hang, effect) = both_signals_and_no_answer();
    befall(&hosts, "h1", &Rule::nth(1, effect).of("delete_volume"));
    let (end, took) = signalled(&Line::prune(), &nothing, &hosts, &signals);
    hang.end();
    assert_eq!(result(end), Ok(ExitCode::Interrupted));
    assert!(took < AFTER_SECOND * 3, "{took:?}");
}

fn in_the_images() {
    let (_ground, wanted, hosts, folder) = two_hosts();
    let (report, inventory) = (folder.path().join("report.json"), folder.path().join("inventory.json"));
    let (signals, hang, effect) = both_signals_and_no_answer();
    befall(&hosts, "h2", &Rule::nth(1, effect).of("upload"));
    let (end, took) = signalled(&apply(&report, &inventory), &wanted, &hosts, &signals);
    hang.end();
    assert_eq!(result(end), Ok(ExitCode::Interrupted));
    assert!(took < AFTER_SECOND * 3, "{took:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(&report).expect("there")).expect("JSON");
    let images = report["images"].as_array().expect("images");
    let results: Vec<&Value> = images.iter().map(|image| &image["outcome"]["result"]).collect();
    assert_eq!(results, ["done", "skipped"], "{images:?}");
}

fn broken_promise() {
    let (_ground, wanted, hosts, folder) = two_hosts();
    let (report, inventory) = (folder.path().join("report.json"), folder.path().join("inventory.json"));
    befall(&hosts, "h1", &Rule::nth(1, Effect::Before(Arc::new(|| panic!("a promise is broken")))).of("define"));
    let (end, _) = signalled(&apply(&report, &inventory), &wanted, &hosts, &Signals::default());
    let failure = result(end).expect_err("it failed");
    assert_eq!((failure.kind, failure.exit), (Kind::Bug, ExitCode::Failed), "{failure:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(&report).expect("there")).expect("JSON");
    assert_eq!(report["run"]["exitCode"], 1);
    // The other host's machine was made all the same.
    assert!(report.to_string().contains("\"result\":\"done\""), "{report}");
}

fn check_of_a_lost_link() {
    let (_ground, wanted, hosts, _folder) = two_hosts();
    befall(&hosts, "h1", &Rule::nth(1, Effect::CutBefore).of("hypervisor_version"));
    let report = check(&wanted, &hosts);
    let last = report.stages.last().expect("a stage");
    assert_eq!((last.name.as_str(), last.passed), ("version", false), "{report:?}");
    assert!(report.message.contains("hypervisor"), "{report:?}");
}
