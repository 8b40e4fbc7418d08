//! An API server that plays the part of a real one for what this program asks: lists in pages, a lease
//! with versions, Secrets, and notes of all that is written. It may be told to answer otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::lab::Lab;

/// An answer that is given instead, once or for as long as the server is there.
pub(super) struct Instead {
    pub method: &'static str,
    /// The path ends so.
    pub path: &'static str,
    /// What the query holds.
    pub query: &'static str,
    pub times: usize,
    pub answer: ResponseTemplate,
}

#[derive(Default)]
struct State {
    proxies: Vec<Value>,
    sets: Vec<Value>,
    secrets: BTreeMap<String, Value>,
    lease: Option<Value>,
    version: u64,
    page: usize,
    instead: Vec<Instead>,
    /// What the lease is once something was answered instead.
    lease_then: Option<Value>,
}

pub(super) struct Api {
    runtime: Runtime,
    server: MockServer,
    state: Arc<Mutex<State>>,
}

/// A refusal in the API's own shape.
pub(super) fn refusal(code: u16, reason: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    }))
}

/// A Proxy as the API server gives it.
pub(super) fn proxy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "egress-plan.dev/v1alpha1", "kind": "Proxy",
        "metadata": {"name": name, "namespace": "t", "uid": format!("uid-{name}"), "generation": 3, "resourceVersion": "7"},
        "spec": spec,
    })
}

