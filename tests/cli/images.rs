//! The base images of recorded hosts: listed, brought and removed in memory.

use super::lab::Lab;

const UNUSED: &str = "egress-plan-base-lab-debian-12-";
const DEBRIS: &str = "egress-plan-base-lab-debian-11-";
const LONE_PROOF: &str = "egress-plan-base-lab-debian-9-";
const USED: &str = "egress-plan-base-lab-debian-10-";
const WANTED: &str = "egress-plan-base-lab-debian-13-";
const LEFTOVER: &str = "egress-old-1-abcdefgh-01234567.qcow2";

#[test]
fn images_list_shows_every_base_its_state_and_its_users() {
    let lab = Lab::new();
    let ended = lab.run("images list -o json");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let list: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let rows: Vec<(&str, &str, &str, String)> = list["images"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or_default();
            let users = row["users"].as_array().expect("a list").iter().filter_map(|user| user.as_str());
            (text("host"), text("key"), text("state"), users.collect::<Vec<_>>().join(" "))
        })
        .collect();
    let row = |host, key, state, users: &str| (host, key, state, users.to_owned());
    assert_eq!(
        rows,
        [
            row("lab/h1", "debian-10", "proven", "by-hand.qcow2"),
            row("lab/h1", "debian-11", "debris", ""),
            row("lab/h1", "debian-12", "proven", ""),
            row("lab/h1", "debian-13", "proven", "egress-crawl-1-72hzu4po"),
            row("lab/h1", "debian-9", "debris", ""),
            row("lab/h2", "debian-13", "proven", "egress-crawl-2-74qgqzo7"),
        ]
    );
    lab.lose("h2");
    let ended = lab.run("images list");
    assert_eq!(ended.code, Some(3));
    assert!(ended.stdout.contains("debian-12") && ended.stderr.contains("lab/h2 is unknown"), "{}", ended.stderr);
    assert_eq!(lab.run("images list --target lab/h2").code, Some(1));
}

#[test]
fn l25_prune_removes_what_nothing_needs_and_no_more() {
    let lab = Lab::new();
    let ended = lab.run_with_manifests("images prune --simulate --auto-approve --save-recorded out");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("\nTo remove: 3 files, 498 MiB.\n"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("Removed 3 files, 498 MiB; 0 kept, 0 failed.\n"), "{}", ended.stdout);
    let after = lab.read("out/h1.yaml");
    for gone in [UNUSED, DEBRIS, LONE_PROOF] {
        assert!(lab.read("h1.yaml").contains(gone) && !after.contains(gone), "{gone}");
    }
    for there in [USED, WANTED, LEFTOVER, "by-hand.qcow2"] {
        assert!(after.contains(there), "{there}");
    }
    assert!(!after.contains(".lock-"), "the lock is given back");
    std::fs::copy(lab.path("out/h1.yaml"), lab.path("h1.yaml")).expect("copied");
    assert_eq!(lab.run_with_manifests("images prune --simulate").stdout, "Nothing to remove.\n");
    assert_eq!(lab.run_with_manifests("diff --detailed-exitcode").code, Some(0), "the fleet is as it was");
}

#[test]
fn prune_removes_leftovers_when_it_is_asked_to() {
    let lab = Lab::new();
    let ended = lab.run_with_manifests("images prune --simulate --auto-approve --leftovers --save-recorded out");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains(LEFTOVER), "{}", ended.stdout);
    assert!(!lab.read("out/h1.yaml").contains(LEFTOVER));
}

#[test]
fn prune_asks_and_without_anybody_to_ask_does_nothing() {
    let lab = Lab::new();
    let ended = lab.run_with_manifests("images prune --simulate --save-recorded out");
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("To remove: 3 files"), "{}", ended.stdout);
    assert!(ended.stderr.contains("--auto-approve"), "{}", ended.stderr);
    let after = lab.read("out/h1.yaml");
    assert!(after.contains(UNUSED) && !after.contains(".lock-"), "{after}");
    assert_eq!(lab.run_with_manifests("images prune").code, Some(64), "recorded hosts need --simulate");
}

#[test]
fn prune_keeps_what_another_host_of_the_run_is_not_asked_about() {
    let lab = Lab::new();
    let ended = lab.run_with_manifests("images prune --simulate --target lab/h2");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Nothing to remove.\n"));
    lab.lose("h2");
    let ended = lab.run_with_manifests("images prune --simulate --auto-approve");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("lab/h2 is left out"), "{}", ended.stderr);
}

#[test]
fn another_runs_lock_stops_a_prune() {
    let lab = Lab::new();
    let lock = "egress-plan-fixtures.lock-300-aaaaaaaaaaaaaaaa-1";
    lab.edit(
        "h1.yaml",
        "  volumes:\n",
        &format!("  volumes:\n  - name: {lock}\n    modified: \"2026-11-20T10:00:11Z\"\n"),
    );
    let ended = lab.run_with_manifests("images prune --simulate --auto-approve --lock-timeout 0s");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(6), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("run aaaaaaaaaaaaaaaa holds the lock"), "{}", ended.stderr);
}

#[test]
fn prefetch_says_which_host_it_could_bring_nothing_to() {
    let lab = Lab::new();
    lab.write("h2.yaml", "format: egress-plan.dev/recorded/v1\nhostname: h2\npool: {active: false}\n");
    let ended = lab.run_with_manifests("images prefetch --simulate");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(
            "lab/h2 is left out, since pool default is not running. virsh -c qemu:///system pool-start default"
        ),
        "{}",
        ended.stderr
    );
}

#[test]
fn prefetch_brings_what_the_manifests_want_and_nothing_twice() {
    let lab = Lab::new();
    let ended = lab.run_with_manifests("images prefetch --simulate");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "0 images brought, 2 there already, 0 not brought.\n");
    lab.write("h2.yaml", "format: egress-plan.dev/recorded/v1\nhostname: h2\n");
    let ended = lab.run_with_manifests("images prefetch --simulate --save-recorded out");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "1 image brought, 1 there already, 0 not brought.\n");
    let after = lab.read("out/h2.yaml");
    assert!(after.contains(WANTED) && after.contains(".qcow2.sha256-") && !after.contains("egress-crawl"), "{after}");
}
