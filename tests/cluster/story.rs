//! Runs on recorded hosts and a real API server: what people see with kubectl, and two runs at once.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::api::{Api, Said};
use super::fleet::Fleet;

pub fn from_manifest_to_status(api: &Api) {
    let fleet = Fleet::new(api, "story");
    for (name, zone) in [("a", "h1"), ("b", "h1"), ("c", "h2")] {
        fleet.want(&fleet.proxy(name, zone, 3128));
    }
    fleet.want(
        "apiVersion: egress-plan.dev/v1alpha1\nkind: ProxySet\nmetadata: {name: web, namespace: story}\nspec:\n  replicas: 2\n  \
         zones: [h1, h2]\n  template:\n    spec:\n      provider: lab\n      port: 3128\n      placement: {machineType: small, image: debian-13}\n",
    );
    let said = fleet.apply("--wait address --wait-timeout 5s --cluster-reports 2 --cluster-inventory");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("5 created"), "{}", said.out);

    let table = api.kubectl("get px -n story").ok();
    let head: Vec<&str> = table.lines().next().expect("a head").split_whitespace().collect();
    assert_eq!(head, ["NAME", "MODE", "PROVIDER", "ZONE", "PHASE", "IP", "HEALTHY", "AGE"]);
    let row: Vec<&str> = table.lines().find(|line| line.starts_with("a ")).expect("a row").split_whitespace().collect();
    assert_eq!((row[1], row[2], row[3], row[4], row[6]), ("Managed", "lab", "h1", "Running", "Unknown"));
    assert!(row[5].parse::<std::net::IpAddr>().is_ok(), "{table}");
    api.kubectl("wait -n story --for=condition=Provisioned --timeout=5s proxy/a proxy/b proxy/c proxyset/web").ok();
    let set = api.get("pxs web -n story");
    assert_eq!((&set["status"]["replicas"], &set["status"]["readyReplicas"]), (&Value::from(2), &Value::from(2)));

    // An unchanged fleet costs no write.
    let versions = |api: &Api| {
        let all = api.get("px,pxs -n story");
        let items = all["items"].as_array().expect("items").clone();
        items.iter().map(|item| item["metadata"]["resourceVersion"].to_string()).collect::<Vec<_>>()
    };
    let before = versions(api);
    assert!(fleet.apply("").ok().ends_with("No changes.\n"));
    assert_eq!(versions(api), before);

    // One is edited and one deleted: exactly these change, and events tell it.
    let since = |name: &str| {
        let object = api.get(&format!("px {name} -n story"));
        let conditions = object["status"]["conditions"].as_array().expect("conditions").clone();
        conditions.iter().map(|condition| condition["lastTransitionTime"].to_string()).collect::<Vec<_>>()
    };
    let provisioned = since("a");
    fleet.want(&fleet.proxy("a", "h1", 3129));
    api.kubectl("delete px b -n story --wait=true").ok();
    let said = fleet.apply("");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("0 created, 0 started, 1 updated, 0 replaced, 1 deleted"), "{}", said.out);
    let object = api.get("px a -n story");
    assert_eq!(object["status"]["port"], 3129);
    assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"]);
    assert_eq!(since("a"), provisioned, "a condition that holds on moves no time");
    let events = api.kubectl("get events.events.k8s.io -n story").ok();
    for (reason, count) in [("Created", 5), ("Deleted", 1)] {
        assert_eq!(events.matches(&format!("Normal   {reason} ")).count(), count, "{events}");
    }
    // No secret and no user-data is in anything that was written.
    let written = api.kubectl("get cm,events.events.k8s.io,leases -n story -o yaml").ok();
    assert!(!written.contains("packages: [squid]"), "{written}");
    let maps = api.kubectl("get cm -n story -l egress-plan.dev/output=report -o name").ok();
    assert_eq!(maps.lines().count(), 1, "only the run that was asked for one wrote a report: {maps}");
}

