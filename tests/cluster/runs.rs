//! Whole runs with nothing but the chart's rights: every call that they make is allowed, and every right
//! that the chart gives is used by one of them.

use super::access::{asked, rules};
use super::api::{Api, Said};
use super::chart::Release;
use super::fleet::proxy;
use super::pod::Pod;

const SET: &str = "apiVersion: egress-plan.dev/v1alpha1\nkind: ProxySet\nmetadata: {name: web, namespace: NAMESPACE}\nspec:\n  \
                   replicas: 2\n  zones: [h1, h2]\n  template:\n    spec: {provider: lab, port: 3128, placement: {machineType: small, image: debian-13}}\n";

/// Success, and not a word about a refusal.
#[track_caller]
fn allowed(said: Said) -> String {
    let text = format!("{}{}", said.out, said.err);
    assert!(!text.contains("answered 403") && !text.contains("forbidden"), "{text}");
    assert!(!said.err.contains("not written into the cluster"), "{text}");
    said.ok()
}

/// The Proxy `p`, with its user-data from a Secret where these may be read.
fn single(namespace: &str, port: u16, from_secret: bool) -> String {
    let plain = proxy(namespace, "p", "h1", port);
    if from_secret {
        let head = plain.split("  cloudInit:").next().expect("a head");
        format!("{head}  cloudInitFrom: {{secretKeyRef: {{name: squid, key: user-data}}}}\n")
    } else {
        plain
    }
}

/// Puts what is wanted where this value set has it: into namespaces, or into a checkout.
fn want(pod: &Pod<'_>, port: u16, from_secret: bool) {
    for namespace in &pod.namespaces {
        let objects = format!("{}---\n{}", single(namespace, port, from_secret), SET.replace("NAMESPACE", namespace));
        pod.release.api.kubectl_with("apply -f -", &objects).ok();
    }
    if pod.release.set == "git" {
        let file = pod.program.folder.path().join("checkout/proxies/p.yaml");
        std::fs::write(file, proxy("of-git", "p", "h1", port)).expect("written");
    }
}

/// Makes a Secret with user-data in each namespace.
fn give_secret(pod: &Pod<'_>) {
    for namespace in &pod.namespaces {
        let secret = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: squid, namespace: {namespace}, labels: {{egress-plan.dev/user-data: 'true'}}}}\n\
             stringData: {{user-data: \"#cloud-config\\npackages: [squid]\\n\"}}\n"
        );
        pod.release.api.kubectl_with("apply -f -", &secret).ok();
    }
}

/// Runs of a value set that walk every path to the API server, and then what the server wrote down.
fn all_is_allowed(pod: &Pod<'_>, from_secret: bool) {
    let api = pod.release.api;
    give_secret(pod);
    want(pod, 3128, from_secret);
    allowed(pod.look("diff"));
    let made = allowed(pod.apply(""));
    assert!(made.contains(" created") && !made.contains(" 0 created"), "{made}");
    // The port changes the inventory, and what is done twice in the same words is counted.
    want(pod, 3129, from_secret);
    let singles: Vec<String> = match pod.namespaces.as_slice() {
        [] => vec!["of-git/p".to_owned()],
        namespaces => namespaces.iter().map(|namespace| format!("{namespace}/p")).collect(),
    };
    let replace: Vec<String> = singles.iter().map(|key| format!("--replace={key}")).collect();
    for _ in 0..2 {
        let replaced = allowed(pod.apply(&replace.join(" ")));
        assert!(replaced.contains(&format!("{} replaced", singles.len())), "{replaced}");
    }
    for namespace in &pod.namespaces {
        let uid = api.get(&format!("proxy p -n {namespace}"))["metadata"]["uid"].clone();
        let events = api.get(&format!("events.events.k8s.io -n {namespace}"));
        let counted = |it: &&serde_json::Value| {
            it["regarding"]["uid"] == uid && it["reason"] == "Replaced" && it["series"]["count"] == 2
        };
        assert_eq!(events["items"].as_array().expect("items").iter().filter(counted).count(), 1, "{events}");
    }
    for command in ["diff", "status", "inventory", "validate"] {
        allowed(pod.look(command));
    }
    let asked = asked(api, &pod.program.user);
    let refused: Vec<_> = asked.iter().filter(|(_, code)| [401, 403].contains(code)).collect();
    assert!(refused.is_empty(), "{}: {refused:?}", pod.release.set);
    let used: Vec<_> = asked.into_iter().map(|(access, _)| access).collect();
    let rules = rules(&pod.release.set, &pod.release.name);
    // The table is what is rendered, see tests/chart/rendered; so each right of the Role is used here.
    let unused: Vec<_> = rules.iter().flat_map(|rule| rule.unused(&used)).collect();
    assert!(unused.is_empty(), "{}: no run uses {unused:?}", pod.release.set);
    let beyond: Vec<_> = used.iter().filter(|access| !rules.iter().any(|rule| rule.allows(access))).collect();
    assert!(beyond.is_empty(), "{}: allowed, and not by the table: {beyond:?}", pod.release.set);
}

fn pod<'a>(api: &'a Api, set: &str, fleet: &str, more: &str) -> Pod<'a> {
    Pod::new(Release::new(api, set, &format!("runs-{set}")), fleet, more)
}

/// The one where all is on, in a namespace of its own.
pub fn least(api: &Api) {
    let pod = pod(api, "least", "home", "--set run.reports=1");
    all_is_allowed(&pod, true);
    // A run that died some time ago: how long ago is asked of the server, by an object that is not kept.
    let lease = r#"{"spec":{"holderIdentity":"a-pod/a-run","leaseDurationSeconds":1}}"#;
    api.kubectl(&format!("patch lease egress-plan-home -n runs-least --type=merge -p {lease}")).ok();
    allowed(pod.apply(""));
    let transitions = &api.get("lease egress-plan-home -n runs-least")["spec"]["leaseTransitions"];
    assert_eq!(transitions, 3, "the first run made it, and three took it");
}

pub fn namespaces(api: &Api) {
    let pod = pod(api, "namespaces", "crawl-eu", "");
    assert_eq!(pod.namespaces, ["crawlers", "scrapers"]);
    all_is_allowed(&pod, true);
}

pub fn everywhere(api: &Api) {
    let mut pod = pod(api, "everywhere", "home", "--set run.reports=1");
    assert!(pod.namespaces.is_empty(), "it names none");
    pod.namespaces = ["runs-everywhere", "crawlers"].map(str::to_owned).to_vec();
    all_is_allowed(&pod, true);
}

pub fn git(api: &Api) {
    all_is_allowed(&pod(api, "git", "from-git", "--set run.reports=1"), false);
}

/// Without the right to read Secrets everything else works, and one that is named is told as refused.
pub fn without_secrets(api: &Api) {
    let pod = pod(api, "by-hand", "home", "--set run.reports=1");
    all_is_allowed(&pod, false);
    want(&pod, 3130, true);
    let said = pod.apply("");
    let text = format!("{}{}", said.out, said.err);
    assert!(said.code == Some(3) && text.contains("answered 403"), "{:?}: {text}", said.code);
    let refused = asked(api, &pod.program.user).into_iter().find(|(_, code)| *code == 403).expect("written down").0;
    assert_eq!((refused.verb.as_str(), refused.resource.as_str(), refused.name.as_str()), ("get", "secrets", "squid"));
}
