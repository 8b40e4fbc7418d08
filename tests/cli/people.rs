//! What people do to the files of a fleet: nothing that was lost, moved or half-merged by mistake
//! deletes a machine.

use std::fs;

use serde_json::Value;

use super::lab::Lab;
use super::{Ended, run};

/// Runs a command on the manifests in `manifests`.
fn on(lab: &Lab, line: &str, manifests: &str) -> Ended {
    let mut command = lab.command(line);
    command.args(["-f", manifests]);
    run(command)
}

/// What a plan would do, by the ids of its actions.
fn actions(lab: &Lab, manifests: &str) -> Vec<String> {
    let ended = on(lab, "diff -o json", manifests);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let plan: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let actions = plan["actions"].as_array().expect("actions");
    actions.iter().map(|action| action["id"].as_str().expect("an id").to_owned()).collect()
}

/// Applies, and asserts that it ended with `code` and that the hosts are as they were.
fn changes_nothing(lab: &Lab, manifests: &str, code: i32) -> Ended {
    let saved = tempfile::tempdir().expect("a folder");
    let ended =
        on(lab, &format!("apply --simulate --auto-approve --save-recorded {}", saved.path().display()), manifests);
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    for entry in fs::read_dir(saved.path()).expect("listed") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("read");
        let before = lab.read(&path.file_name().expect("a name").to_string_lossy());
        for machine in ["crawl-1-72hzu4po", "crawl-2-74qgqzo7"] {
            let count = |text: &str| text.matches(&format!("- name: egress-{machine}")).count();
            assert_eq!(count(&text), count(&before), "{machine} in {}", path.display());
        }
    }
    ended
}

/// The manifests of the lab, of which each proxy is a document.
fn manifests(lab: &Lab) -> Vec<String> {
    lab.read("proxies.yaml").split("---\n").map(str::to_owned).collect()
}

#[test]
fn l22_r29_a_config_that_lost_something_is_refused_or_leaves_it_alone() {
    let host = "    - {name: h2, recorded: h2.yaml, bridge: br0}\n";
    for (what, from, to, said) in [
        ("a host", host, "", "unknown zone \"h2\"; known are h1"),
        ("its fleet", "fleet: fixtures\n", "", "fleet: this field is required"),
        ("an entry's name", "- name: lab\n  type", "- type", "providers[0].name: this field is required"),
        ("an entry to another name", "- name: lab\n", "- name: lab2\n", "unknown provider \"lab\"; known are lab2"),
        ("an image", "      debian-13:\n", "      debian-14:\n", "unknown image \"debian-13\""),
        ("a machine type", "      small:", "      large:", "unknown machine type \"small\""),
        ("a brace", "{vcpus: 1", "vcpus: 1", "this is not YAML"),
    ] {
        let lab = Lab::new();
        lab.edit("config.yaml", from, to);
        let ended = changes_nothing(&lab, "proxies.yaml", 1);
        assert!(ended.stderr.contains(said), "{what}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{what}: nothing was planned");
    }
    let lab = Lab::new();
    lab.write("config.yaml", "");
    assert!(changes_nothing(&lab, "proxies.yaml", 1).stderr.contains("this config is empty"));
}

#[test]
fn l22_a_host_that_config_and_manifests_lost_keeps_its_machines() {
    let lab = Lab::new();
    lab.edit("config.yaml", "    - {name: h2, recorded: h2.yaml, bridge: br0}\n", "");
    let kept = manifests(&lab);
    lab.write("proxies.yaml", &[kept[0].as_str(), &kept[2]].join("---\n"));
    assert_eq!(actions(&lab, "proxies.yaml"), Vec::<String>::new());
    changes_nothing(&lab, "proxies.yaml", 0);
}

#[test]
fn l22_a_renamed_entry_makes_no_orphan_of_what_the_former_one_made() {
    let lab = Lab::new();
    lab.edit("config.yaml", "- name: lab\n", "- name: lab2\n");
    lab.edit("proxies.yaml", "provider: lab\n", "provider: lab2\n");
    let planned = actions(&lab, "proxies.yaml");
    assert!(planned.iter().all(|id| id.starts_with("create ")), "{planned:?}");
    let shown = on(&lab, "diff", "proxies.yaml").stdout;
    assert!(
        shown.contains("is of this fleet, for lab/h1, which the config does not have; it is left as it is"),
        "{shown}"
    );
}