impl Api {
    pub(super) fn new(proxies: Vec<Value>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runs");
        let state = Arc::new(Mutex::new(State { proxies, version: 10, page: 500, ..State::default() }));
        let answering = Arc::clone(&state);
        let server = runtime.block_on(async {
            let server = MockServer::start().await;
            let answer =
                move |request: &Request| answering.lock().unwrap_or_else(PoisonError::into_inner).answer(request);
            Mock::given(wiremock::matchers::any()).respond_with(answer).mount(&server).await;
            server
        });
        Self { runtime, server, state }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn sets(&self, sets: Vec<Value>) {
        self.change(|state| state.sets = sets);
    }

    pub(super) fn secret(&self, name: &str, labels: &Value, key: &str, value: &str) {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(value);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "t", "labels": labels},
            "data": {key: data},
        });
        self.change(|state| _ = state.secrets.insert(name.to_owned(), secret));
    }

    pub(super) fn pages_of(&self, objects: usize) {
        self.change(|state| state.page = objects);
    }

    pub(super) fn lease(&self, lease: Value) {
        self.change(|state| state.lease = Some(lease));
    }

    pub(super) fn lease_now(&self) -> Value {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).lease.clone().unwrap_or_default()
    }

    pub(super) fn instead(&self, instead: Instead) {
        self.change(|state| state.instead.push(instead));
    }

    /// What the lease becomes in the moment of the next such answer.
    pub(super) fn lease_then(&self, lease: Value) {
        self.change(|state| state.lease_then = Some(lease));
    }

    /// What was asked, as `METHOD path?query` and body.
    pub(super) fn asked(&self) -> Vec<(String, Value)> {
        let requests = self.runtime.block_on(self.server.received_requests()).expect("recorded");
        let told = |request: &Request| {
            let query = request.url.query().map_or_else(String::new, |query| format!("?{query}"));
            let body = serde_json::from_slice(&request.body).unwrap_or_default();
            (format!("{} {}{query}", request.method, request.url.path()), body)
        };
        requests.iter().map(told).collect()
    }

    /// Bodies of what was asked by a method at a path that ends so.
    pub(super) fn bodies(&self, method: &str, path: &str) -> Vec<Value> {
        let asked = self.asked();
        let meant = asked.into_iter().filter(|(line, _)| {
            let line = line.split('?').next().unwrap_or_default();
            line.starts_with(method) && line.ends_with(path)
        });
        meant.map(|(_, body)| body).collect()
    }

    /// Writes a kubeconfig that leads here into the lab.
    pub(super) fn lead(&self, lab: &Lab) {
        lab.write(
            "kubeconfig",
            &format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \"{}\"}}}}]\n\
                 users: [{{name: u, user: {{token: CANARY-TOKEN}}}}]\n\
                 contexts: [{{name: c, context: {{cluster: c, user: u, namespace: egress}}}}]\n",
                self.server.uri()
            ),
        );
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> ResponseTemplate {
        let (method, path) = (request.method.as_str(), request.url.path());
        let query = request.url.query().unwrap_or_default();
        let meant = |it: &Instead| it.method == method && path.ends_with(it.path) && query.contains(it.query);
        if let Some(at) = self.instead.iter().position(|it| it.times > 0 && meant(it)) {
            let instead = &mut self.instead[at];
            instead.times -= 1;
            let answer = instead.answer.clone();
            self.lease = self.lease_then.take().or_else(|| self.lease.take());
            return answer;
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        match (method, last) {
            ("GET", "proxies") => self.list("Proxy", &self.proxies, query),
            ("GET", "proxysets") => self.list("ProxySet", &self.sets, query),
            ("POST", "leases") if query.contains("dryRun=All") => {
                let mut made = body;
                made["metadata"]["name"] = json!("clock");
                made["metadata"]["creationTimestamp"] = json!(now());
                ResponseTemplate::new(201).set_body_json(made)
            }
            ("POST", "leases") if self.lease.is_some() => refusal(409, "AlreadyExists", "it exists"),
            ("POST", "leases") => self.keep_lease(body, 201),
            ("GET", name) if path.contains("/leases/") => match &self.lease {
                Some(lease) => ResponseTemplate::new(200).set_body_json(lease),
                None => refusal(404, "NotFound", &format!("leases \"{name}\" not found")),
            },
            ("PUT", _) if path.contains("/leases/") => {
                let same = self.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
                if same == Some(body["metadata"]["resourceVersion"].clone()) {
                    self.keep_lease(body, 200)
                } else {
                    refusal(409, "Conflict", "the object has been modified")
                }
            }
            ("GET", name) if path.contains("/secrets/") => match self.secrets.get(name) {
                Some(secret) => ResponseTemplate::new(200).set_body_json(secret),
                None => refusal(404, "NotFound", &format!("secrets \"{name}\" not found")),
            },
            ("PATCH", "status") | ("POST" | "PUT", _) => ResponseTemplate::new(200).set_body_json(body),
            ("GET", "configmaps") => ResponseTemplate::new(200).set_body_json(json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [],
            })),
            _ => refusal(404, "NotFound", "not found"),
        }
    }

    fn keep_lease(&mut self, mut lease: Value, code: u16) -> ResponseTemplate {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!("lease-uid");
        lease["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "time": now()}]);
        self.lease = Some(lease.clone());
        ResponseTemplate::new(code).set_body_json(lease)
    }

    fn list(&self, kind: &str, all: &[Value], query: &str) -> ResponseTemplate {
        let from = query
            .split('&')
            .find_map(|part| part.strip_prefix("continue="))
            .map_or(0, |token| token.parse::<usize>().expect("a token of this server"));
        let to = (from + self.page).min(all.len());
        let mut metadata = json!({"resourceVersion": "99"});
        if to < all.len() {
            metadata["continue"] = json!(to.to_string());
        }
        ResponseTemplate::new(200).set_body_json(json!({
            "apiVersion": "egress-plan.dev/v1alpha1", "kind": format!("{kind}List"), "metadata": metadata,
            "items": all[from..to],
        }))
    }
}

fn now() -> String {
    jiff::Timestamp::now().round(jiff::Unit::Second).expect("in range").to_string()
}

/// A moment from now, as the API server would write it.
pub(super) fn ago(time: Duration) -> String {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::try_from(time).expect("short");
    then.round(jiff::Unit::Second).expect("in range").to_string()
}
