//! Proxies from a cluster: what is read, what is written back, and what a cluster in trouble comes to.
//! The API server is played; `tests/cluster` runs the same against a real one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::api::{Api, Instead, ago, proxy, refusal};
use super::lab::Lab;
use super::{Ended, run};

pub(super) const DIFF: &str = "diff --from-cluster --kubeconfig kubeconfig";
pub(super) const APPLY: &str =
    "apply --from-cluster --kubeconfig kubeconfig --simulate --auto-approve --lock-timeout 0s";

/// What befalls an API server.
type Trouble<'a> = &'a dyn Fn(&Api);

pub(super) fn spec(zone: &str, port: u16) -> Value {
    json!({
        "mode": "Managed", "provider": "lab", "port": port, "cloudInit": "#cloud-config\npackages: [squid]\n",
        "placement": {"zone": zone, "machineType": "small", "image": "debian-13"},
    })
}

/// A lab whose proxies `a` on h1 and `b` on h2 are there already, as former runs from this cluster
/// made them, and an API server that wants them.
pub(super) fn settled() -> (Lab, Api) {
    let lab = Lab::new();
    let api = Api::new(vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    api.lead(&lab);
    // Machines of files would be another source's.
    for host in ["h1.yaml", "h2.yaml"] {
        lab.write(
            host,
            "format: egress-plan.dev/recorded/v1\nrecordedAt: \"2026-11-20T10:00:20Z\"\ninterfaces: [br0]\n",
        );
    }
    lab.edit("config.yaml", "fleet: fixtures\n", "fleet: fixtures\npolicy: {minAge: 0s, maxDeletions: 100%}\n");
    let ended = lab.run(&format!("{APPLY} --save-recorded ."));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    (lab, api)
}

/// A fresh API server before the same hosts: what it wants, and the lease that made the machines.
pub(super) fn wants(lab: &Lab, proxies: Vec<Value>) -> Api {
    let api = Api::new(proxies);
    api.lead(lab);
    api.lease(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "egress-plan-fixtures", "namespace": "egress", "uid": "lease-uid", "resourceVersion": "1"},
        "spec": {"leaseTransitions": 4},
    }));
    api
}

pub(super) fn last_line(ended: &Ended) -> &str {
    ended.stdout.trim_end().lines().last().unwrap_or_default()
}

#[test]
fn a_run_writes_status_events_report_and_inventory_and_an_unchanged_fleet_costs_no_write() {
    let (lab, api) = settled();
    let status = |name: &str| {
        let written = api.bodies("PATCH", &format!("/namespaces/t/proxies/{name}/status"));
        written.last().cloned().unwrap_or_else(|| panic!("no status of {name}: {:?}", api.asked()))["status"].clone()
    };
    let (a, b) = (status("a"), status("b"));
    for (status, host) in [(&a, "lab/h1"), (&b, "lab/h2")] {
        assert_eq!(
            (&status["host"], &status["port"], &status["observedGeneration"]),
            (&json!(host), &json!(3128), &json!(3))
        );
        assert!(status["instance"].as_str().is_some_and(|name| name.starts_with("egress-")), "{status}");
        let condition = |kind: &str| {
            let all = status["conditions"].as_array().expect("conditions");
            all.iter().find(|it| it["type"] == kind).cloned().unwrap_or_else(|| panic!("no {kind}: {status}"))
        };
        assert_eq!(condition("Healthy")["status"], "Unknown");
        assert_eq!(condition("Healthy")["reason"], "NotProbed");
        assert_eq!(condition("Provisioned")["observedGeneration"], 3);
    }
    let events = api.bodies("POST", "/namespaces/t/events");
    assert_eq!(events.len(), 2, "{events:?}");
    for event in &events {
        assert_eq!(
            (&event["reason"], &event["action"], &event["type"]),
            (&json!("Created"), &json!("Create"), &json!("Normal"))
        );
        assert!(event["note"].as_str().is_some_and(|note| note.contains("(run ")), "{event}");
        assert_eq!(event["regarding"]["kind"], "Proxy");
    }
    assert_eq!(api.lease_now()["spec"]["holderIdentity"], Value::Null, "given back: {}", api.lease_now());
    assert!(!api.asked().iter().any(|(line, body)| format!("{line}{body}").contains("packages: [squid]")));

    // The same again, with the status as it was written.
    let with = |name: &str, zone: &str, status: Value| {
        let mut object = proxy(name, &spec(zone, 3128));
        object["status"] = status;
        object
    };
    let again = wants(&lab, vec![with("a", "h1", a), with("b", "h2", b)]);
    let ended = lab.run(&format!("{APPLY} --cluster-reports 2 --cluster-inventory"));
    assert_eq!((ended.code, last_line(&ended)), (Some(0), "No changes."), "{}", ended.stderr);
    assert_eq!(again.bodies("PATCH", "/status"), Vec::<Value>::new());
    assert_eq!(again.bodies("POST", "/events"), Vec::<Value>::new());
    let maps = again.bodies("POST", "/namespaces/egress/configmaps");
    assert_eq!(maps.len(), 2, "a report and an inventory: {maps:?}");
    let report: Value = serde_json::from_str(maps[1]["data"]["report.json"].as_str().expect("text")).expect("JSON");
    assert_eq!(report["run"]["result"], "succeeded");
}

