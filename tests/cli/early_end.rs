//! Runs that end before anything is done: each says why, and writes its report all the same.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Ended;
use super::interrupt::silent;
use super::lab::Lab;

const APPLY: &str = "apply --auto-approve --simulate --report report.json --inventory inventory.json";

fn report(lab: &Lab) -> Value {
    serde_json::from_str(&lab.read("report.json")).expect("a report")
}

/// Demands the exit code in the process and in the report, and that the inventory is as it was.
fn ended_early(lab: &Lab, ended: &Ended, code: i32, result: &str) -> Value {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert!(ended.stderr.contains("nothing was done"), "{}", ended.stderr);
    let report = report(lab);
    assert_eq!((&report["run"]["exitCode"], &report["run"]["result"]), (&Value::from(code), &Value::from(result)));
    assert_eq!(lab.read("inventory.json"), "kept\n");
    report
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("inventory.json", "kept\n");
    lab
}

#[test]
fn r36_a_run_that_finds_the_lock_held_reports_it_and_leaves_the_inventory() {
    let lab = lab();
    let lock = "egress-plan-fixtures.lock-300-00c0ffee00c0ffee-1";
    let volume = format!("  volumes:\n  - {{name: {lock}, modified: \"2026-11-20T10:00:11Z\"}}\n");
    lab.edit("h1.yaml", "  volumes:\n", &volume);
    let ended = lab.run_with_manifests(&format!("{APPLY} --lock-timeout 0s"));
    let report = ended_early(&lab, &ended, 6, "locked");
    assert_eq!(report["hosts"].as_array().map(Vec::len), Some(2));
    for host in report["hosts"].as_array().expect("hosts") {
        assert_eq!((&host["reachable"], &host["reason"]), (&Value::from(false), &Value::from("InProgress")));
    }
    let managed = report["proxies"].as_array().expect("proxies").iter().filter(|proxy| !proxy["host"].is_null());
    assert!(managed.clone().count() == 2 && managed.clone().all(|proxy| proxy["phase"] == "Unknown"), "{report}");
}

#[test]
fn r36_beside_a_lock_a_host_that_was_not_reached_keeps_its_own_reason() {
    let lab = lab();
    let lock = "egress-plan-fixtures.lock-300-00c0ffee00c0ffee-1";
    let volume = format!("  volumes:\n  - {{name: {lock}, modified: \"2026-11-20T10:00:11Z\"}}\n");
    lab.edit("h1.yaml", "  volumes:\n", &volume);
    lab.lose("h2");
    let ended = lab.run_with_manifests(&format!("{APPLY} --lock-timeout 0s"));
    let report = ended_early(&lab, &ended, 6, "locked");
    let reason = |host: &str| {
        let hosts = report["hosts"].as_array().expect("hosts");
        hosts.iter().find(|it| it["host"] == host).map(|it| it["reason"].clone()).expect("the host")
    };
    assert_eq!((reason("lab/h1"), reason("lab/h2")), ("InProgress".into(), "Unreachable".into()));
}

#[test]
fn r36_a_lock_of_the_future_is_told_with_the_command_that_removes_it() {
    let lab = lab();
    let lock = "egress-plan-fixtures.lock-300-00c0ffee00c0ffee-1";
    let volume = format!("  volumes:\n  - {{name: {lock}, modified: \"2031-01-01T00:00:00Z\"}}\n");
    lab.edit("h1.yaml", "  volumes:\n", &volume);
    let ended = lab.run_with_manifests(&format!("{APPLY} --lock-timeout 0s"));
    ended_early(&lab, &ended, 6, "locked");
    let removal = format!("virsh -c qemu:///system vol-delete --pool default {lock}");
    assert!(ended.stderr.contains(&removal) && ended.stderr.contains("2031-01-01T00:05:00Z"), "{}", ended.stderr);
}

#[test]
fn r37_a_stale_plan_is_reported_with_what_is_planned_now() {
    let lab = lab();
    lab.edit("proxies.yaml", "port: 3128", "port: 3129");
    assert_eq!(lab.run_with_manifests("diff --out plan.json").code, Some(0));
    let plan: Value = serde_json::from_str(&lab.read("plan.json")).expect("a plan");
    assert!(plan["actions"].as_array().is_some_and(|actions| !actions.is_empty()), "{plan}");
    lab.edit("proxies.yaml", "#cloud-config", "#cloud-config\n    # another");
    let ended = lab.run_with_manifests(&format!("{APPLY} plan.json"));
    let report = ended_early(&lab, &ended, 5, "stale");
    assert!(report["hosts"].as_array().expect("hosts").iter().all(|host| host["reachable"] == true), "{report}");
}

#[test]
fn why_a_run_ended_counts_more_than_where_it_could_not_be_written() {
    let lab = lab();
    lab.edit("proxies.yaml", "port: 3128", "port: 3129");
    let line = "apply --simulate --report none/report.json --json-into report.json --inventory none/inventory.json";
    let ended = lab.run_with_manifests(line);
    assert_eq!(ended.code, Some(1));
    for text in ["nobody can be asked for approval", "none/report.json cannot be written"] {
        assert!(ended.stderr.contains(text), "{}", ended.stderr);
    }
    let ended = lab.run_with_manifests(&format!("{line} --auto-approve"));
    assert_eq!(ended.code, Some(1));
    // One place that cannot be written keeps no other from being written.
    for text in ["none/report.json cannot be written", "the inventory was not written"] {
        assert!(ended.stderr.contains(text), "{}", ended.stderr);
    }
    assert_eq!(report(&lab)["summary"]["done"], 2, "{}", lab.read("report.json"));
}

#[test]
fn an_approval_that_cannot_be_asked_for_is_reported() {
    let lab = lab();
    lab.edit("proxies.yaml", "port: 3128", "port: 3129");
    let ended = lab.run_with_manifests(&APPLY.replace(" --auto-approve", ""));
    ended_early(&lab, &ended, 1, "error");
}

#[test]
fn l2_a_run_that_a_signal_ends_before_it_looked_writes_its_report() {
    let (lab, listener): (Lab, TcpListener) = silent();
    lab.write("inventory.json", "kept\n");
    let child = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
        .env_clear()
        .current_dir(lab.path("."))
        .args(APPLY.replace(" --simulate", "").split_whitespace())
        .args(["-c", "config.yaml", "-f", "proxies.yaml"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let (_open, _) = listener.accept().expect("it dials");
    let kill = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().expect("kill starts");
    assert!(kill.success());
    let output = child.wait_with_output().expect("ends");
    let ended = Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    };
    let report = ended_early(&lab, &ended, 130, "interrupted");
    assert_eq!(report["hosts"][0]["reason"], "Interrupted");
}
