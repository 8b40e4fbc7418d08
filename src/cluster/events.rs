//! What happened to a Proxy, as Kubernetes events on it. One that happens again is counted on the event
//! that is there.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::client::{Cluster, ClusterError};
use super::source::Snapshot;
use crate::apply::StepResult;
use crate::load::manifest::API_VERSION;
use crate::plan::{ProxyKey, Verdict};
use crate::report::Report;
use crate::report::document::ActionReport;

/// Events written at a time.
const AT_A_TIME: usize = 8;
/// The most bytes of a note that the API takes, less room for the run's id.
const NOTE: usize = 900;
/// Who reports.
const CONTROLLER: &str = "egress-plan.dev/egress-plan";
/// The run that reported last.
const RUN: &str = "egress-plan.dev/run";

/// Something to tell of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Happened {
    /// The object's namespace and name.
    pub object: ProxyKey,
    /// Whether it is a set.
    pub is_set: bool,
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// What was done: `Create`, …
    pub action: String,
    /// What came of it: `Created`, `CreateFailed`, `Blocked`, …
    pub reason: String,
    /// One line for people.
    pub note: String,
}

/// What a run has to tell, in a fixed order. `set_of` knows the set of a member.
#[must_use]
pub fn of_report(report: &Report, snapshot: &Snapshot, set_of: &BTreeMap<ProxyKey, ProxyKey>) -> Vec<Happened> {
    let mut all = Vec::new();
    let mut tell = |key: &ProxyKey, kind, action: &str, reason: String, note: String| {
        let set = set_of.get(key).filter(|_| !snapshot.proxies.contains_key(key));
        let note = set.map_or(note.clone(), |_| format!("{}: {note}", key.name()));
        let object = set.unwrap_or(key).clone();
        all.push(Happened { object, is_set: set.is_some(), kind, action: action.to_owned(), reason, note: cut(&note) });
    };
    for proxy in &report.proxies {
        if let Some((kind, action, reason, note)) =
            proxy.action.as_ref().and_then(|action| done(action, proxy.host.as_ref()))
        {
            tell(&proxy.key, kind, &action, reason, note);
        }
        if let Some(held) = proxy.held.as_ref().filter(|held| held.verdict == Verdict::Blocked) {
            let hint = held.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
            tell(&proxy.key, "Warning", "Plan", "Blocked".to_owned(), format!("{}{hint}", held.message));
        }
    }
    for orphan in &report.orphans {
        let Some(key) = &orphan.key else { continue };
        if let Some((kind, action, reason, note)) = orphan.action.as_ref().and_then(|it| done(it, Some(&orphan.host))) {
            tell(key, kind, &action, reason, note);
        }
    }
    all.sort();
    all.dedup();
    all
}