/// The same trouble again is counted on the event that is there, and reports beyond the last are removed.
pub fn repeated(api: &Api) {
    let fleet = Fleet::new(api, "repeated");
    fleet.want(&fleet.proxy("p", "h1", 3128).replace("debian-13", "debian-99"));
    for _ in 0..3 {
        let said = fleet.apply("--cluster-reports 2");
        assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
        // Names of reports tell seconds apart.
        std::thread::sleep(Duration::from_millis(1_100));
    }
    let events = api.get("events.events.k8s.io -n repeated");
    let events = events["items"].as_array().expect("items");
    assert_eq!(
        (events.len(), &events[0]["series"]["count"], &events[0]["reason"]),
        (1, &Value::from(3), &Value::from("Blocked"))
    );
    let maps = api.kubectl("get cm -n repeated -l egress-plan.dev/output=report -o name").ok();
    assert_eq!(maps.lines().count(), 2, "{maps}");
}

/// A run that works for a while: its host's pool is busy at each refresh.
fn slow(fleet: &Fleet<'_>) {
    let host = fleet.read("h1.yaml");
    fleet.write("h1.yaml", &format!("{host}pool: {{name: default, active: true, busyRefreshes: 16}}\n"));
}

pub fn two_runs(api: &Api) {
    let fleet = Fleet::new(api, "rivals");
    fleet.want(&fleet.proxy("p", "h1", 3128));
    slow(&fleet);
    let mut first = fleet.start("--lock-timeout 0s -v");
    let mut lines = BufReader::new(first.stderr.take().expect("piped")).lines();
    assert!(lines.by_ref().any(|line| line.expect("text").contains("refresh_pool")), "it ended before");
    let second = fleet.apply("--lock-timeout 0s");
    assert_eq!(second.code, Some(6), "{}{}", second.out, second.err);
    let holder =
        api.get("lease egress-plan-rivals -n rivals")["spec"]["holderIdentity"].as_str().expect("held").to_owned();
    assert!(holder.starts_with("egress-plan-29000000-abcde/"), "{holder}");
    assert!(second.err.contains(&holder), "{}", second.err);
    lines.for_each(drop);
    assert!(first.wait().expect("ends").success());
    let lease = api.get("lease egress-plan-rivals -n rivals");
    assert_eq!(lease["spec"]["holderIdentity"], Value::Null, "given back");
    assert!(fleet.apply("--lock-timeout 0s").ok().ends_with("No changes.\n"));
}

/// The lease of a run that was killed is taken over once its time is over, not before.
pub fn killed_holder(api: &Api) {
    let fleet = Fleet::new(api, "killed");
    fleet.want(&fleet.proxy("p", "h1", 3128));
    slow(&fleet);
    let mut first = fleet.start("-v");
    let mut lines = BufReader::new(first.stderr.take().expect("piped")).lines();
    assert!(lines.by_ref().any(|line| line.expect("text").contains("refresh_pool")), "it ended before");
    first.kill().expect("killed");
    first.wait().expect("ends");
    let transitions = |api: &Api| api.get("lease egress-plan-killed -n killed")["spec"]["leaseTransitions"].clone();
    let before = transitions(api).as_i64().expect("a number");
    assert_eq!(fleet.apply("--lock-timeout 0s").code, Some(6), "a dead run's lease lives on for its time");
    let begun = Instant::now();
    let said = fleet.apply("--lock-timeout 3m");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("1 created"), "{}", said.out);
    assert!(begun.elapsed() > Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(transitions(api), before + 1);
}

/// Two runs that wait for one dead run's lease look at it at the same moments, and one of them gets it.
pub fn two_heirs(api: &Api) {
    let fleet = Fleet::new(api, "heirs");
    fleet.want(&fleet.proxy("p", "h1", 3128));
    slow(&fleet);
    let lease = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: egress-plan-heirs, namespace: heirs}\n\
                 spec: {holderIdentity: a-pod/a-run, leaseDurationSeconds: 1, leaseTransitions: 0}\n";
    api.kubectl_with("create -f -", lease).ok();
    let runs = [fleet.start("--lock-timeout 3s"), fleet.start("--lock-timeout 3s")];
    let mut said = runs.map(|run| Said::from(run.wait_with_output().expect("ends")));
    said.sort_by_key(|it| it.code);
    let [heir, other] = said;
    assert_eq!((heir.code, other.code), (Some(0), Some(6)), "{}{}", heir.err, other.err);
    assert!(other.err.contains("egress-plan-29000000-abcde/"), "it names the one that works: {}", other.err);
    assert_eq!(api.get("lease egress-plan-heirs -n heirs")["spec"]["leaseTransitions"], 1);
    assert!(fleet.apply("").ok().ends_with("No changes.\n"));
}
