//! What the statuses of a cluster's objects remember for the next run.

use serde_json::{Value, json};

use super::api::{Api, Instead, proxy, refusal};
use super::cluster::{APPLY, spec, wants};
use super::lab::Lab;

/// A cluster from run to run: the objects with what was last written into their status.
struct Cluster {
    lab: Lab,
    proxies: Vec<Value>,
    set: Value,
}

fn set(template: &Value) -> Value {
    let mut template = template.clone();
    template["placement"].as_object_mut().expect("an object").remove("zone");
    let mut set = proxy("web", &json!({"replicas": 2, "zones": ["h1", "h2"], "template": {"spec": template}}));
    set["kind"] = json!("ProxySet");
    set
}

impl Cluster {
    /// Two proxies and a set of two on two hosts, all with an address, after the run that made them.
    fn settled() -> Self {
        let lab = Lab::new();
        for host in ["h1.yaml", "h2.yaml"] {
            lab.write(
                host,
                "format: egress-plan.dev/recorded/v1\nrecordedAt: \"2026-11-20T10:00:20Z\"\ninterfaces: [br0]\nguestRange: 192.0.2.0/24\n",
            );
        }
        let proxies = vec![proxy("a", &spec("h1", 3128)), proxy("b", &spec("h2", 3128))];
        let mut cluster = Self { lab, proxies, set: set(&spec("h1", 3128)) };
        cluster.run("--save-recorded . --wait address --wait-timeout 5s", 0, |_| {});
        assert_eq!(cluster.listed().len(), 4, "{:?}", cluster.listed());
        cluster
    }

    /// A run that ends so, before a fresh API server; what it wrote into statuses stays.
    fn run(&mut self, more: &str, code: i32, prepare: impl FnOnce(&Api)) -> Api {
        let api = wants(&self.lab, self.proxies.clone());
        api.sets(vec![self.set.clone()]);
        prepare(&api);
        let ended = self.lab.run(&format!("{APPLY} --inventory inventory.json {more}"));
        assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
        for object in self.proxies.iter_mut().chain([&mut self.set]) {
            let name = object["metadata"]["name"].as_str().expect("a name");
            if let Some(written) = api.bodies("PATCH", &format!("/{name}/status")).pop() {
                object["status"] = written["status"].clone();
            }
        }
        api
    }

    /// URLs of the inventory, and which of them are stale.
    fn listed(&self) -> Vec<(String, bool)> {
        let inventory: Value = serde_json::from_str(&self.lab.read("inventory.json")).expect("JSON");
        let proxies = inventory["proxies"].as_array().expect("proxies").clone();
        proxies.iter().map(|it| (it["url"].as_str().expect("a URL").to_owned(), it["state"] == "stale")).collect()
    }

    fn urls(&self) -> Vec<String> {
        self.listed().into_iter().map(|(url, _)| url).collect()
    }
}

fn provisioned(object: &Value) -> &Value {
    let conditions = object["status"]["conditions"].as_array().expect("conditions");
    conditions.iter().find(|condition| condition["type"] == "Provisioned").expect("provisioned")
}

#[test]
fn l10_proxies_of_a_silent_host_stay_in_use_for_as_long_as_it_is_silent() {
    let mut cluster = Cluster::settled();
    let urls = cluster.urls();
    let back = cluster.lab.read("h1.yaml");
    cluster.lab.lose("h1");
    for round in 0..2 {
        let api = cluster.run("", 3, |_| {});
        assert_eq!(cluster.urls(), urls);
        assert_eq!(cluster.listed().iter().filter(|(_, stale)| *stale).count(), 2, "{:?}", cluster.listed());
        let a = &cluster.proxies[0]["status"];
        assert_eq!((&a["phase"], a["ip"].is_string(), a["uuid"].is_string()), (&json!("Unknown"), true, true), "{a}");
        // b is as it was, and everything is the second time.
        let written = api.bodies("PATCH", "/status").len();
        assert_eq!(written, if round == 0 { 2 } else { 0 }, "a and the set: {:?}", api.asked());
    }
    cluster.lab.write("h1.yaml", &back);
    cluster.run("", 0, |_| {});
    assert_eq!((cluster.urls(), cluster.listed().iter().any(|(_, stale)| *stale)), (urls, false));
}

#[test]
fn l10_machines_whose_secret_cannot_be_read_stay_in_use_where_they_are() {
    let mut cluster = Cluster::settled();
    let (urls, since) = (cluster.urls(), provisioned(&cluster.proxies[0])["lastTransitionTime"].clone());
    let mut secret = spec("h1", 3128);
    secret.as_object_mut().expect("an object").remove("cloudInit");
    secret["cloudInitFrom"] = json!({"secretKeyRef": {"name": "away", "key": "user-data"}});
    cluster.proxies[0]["spec"] = secret.clone();
    cluster.set["spec"] = set(&secret)["spec"].clone();
    cluster.run("", 3, |api| {
        let answer = refusal(500, "InternalError", "etcdserver: request timed out");
        api.instead(Instead { method: "GET", path: "/secrets/away", query: "", times: 9, answer });
    });
    assert_eq!(cluster.urls(), urls, "{:?}", cluster.listed());
    let a = &cluster.proxies[0];
    let condition = provisioned(a);
    assert_eq!((&a["status"]["phase"], &condition["status"]), (&json!("Blocked"), &json!("True")), "{a}");
    assert_eq!(condition["lastTransitionTime"], since);
    let set = &cluster.set;
    assert_eq!((&set["status"]["readyReplicas"], &provisioned(set)["status"]), (&json!(2), &json!("True")), "{set}");
    let hosts: Vec<&Value> =
        set["status"]["members"].as_array().expect("members").iter().map(|it| &it["host"]).collect();
    assert_eq!(hosts, ["lab/h1", "lab/h2"]);
}

#[test]
fn l22_a_host_of_the_statuses_that_the_config_lost_is_told_of() {
    let mut cluster = Cluster::settled();
    cluster.lab.edit("config.yaml", "name: h2", "name: h3");
    cluster.lab.write("h3.yaml", "format: egress-plan.dev/recorded/v1\nrecordedAt: \"2026-11-20T10:00:20Z\"\n");
    let text = cluster.lab.read("config.yaml").replace("h2.yaml", "h3.yaml");
    cluster.lab.write("config.yaml", &text);
    cluster.run("--report report.json", 3, |_| {});
    let report: Value = serde_json::from_str(&cluster.lab.read("report.json")).expect("JSON");
    let missing = &report["missingHosts"][0];
    assert_eq!(
        (&missing["host"], missing["instances"].as_array().map(Vec::len)),
        (&json!("lab/h2"), Some(2)),
        "{report}"
    );
}