#[test]
fn a_list_is_read_page_by_page_and_begun_anew_when_its_pages_expire() {
    let (lab, _) = settled();
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    api.pages_of(1);
    let expired = refusal(410, "Expired", "The provided continue parameter is too old");
    api.instead(Instead { method: "GET", path: "/proxies", query: "continue=", times: 1, answer: expired });
    let ended = lab.run(DIFF);
    assert_eq!((ended.code, last_line(&ended)), (Some(0), "No changes."), "{}", ended.stderr);
    assert_eq!(api.asked().iter().filter(|(line, _)| line.contains("/proxies?")).count(), 4);
}

#[test]
fn l13_r27_a_list_that_is_not_whole_deletes_nothing_and_leaves_the_inventory() {
    let pages = |api: &Api| {
        api.pages_of(1);
        let answer = refusal(500, "InternalError", "etcdserver: request timed out");
        api.instead(Instead { method: "GET", path: "/proxies", query: "continue=", times: 9, answer });
    };
    let sets = |api: &Api| {
        let answer = refusal(403, "Forbidden", "proxysets.egress-plan.dev is forbidden");
        api.instead(Instead { method: "GET", path: "/proxysets", query: "", times: 9, answer });
    };
    let expired = |api: &Api| {
        api.pages_of(1);
        let answer = refusal(410, "Expired", "too old");
        api.instead(Instead { method: "GET", path: "/proxies", query: "continue=", times: 9, answer });
    };
    let stories: [(&str, Trouble<'_>, usize); 3] = [
        ("a page that fails", &pages, 2),
        ("a resource that may not be listed", &sets, 1),
        ("pages that expire again and again", &expired, 2),
    ];
    for (story, trouble, wanted) in stories {
        let (lab, _) = settled();
        let all = [proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))];
        let api = wants(&lab, all[..wanted].to_vec());
        trouble(&api);
        let before = (lab.read("h1.yaml"), lab.read("h2.yaml"));
        lab.write("inventory.json", "{\"of\": \"the run before\"}");
        let ended = lab.run(&format!("{APPLY} --save-recorded . --inventory inventory.json --cluster-inventory"));
        assert_eq!(ended.code, Some(4), "{story}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("not whole, so nothing is deleted"), "{story}: {}", ended.stderr);
        assert!(ended.stdout.contains("The list of proxies is incomplete"), "{story}: {}", ended.stdout);
        let names = |text: &str| {
            text.lines().filter(|line| line.contains("name: egress-")).map(str::to_owned).collect::<Vec<_>>()
        };
        let after = (lab.read("h1.yaml"), lab.read("h2.yaml"));
        assert_eq!((names(&before.0), names(&before.1)), (names(&after.0), names(&after.1)), "{story}");
        assert_eq!(lab.read("inventory.json"), "{\"of\": \"the run before\"}", "{story}");
        assert!(api.bodies("POST", "/configmaps").is_empty(), "{story}: {:?}", api.asked());
    }
}

