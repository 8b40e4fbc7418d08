//! Every verb on every resource that the API server knows, tried with the token of the chart's
//! service account: what the table `tests/chart/rbac` does not list is refused.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use http::Request;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use super::access::{Access, Rule, rules};
use super::api::Api;
use super::chart::{Release, sets};
use super::pod::Pod;

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// Rights are of names that no discovery shows, too.
const UNSEEN: [&str; 3] = ["proxies/finalizers", "proxies/scale", "proxysets/finalizers"];
/// What must be among those tried, whatever the server says that it knows.
const TRIED: [&str; 24] = [
    "/configmaps",
    "/events",
    "/namespaces",
    "/nodes",
    "/pods",
    "/pods/exec",
    "/secrets",
    "/serviceaccounts",
    "/serviceaccounts/token",
    "apiextensions.k8s.io/customresourcedefinitions",
    "batch/cronjobs",
    "batch/jobs",
    "coordination.k8s.io/leases",
    "egress-plan.dev/proxies",
    "egress-plan.dev/proxies/finalizers",
    "egress-plan.dev/proxies/scale",
    "egress-plan.dev/proxies/status",
    "egress-plan.dev/proxysets",
    "egress-plan.dev/proxysets/finalizers",
    "egress-plan.dev/proxysets/status",
    "events.k8s.io/events",
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/rolebindings",
    "rbac.authorization.k8s.io/roles",
];
/// Whoever has a token may ask who he is and what he may do.
const ABOUT_ONESELF: [&str; 3] = ["selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"];
/// Requests on their way at a time.
const AT_A_TIME: usize = 16;

/// A resource of the server.
struct Resource {
    group: String,
    version: String,
    name: String,
    namespaced: bool,
}

/// The whole list, of each group in the version that it prefers.
fn resources(api: &Api) -> Vec<Resource> {
    let raw =
        |path: &str| -> Value { serde_json::from_str(&api.kubectl(&format!("get --raw {path}")).ok()).expect("JSON") };
    let groups = raw("/apis")["groups"].as_array().expect("groups").clone();
    let preferred =
        groups.iter().map(|it| it["preferredVersion"]["groupVersion"].as_str().expect("a version").to_owned());
    let mut all = Vec::new();
    for group_version in preferred.chain(["v1".to_owned()]) {
        let (group, version) = group_version.rsplit_once('/').unwrap_or(("", &group_version));
        let root = if group.is_empty() { "/api" } else { "/apis" };
        let mut add = |name: &str, namespaced: bool| {
            all.push(Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                name: name.to_owned(),
                namespaced,
            });
        };
        for it in raw(&format!("{root}/{group_version}"))["resources"].as_array().expect("resources") {
            add(it["name"].as_str().expect("a name"), it["namespaced"] == true);
        }
        if group == "egress-plan.dev" {
            for name in UNSEEN {
                add(name, true);
            }
        }
    }
    let there: BTreeSet<_> = all.iter().map(|it| format!("{}/{}", it.group, it.name)).collect();
    let missing: Vec<_> = TRIED.iter().filter(|it| !there.contains(**it)).collect();
    assert!(missing.is_empty(), "the server does not know {missing:?}");
    all
}

impl Resource {
    /// The request that means this access, and would change nothing.
    fn request(&self, access: &Access) -> Request<Body> {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let place =
            if access.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", access.namespace) };
        let (resource, subresource) = self.name.split_once('/').unwrap_or((&self.name, ""));
        let mut path = format!("{root}/{}{place}/{resource}", self.version);
        if !access.name.is_empty() {
            path = format!("{path}/{}", access.name);
        }
        if !subresource.is_empty() {
            path = format!("{path}/{subresource}");
        }
        let (method, query, kind) = match access.verb.as_str() {
            "get" | "list" => ("GET", "", "application/json"),
            "watch" => ("GET", "?watch=true&timeoutSeconds=1", "application/json"),
            "create" => ("POST", "?dryRun=All", "application/json"),
            "update" => ("PUT", "?dryRun=All", "application/json"),
            "patch" => ("PATCH", "?dryRun=All", "application/merge-patch+json"),
            _ => ("DELETE", "?dryRun=All", "application/json"),
        };
        let body = if method == "GET" { Body::empty() } else { Body::from(b"{}".to_vec()) };
        let request = Request::builder().method(method).uri(format!("{path}{query}")).header("Content-Type", kind);
        request.body(body).expect("a request")
    }

