//! Reports and the inventory as ConfigMaps, where whoever has no access to the pod's files finds them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use sha2::{Digest as _, Sha256};

use super::client::{Cluster, ClusterError};
use crate::plan::Label;
use crate::report::Report;
use crate::report::inventory::{Format, Rendered};
use crate::report::json;

/// The most bytes of a document in a ConfigMap; the API takes 1 MiB for the whole object.
const MOST: usize = 900_000;
const FLEET: &str = "egress-plan.dev/fleet";
const OUTPUT: &str = "egress-plan.dev/output";

/// Writes a report, and removes reports of the fleet beyond the last `keep`. One that is too large for
/// a ConfigMap leaves its run, its summary and its digest there. Returns whether it is there whole.
///
/// # Errors
/// The API server refused.
pub async fn write_report(cluster: &Cluster, report: &Report, text: &str, keep: usize) -> Result<bool, ClusterError> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let fleet = &report.run.fleet;
    let time = report.run.started_at.strftime("%Y%m%d-%H%M%S").to_string();
    let map = ConfigMap {
        metadata: metadata(&format!("egress-plan-{fleet}-report-{time}-{}", report.run.id), fleet, "report"),
        data: Some(report_data(report, text)),
        ..ConfigMap::default()
    };
    cluster.bounded("write the report", api.create(&PostParams::default(), &map)).await?;
    let selector = ListParams::default().labels(&format!("{FLEET}={fleet},{OUTPUT}=report"));
    let there = cluster.bounded("list the reports", api.list_metadata(&selector)).await?;
    // Their names begin alike and go on with the time.
    let mut names: Vec<String> = there.items.into_iter().filter_map(|map| map.metadata.name).collect();
    names.sort_unstable();
    for name in names.iter().take(names.len().saturating_sub(keep)) {
        match cluster.bounded("remove an old report", api.delete(name, &DeleteParams::default())).await {
            Err(error) if error.code() != Some(404) => return Err(error),
            _ => {}
        }
    }
    Ok(text.len() <= MOST)
}

fn report_data(report: &Report, text: &str) -> BTreeMap<String, String> {
    if text.len() <= MOST {
        return BTreeMap::from([("report.json".to_owned(), text.to_owned())]);
    }
    // Neither holds anything that JSON cannot carry.
    BTreeMap::from([
        ("run.json".to_owned(), json::text(&report.run).unwrap_or_default()),
        ("summary.json".to_owned(), json::text(&report.summary).unwrap_or_default()),
        ("report.sha256".to_owned(), hex::encode(Sha256::digest(text.as_bytes())) + "\n"),
        ("report.bytes".to_owned(), format!("{}\n", text.len())),
    ])
}

/// What became of an inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is as it was, byte for byte.
    Unchanged,
    /// It is new.
    Replaced,
    /// The new one is empty although proxies are wanted, so that the old one stays.
    Kept,
    /// It does not fit into a ConfigMap.
    TooLarge,
}

/// Writes the inventory where it changed.
///
/// # Errors
/// The API server refused.
pub async fn write_inventory(cluster: &Cluster, fleet: &Label, rendered: &Rendered) -> Result<Written, ClusterError> {
    const KEY: &str = "inventory.json";
    if rendered.text.len() > MOST {
        return Ok(Written::TooLarge);
    }
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let name = format!("egress-plan-{fleet}-inventory");
    let data = BTreeMap::from([(KEY.to_owned(), rendered.text.clone())]);
    let there = cluster.bounded("read the inventory", api.get_opt(&name)).await?;
    let Some(mut map) = there else {
        let map = ConfigMap { metadata: metadata(&name, fleet, "inventory"), data: Some(data), ..ConfigMap::default() };
        cluster.bounded("write the inventory", api.create(&PostParams::default(), &map)).await?;
        return Ok(Written::Replaced);
    };
    let before = map.data.as_ref().and_then(|data| data.get(KEY)).cloned().unwrap_or_default();
    if before == rendered.text {
        return Ok(Written::Unchanged);
    }
    if rendered.listed == 0 && rendered.desired > 0 && !Format::Json.is_empty_list(before.as_bytes()) {
        return Ok(Written::Kept);
    }
    map.data = Some(data);
    cluster.bounded("write the inventory", api.replace(&name, &PostParams::default(), &map)).await?;
    Ok(Written::Replaced)
}

fn metadata(name: &str, fleet: &Label, output: &str) -> ObjectMeta {
    let labels = [
        ("app.kubernetes.io/managed-by".to_owned(), "egress-plan".to_owned()),
        (FLEET.to_owned(), fleet.to_string()),
        (OUTPUT.to_owned(), output.to_owned()),
    ];
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels.into()), ..ObjectMeta::default() }
}