#[test]
fn an_api_server_that_cannot_be_asked_ends_the_run_before_any_host_is_touched() {
    let refusals: [(u16, &str, &str); 3] = [
        (401, "Unauthorized", "the token or certificate"),
        (403, "Forbidden", "Role"),
        (404, "NotFound", "crd | kubectl"),
    ];
    for (code, reason, hint) in refusals {
        let (lab, _) = settled();
        let api = wants(&lab, Vec::new());
        for path in ["/proxies", "/proxysets"] {
            let answer = refusal(code, reason, "no");
            api.instead(Instead { method: "GET", path, query: "", times: 9, answer });
        }
        let ended = lab.run(APPLY);
        assert_eq!(ended.code, Some(1), "{code}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(&code.to_string()) && ended.stderr.contains(hint), "{}", ended.stderr);
        assert!(!ended.stderr.contains("CANARY"), "{}", ended.stderr);
        assert_eq!(api.lease_now()["spec"]["holderIdentity"], Value::Null, "{code}: the lease was not given back");
    }
    let (lab, _) = settled();
    let text = lab.read("kubeconfig");
    let server = text.split('"').nth(1).expect("a server").to_owned();
    lab.edit("kubeconfig", &server, "http://127.0.0.1:9");
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("look whether the API server can be reached"), "{}", ended.stderr);
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_and_a_slow_one_is_waited_for() {
    let (lab, _) = settled();
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    let busy = refusal(429, "TooManyRequests", "try again").insert_header("Retry-After", "2");
    api.instead(Instead { method: "GET", path: "/proxies", query: "", times: 1, answer: busy });
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(2)).set_body_json(json!({
        "apiVersion": "egress-plan.dev/v1alpha1", "kind": "ProxySetList", "metadata": {}, "items": [],
    }));
    api.instead(Instead { method: "GET", path: "/proxysets", query: "", times: 1, answer: slow });
    let begun = Instant::now();
    let ended = lab.run(DIFF);
    assert_eq!((ended.code, last_line(&ended)), (Some(0), "No changes."), "{}", ended.stderr);
    assert!(begun.elapsed() >= Duration::from_secs(4), "it was asked sooner than it said: {:?}", begun.elapsed());
}