    /// Everything that can be asked of it at these places, with names of the table and another one.
    fn accesses(&self, places: &[&str], rules: &[Rule]) -> Vec<Access> {
        let of_it = rules.iter().filter(|rule| rule.is_of(&self.group, &self.name));
        let named = of_it.flat_map(|rule| rule.names.iter().map(String::as_str));
        let known: BTreeSet<&str> = named.chain(["other"]).collect();
        let is_sub = self.name.contains('/');
        let mut all = Vec::new();
        for place in if self.namespaced { places } else { &[""] } {
            for verb in VERBS {
                let of_many = ["list", "watch", "deletecollection"].contains(&verb);
                let asked: Vec<&str> = match verb {
                    // No path means many subresources at once.
                    _ if of_many && is_sub => continue,
                    _ if of_many => vec![""],
                    "create" if !is_sub => vec![""],
                    _ => known.iter().copied().collect(),
                };
                // Of all namespaces at once there are lists only.
                if self.namespaced && place.is_empty() && !["list", "watch"].contains(&verb) {
                    continue;
                }
                all.extend(asked.into_iter().map(|name| Access {
                    verb: verb.to_owned(),
                    group: self.group.clone(),
                    resource: self.name.clone(),
                    namespace: (*place).to_owned(),
                    name: name.to_owned(),
                }));
            }
        }
        all
    }
}

/// What is wrong with an answer, if anything is.
fn wrong(access: &Access, expected: bool, code: u16, text: &str) -> Option<String> {
    let refusal =
        format!("cannot {} resource \\\"{}\\\" in API group \\\"{}\\\"", access.verb, access.resource, access.group);
    let right = if expected { ![401, 403].contains(&code) } else { code == 403 && text.contains(&refusal) };
    (!right).then(|| format!("{access:?}: expected {expected}: {code} {text}"))
}

async fn try_all(pod: &Pod<'_>, resources: &[Resource], places: &[&str]) -> (usize, usize) {
    let rules = rules(&pod.release.set, &pod.release.name);
    let file = Kubeconfig::read_from(&pod.program.kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a config");
    let client = &Client::try_from(config).expect("a client");
    let (rules, mut tried) = (&rules, (0, 0));
    let requests = resources.iter().flat_map(|resource| {
        resource.accesses(places, rules).into_iter().map(move |access| async move {
            let everyone = access.verb == "create" && ABOUT_ONESELF.contains(&access.resource.as_str());
            let expected = everyone || rules.iter().any(|rule| rule.allows(&access));
            let answer = client.send(resource.request(&access)).await.expect("an answer");
            let code = answer.status().as_u16();
            let text = answer.into_body().collect_bytes().await.expect("a body");
            (expected, wrong(&access, expected, code, &String::from_utf8_lossy(&text)))
        })
    });
    let answers: Vec<_> = futures::stream::iter(requests).buffer_unordered(AT_A_TIME).collect().await;
    let all: Vec<_> = answers.iter().filter_map(|(_, wrong)| wrong.clone()).collect();
    assert!(all.is_empty(), "{}: {}", pod.release.set, all.join("\n"));
    for (expected, _) in &answers {
        *(if *expected { &mut tried.0 } else { &mut tried.1 }) += 1;
    }
    tried
}

pub fn refused(api: &Api) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let resources = {
        // Its definitions are among what is tried.
        drop(Release::new(api, "least", "tries-least"));
        resources(api)
    };
    for set in sets() {
        let name = format!("tries-{set}");
        let release = Release::new(api, &set, &name);
        if set == "foreign-account" {
            release.foreign_account();
        }
        // Its own, one that another set lists, one that none does, and all of them at once.
        let mut places = vec![name.as_str(), "crawlers", "default", ""];
        places.extend((set == "namespaces").then_some("scrapers"));
        let (allowed, refused) = runtime.block_on(try_all(&Pod::new(release, "any", ""), &resources, &places));
        assert!(allowed >= ABOUT_ONESELF.len() && refused > 1_500, "{set}: {allowed} allowed, {refused} refused");
    }
}
