//! How long an API server is waited for, and how much it is given.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::api::{Api, Instead, proxy, refusal};
use super::cluster::{APPLY, DIFF, settled, spec, wants};

#[test]
fn the_time_of_a_run_counts_from_its_beginning() {
    let (lab, _) = settled();
    for (command, code) in [(APPLY, 130), (DIFF, 1)] {
        let api = wants(&lab, Vec::new());
        let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(40));
        api.instead(Instead { method: "GET", path: "/proxies", query: "", times: 9, answer: slow });
        let begun = Instant::now();
        let ended = lab.run(&format!("{command} --timeout 2s"));
        assert_eq!(ended.code, Some(code), "{command}: {}{}", ended.stdout, ended.stderr);
        assert!(begun.elapsed() < Duration::from_secs(30), "{command}: it waited for the list");
        if code == 130 {
            assert_eq!(api.lease_now()["spec"]["holderIdentity"], Value::Null, "{}", api.lease_now());
        }
    }
}

#[test]
fn what_is_written_after_the_end_of_the_time_has_the_grace_and_no_more() {
    let (lab, _) = settled();
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3129)), proxy("b", &spec("h2", 3128))]);
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(50));
    api.instead(Instead { method: "PATCH", path: "/status", query: "", times: 9, answer: slow });
    let begun = Instant::now();
    let ended = lab.run(&format!("{APPLY} --timeout 4s --grace 2s"));
    assert!(begun.elapsed() < Duration::from_secs(21), "{:?}", begun.elapsed());
    assert!(ended.stdout.contains("1 updated"), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("not everything was written into the cluster in time"), "{}", ended.stderr);
    assert_eq!(api.lease_now()["spec"]["holderIdentity"], Value::Null, "{}", api.lease_now());
}

#[test]
fn a_server_that_wants_more_patience_than_a_request_has_is_told_of() {
    let (lab, _) = settled();
    let api = wants(&lab, Vec::new());
    for path in ["/proxies", "/proxysets"] {
        let busy = refusal(429, "TooManyRequests", "try again").insert_header("Retry-After", "3600");
        api.instead(Instead { method: "GET", path, query: "", times: 9, answer: busy });
    }
    let begun = Instant::now();
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited all the same");
    assert!(ended.stderr.contains("429") && ended.stderr.contains("try again"), "{}", ended.stderr);
}

#[test]
fn a_report_that_is_too_large_leaves_its_digest_and_says_so() {
    let (lab, _) = settled();
    let mut proxies = vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))];
    proxies.extend((0..1_500).map(|index| {
        let endpoint = json!({"mode": "External", "endpoint": {"host": "192.0.2.9", "port": 3128}});
        proxy(&format!("partner-{index}"), &endpoint)
    }));
    let api: Api = wants(&lab, proxies);
    let ended = lab.run(&format!("{APPLY} --cluster-reports 1"));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("the report is too large for a ConfigMap"), "{}", ended.stderr);
    let map = api.bodies("POST", "/configmaps").pop().expect("a map");
    assert!(map["data"]["report.sha256"].is_string() && map["data"]["report.json"].is_null(), "{map}");
}