#[test]
fn what_cannot_be_written_is_told_and_fails_nothing() {
    let (lab, _) = settled();
    let api =
        wants(&lab, vec![proxy("a", &spec("h1", 3129)), proxy("b", &spec("h2", 3128)), proxy("c", &spec("h2", 3128))]);
    for (method, path, code) in [
        ("PATCH", "/proxies/a/status", 409),
        ("PATCH", "/proxies/b/status", 404),
        ("POST", "/events", 403),
        ("POST", "/configmaps", 500),
    ] {
        let answer = refusal(code, "Reason", "no luck");
        api.instead(Instead { method, path, query: "", times: 9, answer });
    }
    let ended = lab.run(&format!("{APPLY} --cluster-reports 1"));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 created"), "{}", ended.stdout);
    for text in ["write the status of t/a: the API server answered 409", "write an event", "write the report"] {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
    // One that is gone meanwhile is nobody's trouble.
    assert!(!ended.stderr.contains("status of t/b"), "{}", ended.stderr);
}

#[test]
fn an_object_that_cannot_be_resolved_is_blocked_alone_and_its_machine_stays() {
    let (lab, _) = settled();
    let mut lost = spec("h1", 3128);
    lost["placement"]["image"] = json!("debian-99");
    let mut secret = spec("h2", 3128);
    secret.as_object_mut().expect("an object").remove("cloudInit");
    let with_secret = |name: &str| {
        let mut spec = secret.clone();
        spec["cloudInitFrom"] = json!({"secretKeyRef": {"name": name, "key": "user-data"}});
        spec
    };
    let api = wants(
        &lab,
        vec![
            proxy("a", &lost),
            proxy("b", &spec("h2", 3128)),
            proxy("c", &with_secret("good")),
            proxy("d", &with_secret("missing")),
            proxy("e", &with_secret("unlabelled")),
        ],
    );
    let meant = json!({"egress-plan.dev/user-data": "true"});
    api.secret("good", &meant, "user-data", "#cloud-config\n# CANARY-DATA\n");
    api.secret("unlabelled", &json!({}), "user-data", "#cloud-config\n# CANARY-DATA\n");
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    for text in ["debian-99", "t/missing/user-data does not exist", "t/unlabelled/user-data is not meant for this"] {
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    }
    assert!(ended.stdout.contains("1 created, 0 started, 0 updated, 0 replaced, 0 deleted"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("CANARY") && !ended.stderr.contains("CANARY"), "{}{}", ended.stdout, ended.stderr);
    let asked = api.asked();
    assert_eq!(asked.iter().filter(|(line, _)| line.contains("/secrets/")).count(), 3, "each is asked for once");
    assert!(!asked.iter().any(|(_, body)| body.to_string().contains("CANARY")), "{asked:?}");
    let blocked: Vec<Value> =
        api.bodies("POST", "/events").into_iter().filter(|event| event["reason"] == "Blocked").collect();
    assert_eq!(blocked.len(), 3, "{blocked:?}");
}

#[test]
fn a_set_of_the_cluster_has_members_and_a_status_of_its_own() {
    let (lab, _) = settled();
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    let mut template = spec("h1", 3128);
    template["placement"].as_object_mut().expect("an object").remove("zone");
    let mut set = proxy("web", &json!({"replicas": 2, "zones": ["h1", "h2"], "template": {"spec": template}}));
    set["kind"] = json!("ProxySet");
    api.sets(vec![set]);
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let statuses = api.bodies("PATCH", "/namespaces/t/proxysets/web/status");
    assert_eq!(statuses.len(), 1);
    assert_eq!(statuses[0]["status"]["replicas"], 2);
    assert_eq!(statuses[0]["status"]["conditions"][0]["type"], "Provisioned");
    let events = api.bodies("POST", "/events");
    assert_eq!(events.iter().filter(|event| event["regarding"]["kind"] == "ProxySet").count(), 2, "{events:?}");
}

#[test]
fn l13_a_proxy_that_becomes_a_member_while_lists_are_read_is_wanted() {
    let (lab, _) = settled();
    let api = wants(
        &lab,
        vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128)), proxy("web-0", &spec("h1", 3128))],
    );
    let ended = lab.run(&format!("{APPLY} --save-recorded ."));
    assert!(ended.stdout.contains("1 created"), "{}{}", ended.stdout, ended.stderr);
    drop(api);
    // Its Proxy is gone already, and the set that has it is there for whoever asks a second time.
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    let mut set = proxy("web", &json!({"replicas": 1, "template": {"spec": spec("h1", 3128)}}));
    set["kind"] = json!("ProxySet");
    api.sets(vec![set]);
    let none = ResponseTemplate::new(200).set_body_json(json!({
        "apiVersion": "egress-plan.dev/v1alpha1", "kind": "ProxySetList", "metadata": {}, "items": [],
    }));
    api.instead(Instead { method: "GET", path: "/proxysets", query: "", times: 1, answer: none });
    let ended = lab.run(DIFF);
    assert_eq!((ended.code, last_line(&ended)), (Some(0), "No changes."), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn one_key_of_a_file_and_of_the_cluster_is_an_error() {
    let (lab, _) = settled();
    let _api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    lab.edit("proxies.yaml", "name: crawl-1, namespace: crawlers", "name: a, namespace: t");
    let ended = lab.run(&format!("{DIFF} -f proxies.yaml"));
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("the proxy t/a is given by a file as well") && ended.stderr.contains("proxies.yaml"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_orphan_of_a_namespace_that_was_not_listed_is_none() {
    let (lab, _) = settled();
    let api = wants(&lab, Vec::new());
    let ended = lab.run(&format!("{APPLY} -n other --allow-empty"));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout.matches("its namespace was not listed").count(), 2, "{}", ended.stdout);
    assert!(api.asked().iter().any(|(line, _)| line.contains("/namespaces/other/proxies")));
}

fn held(spec: &Value, time: Option<String>) -> Value {
    let mut metadata =
        json!({"name": "egress-plan-fixtures", "namespace": "egress", "uid": "lease-uid", "resourceVersion": "5"});
    if let Some(time) = time {
        metadata["managedFields"] = json!([{"manager": "m", "operation": "Update", "time": time}]);
    }
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
}

#[test]
fn c23_another_holders_lease_is_judged_by_its_own_duration_and_the_servers_clock() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(10);
    let future = later.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let past = ago(minutes(10)).replace('Z', ".000000Z");
    let stories = [
        // Its holder asked for ten minutes; ours are one.
        (
            "two minutes into ten",
            json!({"holderIdentity": "x", "leaseDurationSeconds": 600}),
            Some(ago(minutes(2))),
            false,
        ),
        ("over", json!({"holderIdentity": "x", "leaseDurationSeconds": 60}), Some(ago(minutes(2))), true),
        // What the holder wrote as the time of its renewal decides nothing.
        (
            "renewed in the future, untouched",
            json!({"holderIdentity": "x", "leaseDurationSeconds": 60, "renewTime": future}),
            Some(ago(minutes(2))),
            true,
        ),
        (
            "renewed in the past, touched now",
            json!({"holderIdentity": "x", "leaseDurationSeconds": 60, "renewTime": past}),
            Some(ago(minutes(0))),
            false,
        ),
        ("no duration", json!({"holderIdentity": "x"}), Some(ago(Duration::from_secs(30))), false),
        ("no duration, over", json!({"holderIdentity": "x"}), Some(ago(minutes(2))), true),
        ("nobody", json!({"holderIdentity": "", "leaseDurationSeconds": 600}), Some(ago(minutes(0))), true),
        ("no spec", json!({}), Some(ago(minutes(0))), true),
        (
            "an earlier pod of ours",
            json!({"holderIdentity": "egress-plan-1/0123456789abcdef", "leaseDurationSeconds": 60}),
            Some(ago(Duration::from_secs(5))),
            false,
        ),
        // Where the server keeps no record, it is watched for as long as its holder asked for.
        ("no record", json!({"holderIdentity": "x", "leaseDurationSeconds": 600}), None, false),
        (
            "no record, and over while it is watched",
            json!({"holderIdentity": "x", "leaseDurationSeconds": 1}),
            None,
            true,
        ),
    ];
    let (lab, _) = settled();
    for (story, spec, time, taken) in stories {
        let api = wants(&lab, vec![proxy("a", &self::spec("h1", 3128)), proxy("b", &self::spec("h2", 3128))]);
        let holder = spec["holderIdentity"].as_str().unwrap_or_default().to_owned();
        api.lease(held(&spec, time));
        let ended = lab.run(APPLY);
        assert_eq!(ended.code, Some(if taken { 0 } else { 6 }), "{story}: {}{}", ended.stdout, ended.stderr);
        if taken {
            assert_eq!(api.lease_now()["spec"]["leaseTransitions"], 1, "{story}");
        } else {
            assert!(
                ended.stderr.contains(&holder) && ended.stderr.contains("egress/egress-plan-fixtures"),
                "{story}: {}",
                ended.stderr
            );
            assert!(
                !api.asked().iter().any(|(line, _)| line.starts_with("PUT")),
                "{story}: a living lease was touched"
            );
        }
    }
}

#[test]
fn c23_of_two_runs_that_take_an_expired_lease_one_wins() {
    let (lab, _) = settled();
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    api.lease(held(&json!({"holderIdentity": "x", "leaseDurationSeconds": 60}), Some(ago(Duration::from_mins(2)))));
    let quicker = refusal(409, "Conflict", "the object has been modified");
    api.instead(Instead { method: "PUT", path: "/egress-plan-fixtures", query: "", times: 1, answer: quicker });
    // The look after the conflict finds who was quicker.
    api.lease_then(held(&json!({"holderIdentity": "y/1", "leaseDurationSeconds": 60}), Some(ago(Duration::ZERO))));
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(6), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("y/1"), "{}", ended.stderr);
    assert_eq!(api.bodies("PUT", "/egress-plan-fixtures").len(), 1);
}

