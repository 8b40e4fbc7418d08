//! The commands that look and change nothing, against recorded hosts.

use serde_json::Value;

use super::lab::{Lab, fixtures};
use super::{Ended, egress_plan, run};

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ended.stdout, ended.stderr))
}

/// The columns of a table's lines that begin with `start`.
fn cells<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
    line.split_whitespace().collect()
}

#[test]
fn check_says_of_each_host_that_it_is_ready() {
    let lab = Lab::new();
    let ended = lab.run("check");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(cells(&ended.stdout, "ready      lab/h1")[..3], ["ready", "lab/h1", "libvirt"]);
    assert!(ended.stdout.ends_with("2 hosts: 2 ready, 0 not ready.\n"), "{}", ended.stdout);
    let only = json(&lab.run("check --target lab/h2 -o json"));
    assert_eq!(only.as_array().map(Vec::len), Some(1));
    assert_eq!((&only[0]["host"], &only[0]["facts"]["instancesRunning"]), (&"lab/h2".into(), &"1".into()));
}

#[test]
fn check_ends_with_3_when_some_hosts_are_not_ready_and_with_1_when_none_is() {
    let lab = Lab::new();
    lab.lose("h2");
    let ended = lab.run("check");
    assert_eq!(ended.code, Some(3), "{}", ended.stdout);
    assert!(ended.stdout.contains("NOT READY  lab/h2   Unreachable at tcp: connection refused"), "{}", ended.stdout);
    assert_eq!(lab.run("check --target lab/h2").code, Some(1));
    assert_eq!(lab.run("check --exclude lab/h2").code, Some(0));
}

#[test]
fn l48_check_tells_of_two_hosts_that_are_one_pool() {
    let lab = Lab::new();
    std::fs::copy(lab.path("h1.yaml"), lab.path("h2.yaml")).expect("copied");
    let ended = lab.run("check -o json");
    assert_eq!(ended.code, Some(1));
    assert_eq!(json(&ended)[1]["reason"], "DuplicateHost");
}

#[test]
fn check_needs_no_fleet_and_then_tells_of_no_machines() {
    let lab = Lab::new();
    lab.edit("config.yaml", "fleet: fixtures\n", "");
    let ended = lab.run("check -o json");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(json(&ended)[0]["facts"]["instances"], Value::Null);
    assert_eq!(json(&ended)[0]["facts"]["pool"], "default");
    assert!(lab.run("status").stderr.contains("pass --fleet"));
}

#[test]
fn a_host_that_the_config_lacks_is_an_error_and_not_nothing() {
    let lab = Lab::new();
    for line in ["check --target lab/h9", "images list --exclude lab/h9", "record lab/h9", "record other/h1"] {
        let ended = lab.run(line);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{line}");
        assert!(ended.stderr.contains("its hosts are: lab/h1, lab/h2"), "{line}: {}", ended.stderr);
    }
}

#[test]
fn status_shows_the_machines_without_any_manifest() {
    let ended = Lab::new().run("status");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let row = cells(&ended.stdout, "crawlers/crawl-1");
    assert_eq!(row[..5], ["crawlers/crawl-1", "lab/h1", "Running", "198.51.100.49", "3128"]);
    assert_eq!(ended.stdout.lines().count(), 3, "{}", ended.stdout);
}

#[test]
fn status_shows_what_is_wanted_and_not_there() {
    let lab = Lab::new();
    lab.edit("proxies.yaml", "crawl-2", "crawl-3");
    let ended = lab.run_with_manifests("status");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(cells(&ended.stdout, "crawlers/crawl-3")[2], "Pending");
    assert_eq!(cells(&ended.stdout, "crawlers/partner")[1..4], ["(external)", "Running", "proxy.partner.example"]);
    assert!(ended.stdout.contains("1 machine of this fleet with no proxy"), "{}", ended.stdout);
}