#[test]
fn r33_r20_a_manifest_that_is_renamed_or_moved_is_another_proxy_and_one_that_changes_its_zone_is_not() {
    for (what, from, to, expected) in [
        (
            "renamed",
            "name: crawl-1,",
            "name: crawl-9,",
            vec!["create crawlers/crawl-9 on lab/h1", "delete crawlers/crawl-1 on lab/h1"],
        ),
        (
            "moved to another namespace",
            "{name: crawl-1, namespace: crawlers,",
            "{name: crawl-1, namespace: other,",
            vec!["create other/crawl-1 on lab/h1", "delete crawlers/crawl-1 on lab/h1"],
        ),
        (
            "moved to another host",
            "zone: h2",
            "zone: h1",
            vec!["create crawlers/crawl-2 on lab/h1", "delete crawlers/crawl-2 on lab/h2"],
        ),
    ] {
        let lab = Lab::new();
        lab.edit("proxies.yaml", from, to);
        let mut planned = actions(&lab, "proxies.yaml");
        planned.sort();
        assert_eq!(planned, expected, "{what}");
        let folder = lab.path(".").display().to_string();
        let applied = on(&lab, &format!("apply --simulate --auto-approve --save-recorded {folder}"), "proxies.yaml");
        assert_eq!(applied.code, Some(0), "{what}: {}{}", applied.stdout, applied.stderr);
        assert_eq!(actions(&lab, "proxies.yaml"), Vec::<String>::new(), "{what}: a second plan has no changes");
    }
}

#[test]
fn r29_c24_a_folder_that_is_empty_for_a_moment_deletes_nothing() {
    let lab = Lab::new();
    fs::create_dir(lab.path("m")).expect("made");
    let ended = changes_nothing(&lab, "m", 1);
    assert!(ended.stderr.contains("m: no manifest is in this folder"), "{}", ended.stderr);
    // The same folder while a checkout has written some of the files is a smaller fleet, and bounded.
    fs::write(lab.path("m/empty.yaml"), "").expect("written");
    changes_nothing(&lab, "m", 1);
    fs::rename(lab.path("proxies.yaml"), lab.path("m/proxies.yaml")).expect("moved");
    assert_eq!(actions(&lab, "m"), Vec::<String>::new());
    fs::remove_dir_all(lab.path("m")).expect("removed");
    let ended = changes_nothing(&lab, "m", 1);
    assert!(ended.stderr.contains("m: this does not exist"), "{}", ended.stderr);
}

#[test]
fn r29_conflict_markers_of_a_merge_plan_nothing_wherever_they_are() {
    let lines = |lab: &Lab| lab.read("proxies.yaml").lines().count();
    let count = lines(&Lab::new());
    for at in 0..=count {
        let lab = Lab::new();
        fs::create_dir(lab.path("m")).expect("made");
        let text = lab.read("proxies.yaml");
        let (above, below): (Vec<&str>, Vec<&str>) = (text.lines().take(at).collect(), text.lines().skip(at).collect());
        let conflict = ["<<<<<<< HEAD", "=======", ">>>>>>> theirs"];
        fs::write(lab.path("m/a.yaml"), [above, conflict.to_vec(), below].concat().join("\n")).expect("written");
        let other = manifests(&lab)[0].replace("crawl-1", "crawl-7");
        fs::write(lab.path("m/b.yaml"), other).expect("written");
        let ended = on(&lab, "diff", "m");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "before line {at}: {}", ended.stderr);
        assert!(ended.stderr.contains("m/a.yaml:"), "before line {at}: {}", ended.stderr);
    }
}

#[test]
fn r36_the_host_s_clock_alone_says_whether_a_lock_is_alive() {
    // Seconds from the lock's making to now, by the host; and whether another run may take it over.
    for (age, free) in [(0, false), (60, false), (299, false), (301, true), (86_400, true), (-60, false)] {
        for year in ["2001", "2026", "2999"] {
            let lab = Lab::new();
            let now: jiff::Timestamp = format!("{year}-06-01T12:00:00Z").parse().expect("a time");
            let made = now - jiff::SignedDuration::from_secs(age);
            lab.edit("h1.yaml", "recordedAt: \"2026-11-20T10:00:11Z\"", &format!("recordedAt: \"{now}\""));
            lab.edit(
                "h1.yaml",
                "  volumes:\n",
                &format!(
                    "  volumes:\n  - {{name: egress-plan-fixtures.lock-300-aaaaaaaaaaaaaaaa-1, modified: \"{made}\"}}\n"
                ),
            );
            let ended = on(&lab, "apply --simulate --auto-approve --lock-timeout 0s", "proxies.yaml");
            let expected = if free { 0 } else { 6 };
            assert_eq!(ended.code, Some(expected), "{year}, {age} s old: {}{}", ended.stdout, ended.stderr);
        }
    }
}