#[test]
fn c21_one_rule_says_whether_the_api_server_is_reached_through_a_proxy() {
    let (lab, _) = settled();
    let _api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    let with = |variables: &[(&str, &str)]| {
        let mut command = lab.command(DIFF);
        command.envs(variables.iter().copied());
        run(command)
    };
    let through = "http://u:CANARY@127.0.0.1:9";
    for (proxy, no_proxy) in [("HTTP_PROXY", "NO_PROXY"), ("http_proxy", "no_proxy")] {
        for exempt in ["127.0.0.0/8,localhost,.svc,10.96.0.1", "127.0.0.1", "*"] {
            let ended = with(&[(proxy, through), (no_proxy, exempt)]);
            assert_eq!(ended.code, Some(0), "{proxy} {exempt}: {}", ended.stderr);
        }
        let ended = with(&[(proxy, through), (no_proxy, ".svc,10.0.0.0/8")]);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(ended.stderr.contains("proxy"), "its failure says so: {}", ended.stderr);
        assert!(!ended.stderr.contains("CANARY") && !ended.stdout.contains("CANARY"), "{}", ended.stderr);
    }
    let ended = with(&[("HTTPS_PROXY", through)]);
    assert_eq!(ended.code, Some(0), "it is of another scheme: {}", ended.stderr);
    // One whose user is no text is a proxy all the same.
    let ended = with(&[("HTTP_PROXY", "http://u%FF:CANARY@127.0.0.1:9")]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(!ended.stderr.contains("CANARY"), "{}", ended.stderr);
    // What the kubeconfig names is meant for this server, whatever the environment exempts.
    lab.edit("kubeconfig", "cluster: {server:", "cluster: {proxy-url: \"http://127.0.0.1:9\", server:");
    for exempt in ["127.0.0.1", "127.0.0.1,,10.0.0.0/8", ""] {
        let ended = with(&[("NO_PROXY", exempt)]);
        assert_eq!(ended.code, Some(1), "{exempt}: {}", ended.stdout);
        assert!(ended.stderr.contains("the proxy that the kubeconfig names"), "{exempt}: {}", ended.stderr);
    }
}

#[test]
fn half_an_object_that_is_wrong_is_not_carried_out() {
    let (lab, _) = settled();
    let mut zone = spec("h1", 3128);
    zone["placement"].as_object_mut().expect("an object").remove("zone");
    let with_address = |zone: &str| {
        let mut spec = spec(zone, 3128);
        spec["network"] = json!({"addresses": ["192.0.2.77/24"]});
        spec
    };
    let all = vec![
        proxy("a", &spec("h1", 3128)),
        proxy("b", &spec("h2", 3128)),
        proxy("c", &with_address("h1")),
        proxy("d", &with_address("h2")),
    ];
    let api = wants(&lab, all);
    let mut set = proxy("web", &json!({"replicas": 2, "zones": ["h1", "lost"], "template": {"spec": zone}}));
    set["kind"] = json!("ProxySet");
    api.sets(vec![set]);
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 created, 0 started, 0 updated, 0 replaced, 0 deleted"), "{}", ended.stdout);
    for text in ["t/d ", "t/web-0 ", "t/web-1 ", "192.0.2.77", "lost"] {
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    }
}

#[test]
fn a_list_that_broke_off_is_no_success_even_where_nothing_was_to_be_deleted() {
    let (lab, _) = settled();
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    let answer = refusal(403, "Forbidden", "proxysets.egress-plan.dev is forbidden");
    api.instead(Instead { method: "GET", path: "/proxysets", query: "", times: 9, answer });
    let ended = lab.run(&format!("{APPLY} --report report.json"));
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(lab.read("report.json").contains("the list of proxies is not whole"), "{}", lab.read("report.json"));
}

#[test]
fn a_signal_while_lists_are_read_gives_the_lease_back() {
    let (lab, _) = settled();
    let api = wants(&lab, Vec::new());
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(20));
    api.instead(Instead { method: "GET", path: "/proxies", query: "", times: 9, answer: slow });
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
        .env_clear()
        .current_dir(lab.path("."))
        .args(APPLY.split(' '))
        .args(["-c", "config.yaml"])
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let begun = Instant::now();
    while !api.asked().iter().any(|(line, _)| line.contains("/proxies?")) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never asked");
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = std::process::Command::new("kill").arg(child.id().to_string()).status().expect("kill starts");
    assert!(kill.success());
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert_eq!(api.lease_now()["spec"]["holderIdentity"], Value::Null, "{}", api.lease_now());
}

#[test]
fn a_namespace_that_is_not_there_ends_the_run_at_once() {
    let (lab, _) = settled();
    let api = Api::new(Vec::new());
    api.lead(&lab);
    let answer = refusal(404, "NotFound", "namespaces \"egress\" not found");
    api.instead(Instead { method: "POST", path: "/leases", query: "", times: 999, answer });
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("namespaces \"egress\" not found"), "{}", ended.stderr);
}

#[test]
fn l10_when_no_host_answers_the_status_says_so() {
    let (lab, _) = settled();
    let api = wants(&lab, vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))]);
    lab.lose("h1");
    lab.lose("h2");
    let ended = lab.run(APPLY);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let written = api.bodies("PATCH", "/namespaces/t/proxies/a/status");
    assert_eq!(written.last().map(|body| body["status"]["phase"].clone()), Some(json!("Unknown")), "{}", ended.stderr);
}
