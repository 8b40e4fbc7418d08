//! What commands ask of a host and in which order, as the log of calls tells.

use serde_json::Value;

use super::lab::Lab;
use super::{Ended, run};

/// The calls of a run, in order, as `rpc` or `rpc object`.
fn calls(ended: &Ended) -> Vec<String> {
    let lines = ended.json_lines();
    lines.iter().filter_map(|line| line["rpc"].as_str()).map(str::to_owned).collect()
}

fn logged(lab: &Lab, line: &str) -> Ended {
    let mut command = lab.command(line);
    command.args(["-f", "proxies.yaml", "--log-format", "json", "-v"]);
    let ended = run(command);
    assert!(matches!(ended.code, Some(0)), "{line}: {}", ended.stderr);
    ended
}

#[test]
fn r19_a_diff_asks_no_guest_for_anything() {
    let lab = Lab::new();
    let asked = calls(&logged(&lab, "diff"));
    assert!(asked.iter().any(|call| call == "metadata"), "{asked:?}");
    assert!(!asked.iter().any(|call| call == "addresses"), "{asked:?}");
    let asked = calls(&logged(&lab, "status"));
    assert!(asked.iter().any(|call| call == "addresses"), "a status does ask: {asked:?}");
}

#[test]
fn r25_more_machines_on_a_host_cost_their_marks_and_nothing_else() {
    let count = |machines: usize| {
        let lab = Lab::new();
        let foreign: Vec<String> = (0..machines)
            .map(|number| {
                format!("- name: foreign-{number}\n  state: running\n  disks: [{{path: /srv/{number}.img}}]\n")
            })
            .collect();
        lab.edit("h1.yaml", "- name: spare\n", &[foreign.concat().as_str(), "- name: spare\n"].concat());
        let asked = calls(&logged(&lab, "diff"));
        let marks = asked.iter().filter(|call| *call == "metadata").count();
        (asked.len() - marks, marks)
    };
    let (few, marks) = count(0);
    let (many, more) = count(200);
    // A second connection reads marks of many machines; it is greeted and lists them once.
    assert!((few..=few + 2).contains(&many), "{few} calls that are not for a mark, and {many} with 200 more machines");
    // A running machine has two configurations with a mark in each.
    assert_eq!(more - marks, 2 * 200);
    assert!(few <= 2 * 12, "{few} calls for two hosts");
}

#[test]
fn r21_a_delete_asks_the_guest_waits_switches_off_and_tells_how_long_it_took() {
    let lab = Lab::new();
    lab.edit("config.yaml", "    images:\n", "    drain: {timeout: 1s}\n    images:\n");
    lab.edit(
        "h1.yaml",
        "  state: running\n  reason: 1\n  nvram: true\n",
        "  state: running\n  nvram: true\n  ignoresShutdown: true\n",
    );
    lab.edit("proxies.yaml", "name: crawl-1,", "name: crawl-9,");
    let ended = logged(&lab, "apply --simulate --auto-approve --report report.json");
    let asked = calls(&ended);
    let at =
        |call: &str| asked.iter().position(|found| found == call).unwrap_or_else(|| panic!("no {call}: {asked:?}"));
    assert!(at("shutdown") < at("destroy") && at("destroy") < at("undefine"), "{asked:?}");
    let waited = asked.iter().take(at("destroy")).skip(at("shutdown")).filter(|call| *call == "domain_state").count();
    assert!(waited >= 2, "it is looked at while it may still end by itself: {asked:?}");
    let report: Value = serde_json::from_str(&lab.read("report.json")).expect("JSON");
    let orphans = report["orphans"].as_array().expect("orphans");
    let delete = orphans.iter().map(|orphan| &orphan["action"]).find(|action| action["verb"] == "delete");
    let stages: Vec<(&str, f64)> = delete.expect("the delete")["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .map(|stage| (stage["name"].as_str().expect("a name"), stage["seconds"].as_f64().expect("seconds")))
        .collect();
    let names: Vec<&str> = stages.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["mark", "shutdown", "destroy", "disks", "undefine"], "{stages:?}");
    // The wait of a second is told of the stage that it belongs to.
    assert!(stages[1].1 >= 1.0 && stages[1].1 > stages[2].1, "{stages:?}");
}

#[test]
fn r1_l33_a_machine_with_nvram_snapshots_and_checkpoints_is_deleted_in_one_run() {
    let lab = Lab::new();
    // The recorded host refuses to undefine it without the flag for each of them, as libvirt does.
    lab.edit("h1.yaml", "  nvram: true\n", "  nvram: true\n  snapshots: 2\n  checkpoints: 1\n");
    lab.edit("proxies.yaml", "name: crawl-1,", "name: crawl-9,");
    let asked = calls(&logged(&lab, "apply --simulate --auto-approve --save-recorded out"));
    assert_eq!(asked.iter().filter(|call| *call == "undefine").count(), 1, "{asked:?}");
    let left = lab.read("out/h1.yaml");
    assert!(!left.contains("egress-crawl-1-72hzu4po") && left.contains("egress-crawl-9-"), "{left}");
}

#[test]
fn r38_text_and_exit_code_say_the_same() {
    for (from, to, code, last) in [
        ("name: crawl-1,", "name: crawl-1,", 0, "No changes.\n"),
        (
            "port: 3128",
            "port: 3129",
            2,
            "Plan: 0 to create, 0 to start, 2 to update, 0 to replace, 0 to delete, 0 blocked.\n",
        ),
        (
            "name: crawl-1,",
            "name: crawl-9,",
            2,
            "Plan: 1 to create, 0 to start, 0 to update, 0 to replace, 1 to delete, 0 blocked.\n",
        ),
    ] {
        let lab = Lab::new();
        lab.edit("proxies.yaml", from, to);
        let ended = lab.run_with_manifests("diff --detailed-exitcode");
        assert_eq!(ended.code, Some(code), "{}", ended.stdout);
        assert!(ended.stdout.ends_with(last), "{}", ended.stdout);
        let json: Value = serde_json::from_str(&lab.run_with_manifests("diff -o json").stdout).expect("JSON");
        assert_eq!(json["actions"].as_array().is_some_and(Vec::is_empty), code == 0);
    }
}