#[test]
fn l52_a_selection_narrows_what_is_shown_and_nothing_else() {
    let lab = Lab::new();
    let ended = lab.run_with_manifests("status -o json -l site=brno");
    let report = json(&ended);
    assert_eq!(report["proxies"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["proxies"][0]["key"], "crawlers/crawl-2");
    assert_eq!((&report["summary"]["desired"], &report["summary"]["orphans"]), (&1.into(), &0.into()));
    assert!(lab.run("status --target lab/h2").stdout.contains("crawl-2"));
    assert_eq!(lab.run("status -l site=brno").code, Some(64), "labels are the manifests'");
}

#[test]
fn l10_a_lost_host_leaves_the_last_known_address_as_a_stale_one() {
    let lab = Lab::new();
    let before = lab.run_with_manifests("status -o json");
    lab.write("report.json", &before.stdout);
    lab.lose("h2");
    let ended = lab.run_with_manifests("status --previous-report report.json");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let row = cells(&ended.stdout, "crawlers/crawl-2");
    assert_eq!(row[2..5], ["Unknown", "192.0.2.223", "(stale)"]);
    assert!(ended.stdout.contains("lab/h2 is unknown: Unreachable"), "{}", ended.stdout);

    let ended = lab.run_with_manifests("inventory -o json --previous-report report.json");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let inventory = json(&ended);
    assert_eq!(
        (&inventory["proxies"][1]["host"], &inventory["proxies"][1]["state"]),
        (&"192.0.2.223".into(), &"stale".into())
    );
    assert!(ended.stderr.contains("lab/h2 could not be observed"), "{}", ended.stderr);

    lab.lose("h1");
    assert_eq!(lab.run("status").code, Some(1), "every host is lost");
}

#[test]
fn inventory_lists_what_clients_may_use_in_each_format() {
    let lab = Lab::new();
    for (format, wanted) in [
        ("list", "http://192.0.2.223:3128\n"),
        ("file_sd", "\"198.51.100.49:3128\""),
        ("squid-peers", "cache_peer 192.0.2.223 parent 3128 "),
        ("json", "\"schema\": \"egress-plan.dev/inventory/v1\""),
    ] {
        let ended = lab.run_with_manifests(&format!("inventory -o {format}"));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{format}");
        assert!(ended.stdout.contains(wanted), "{format}: {}", ended.stdout);
        assert_eq!(lab.run_with_manifests(&format!("inventory -o {format}")).stdout, ended.stdout, "{format}");
    }
}

#[test]
fn inventory_never_empties_a_file_that_lists_something() {
    let lab = Lab::new();
    assert_eq!(lab.run_with_manifests("inventory -o list --out list --exclude crawlers/partner").code, Some(0));
    let before = lab.read("list");
    assert_eq!(before.lines().count(), 2);
    for host in ["h1", "h2"] {
        lab.lose(host);
    }
    let ended = lab.run_with_manifests("inventory -o list --out list --exclude crawlers/partner");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("is kept"), "{}", ended.stderr);
    assert_eq!(lab.read("list"), before);
}

#[test]
fn twelve_broken_inputs_are_twelve_located_problems() {
    let fixtures = fixtures();
    let validate = |format: &str| {
        let mut command = egress_plan(&format!("validate -o {format} -c config.yaml -f broken"));
        // The recorded hosts of this config are not there: nothing is dialled and no host file read.
        command.current_dir(&fixtures);
        run(command)
    };
    let ended = validate("human");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.starts_with("error: 12 problems were found\n"), "{}", ended.stderr);
    for number in 1..=12 {
        let located = ended.stderr.lines().any(|line| line.contains(&format!("{number}: broken/{number:02}-")));
        assert!(located, "{number}: {}", ended.stderr);
    }
    let ended = validate("json");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    let document = json(&ended);
    let problems = document["problems"].as_array().expect("a list");
    assert_eq!((&document["valid"], problems.len()), (&false.into(), 12));
    for problem in problems {
        let place = |name: &str| problem[name].as_u64().unwrap_or_default();
        assert!(place("line") > 0 && place("column") > 0 && problem["severity"] == "error", "{problem}");
    }
}

#[test]
fn validate_sums_up_what_is_valid() {
    let lab = Lab::new();
    // Nothing is dialled.
    for host in ["h1.yaml", "h2.yaml"] {
        std::fs::remove_file(lab.path(host)).expect("removed");
    }
    let ended = lab.run_with_manifests("validate");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.stdout, "3 proxies on 2 hosts are valid.\n");
    lab.edit("proxies.yaml", "packages: [squid]", "packages: [squid] # http_access allow all");
    let ended = lab.run_with_manifests("validate -o json");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!((&json(&ended)["valid"], &json(&ended)["hosts"]), (&true.into(), &2.into()));
}

#[test]
fn a_recorded_host_is_recorded_as_it_was() {
    let lab = Lab::new();
    for host in ["h1", "h2"] {
        let ended = lab.run(&format!("record lab/{host} --out again.yaml"));
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""));
        assert_eq!(lab.read("again.yaml"), lab.read(&format!("{host}.yaml")), "{host}");
        assert_eq!(lab.run(&format!("record lab/{host}")).stdout, lab.read(&format!("{host}.yaml")));
    }
    // Another host of the entry may be gone.
    std::fs::remove_file(lab.path("h2.yaml")).expect("removed");
    assert_eq!(lab.run("record lab/h1").code, Some(0));
    lab.lose("h1");
    let ended = lab.run("record lab/h1 --out again.yaml");
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("connection refused"), "{}", ended.stderr);
    assert!(lab.read("again.yaml").contains("h2"), "a file that is there stays as it was");
}

#[test]
fn the_schemas_of_the_repository_are_current() {
    let mut command = egress_plan("schema --check docs/schema");
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let ended = run(command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}