type Told = (&'static str, String, String, String);

/// What came of an action, when something did.
fn done(action: &ActionReport, host: Option<&crate::plan::HostRef>) -> Option<Told> {
    let verb = match action.verb.as_str() {
        "create" => ("Create", "Created"),
        "start" => ("Start", "Started"),
        "replace" => ("Replace", "Replaced"),
        "delete" => ("Delete", "Deleted"),
        _ => return None,
    };
    let at = host.map_or_else(String::new, |host| format!(" on {host}"));
    match action.outcome? {
        StepResult::Done => {
            Some(("Normal", verb.0.to_owned(), verb.1.to_owned(), format!("{}{at}: {}", verb.1, action.why)))
        }
        StepResult::Failed => {
            let why = action.message.as_deref().unwrap_or("unknown");
            Some(("Warning", verb.0.to_owned(), format!("{}Failed", verb.0), format!("{}{at}: {why}", verb.0)))
        }
        _ => None,
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(NOTE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// Writes events. Returns those that could not be written; a namespace that is gone needs none.
pub async fn write(
    cluster: &Cluster,
    snapshot: &Snapshot,
    events: Vec<Happened>,
    run: &str,
    at: Timestamp,
) -> Vec<ClusterError> {
    let write = |event: Happened| async move {
        let uid = if event.is_set { snapshot.sets.get(&event.object) } else { snapshot.proxies.get(&event.object) };
        write_one(cluster, &event, uid.map(|known| known.uid.clone()), run, at).await
    };
    let written: Vec<_> = stream::iter(events).map(write).buffer_unordered(AT_A_TIME).collect().await;
    written.into_iter().filter_map(Result::err).filter(|error| error.code() != Some(404)).collect()
}

async fn write_one(
    cluster: &Cluster,
    event: &Happened,
    uid: Option<String>,
    run: &str,
    at: Timestamp,
) -> Result<(), ClusterError> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), event.object.namespace());
    let name = name(event, uid.as_deref());
    let made = Event {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(event.object.namespace().to_owned()),
            annotations: Some(BTreeMap::from([(RUN.to_owned(), run.to_owned())])),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(at)),
        type_: Some(event.kind.to_owned()),
        action: Some(event.action.clone()),
        reason: Some(event.reason.clone()),
        note: Some(format!("{} (run {run})", event.note)),
        regarding: Some(ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(if event.is_set { "ProxySet" } else { "Proxy" }.to_owned()),
            name: Some(event.object.name().to_owned()),
            namespace: Some(event.object.namespace().to_owned()),
            uid,
            ..ObjectReference::default()
        }),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(run.to_owned()),
        ..Event::default()
    };
    match cluster.bounded("write an event", api.create(&PostParams::default(), &made)).await {
        Err(error) if error.code() == Some(409) => again(cluster, &api, &name, run, at).await,
        other => other.map(drop),
    }
}

/// Counts an event that is there once more.
async fn again(cluster: &Cluster, api: &Api<Event>, name: &str, run: &str, at: Timestamp) -> Result<(), ClusterError> {
    let Some(there) = cluster.bounded("read an event", api.get_opt(name)).await? else { return Ok(()) };
    let count = there.series.map_or(1, |series| series.count).saturating_add(1);
    let patch = json!({
        "metadata": {"annotations": {RUN: run}},
        "series": {"count": count, "lastObservedTime": MicroTime(at)},
    });
    let params = PatchParams::default();
    cluster.bounded("count an event", api.patch(name, &params, &Patch::Merge(&patch))).await.map(drop)
}

/// One name for what is the same but for the run and for figures: free space and ages are others each
/// time.
fn name(event: &Happened, uid: Option<&str>) -> String {
    let mut digest = Sha256::new();
    for part in [uid.unwrap_or_default(), event.kind, &event.action, &event.reason, &without_figures(&event.note)] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let digest = hex::encode(digest.finalize());
    format!("{}.{}", event.object.name(), digest.get(..16).unwrap_or_default())
}

/// A text with each word that begins with a figure left open. Names begin with letters, and stay.
fn without_figures(text: &str) -> String {
    let figure = |word: &str| word.trim_start_matches(['(', '-', '+']).starts_with(|c: char| c.is_ascii_digit());
    text.split(' ').map(|word| if figure(word) { "0" } else { word }).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_figures_alone_has_one_name_and_everything_else_its_own() {
        let named = |note: &str| {
            let object = ProxyKey::new("t", "a").expect("a key");
            let (action, reason, note) = ("Plan".to_owned(), "Blocked".to_owned(), note.to_owned());
            name(&Happened { object, is_set: false, kind: "Warning", action, reason, note }, Some("uid"))
        };
        let first = named("pool default has 5.3 GiB free and 10 GiB are needed (2 minutes ago)");
        assert_eq!(first, named("pool default has 4 GiB free and 10 GiB are needed (31 minutes ago)"));
        assert_ne!(first, named("pool other has 5.3 GiB free and 10 GiB are needed (2 minutes ago)"));
        assert_ne!(named("unknown image debian-12"), named("unknown image debian-13"));
        assert_ne!(named("Create on lab/h1: no answer"), named("Create on lab/h2: no answer"));
    }
}
