//! Writes what a run came to into the cluster: status where it changed, events, and outputs. Nothing that
//! goes wrong here undoes or fails what was done on hosts.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::{Cluster, ClusterError};
use super::source::{Known, Snapshot, proxies, proxy_sets};
use super::status::{ProxySetStatus, ProxyStatus, of_proxy, of_set};
use crate::load::manifest::API_VERSION;
use crate::plan::ProxyKey;
use crate::report::Report;
use crate::report::document::ProxyReport;

/// Who owns the fields of a status.
pub const FIELD_MANAGER: &str = "egress-plan";
/// Statuses written at a time.
const AT_A_TIME: usize = 8;

/// A status to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The object's namespace and name.
    pub object: ProxyKey,
    /// Whether it is a set.
    pub is_set: bool,
    /// `metadata.uid`: an object of the same name that was made meanwhile is another one.
    pub uid: String,
    /// The whole status.
    pub status: Value,
}

/// The set of each member that no single Proxy stands for.
#[must_use]
pub fn sets_of_members(snapshot: &Snapshot) -> BTreeMap<ProxyKey, ProxyKey> {
    let members = |(set, known): (&ProxyKey, &Known)| {
        let set = set.clone();
        (0..known.replicas).filter_map(move |index| {
            let member = ProxyKey::new(set.namespace(), &format!("{}-{index}", set.name())).ok()?;
            Some((member, set.clone()))
        })
    };
    snapshot.sets.iter().flat_map(members).collect()
}

/// The statuses that differ from those in the cluster.
#[must_use]
pub fn changes(report: &Report, snapshot: &Snapshot, at: Timestamp) -> Vec<Change> {
    let sets = sets_of_members(snapshot);
    let mut members: BTreeMap<&ProxyKey, Vec<&ProxyReport>> = BTreeMap::new();
    let mut changes = Vec::new();
    for proxy in &report.proxies {
        if let Some(known) = snapshot.proxies.get(&proxy.key) {
            let before: ProxyStatus = known.status();
            let after = of_proxy(proxy, &before, known.generation);
            changes.extend(changed(&proxy.key, false, known, &before, &after));
        } else if let Some(set) = sets.get(&proxy.key) {
            members.entry(set).or_default().push(proxy);
        }
    }
    for (set, known) in &snapshot.sets {
        let before: ProxySetStatus = known.status();
        let members = members.remove(set).unwrap_or_default();
        let after = of_set(&members, &before, known.generation, at);
        changes.extend(changed(set, true, known, &before, &after));
    }
    changes
}

fn changed<T: PartialEq + Serialize>(
    object: &ProxyKey,
    is_set: bool,
    known: &Known,
    before: &T,
    after: &T,
) -> Option<Change> {
    if before == after {
        return None;
    }
    let uid = known.uid.clone();
    Some(Change { object: object.clone(), is_set, uid, status: serde_json::to_value(after).ok()? })
}

/// Writes statuses by server-side apply. Returns those that could not be written; an object that is
/// gone meanwhile needs none.
pub async fn write(cluster: &Cluster, changes: Vec<Change>) -> Vec<ClusterError> {
    let write = |change: Change| async move {
        let (resource, kind) = if change.is_set { (proxy_sets(), "ProxySet") } else { (proxies(), "Proxy") };
        let what = format!("write the status of {}", change.object);
        patch(cluster, &resource, kind, &change, &what).await
    };
    let written: Vec<_> = stream::iter(changes).map(write).buffer_unordered(AT_A_TIME).collect().await;
    written.into_iter().filter_map(Result::err).filter(|error| error.code() != Some(404)).collect()
}

async fn patch(
    cluster: &Cluster,
    resource: &ApiResource,
    kind: &str,
    change: &Change,
    what: &str,
) -> Result<(), ClusterError> {
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), change.object.namespace(), resource);
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": change.object.name(), "namespace": change.object.namespace(), "uid": change.uid},
        "status": change.status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    cluster.bounded(what, api.patch_status(change.object.name(), &params, &Patch::Apply(&object))).await.map(drop)
}
