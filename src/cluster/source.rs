//! The cluster as a source of manifests: every Proxy and ProxySet, page by page, and the Secrets that
//! they name. A list that broke off is told as one that is not whole, and then nothing is deleted.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::{Cluster, ClusterError};
use crate::load::manifest::API_GROUP;
use crate::load::{Object, Objects, SecretKey};
use crate::plan::ProxyKey;

/// Objects asked for at a time.
const PAGE: u32 = 500;
/// A list whose pages expired is begun anew so often.
const RESTARTS: usize = 2;
/// Secrets asked for at a time.
const SECRETS_AT_A_TIME: usize = 8;
/// Only Secrets with this label are read.
pub const SECRET_LABEL: &str = "egress-plan.dev/user-data";

/// The resource of Proxy.
#[must_use]
pub fn proxies() -> ApiResource {
    resource("Proxy", "proxies")
}

/// The resource of ProxySet.
#[must_use]
pub fn proxy_sets() -> ApiResource {
    resource("ProxySet", "proxysets")
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(API_GROUP, "v1alpha1", kind), plural)
}

/// What a cluster holds at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// For `load`.
    pub objects: Objects,
    /// The single proxies as they are, for status and events.
    pub proxies: BTreeMap<ProxyKey, Known>,
    /// The sets.
    pub sets: BTreeMap<ProxyKey, Known>,
    /// Why a list is not whole.
    pub troubles: Vec<ClusterError>,
}

/// What is known of an object besides what it wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status`, as it is.
    pub status: Value,
    /// `spec.replicas` of a set.
    pub replicas: usize,
}

impl Known {
    /// The status as a type. One that cannot be read is as good as none: it is written anew.
    #[must_use]
    pub fn status<T: DeserializeOwned + Default>(&self) -> T {
        T::deserialize(&self.status).unwrap_or_default()
    }
}

/// Lists everything in `namespaces`, or everywhere.
///
/// # Errors
/// When not even one list could be begun: nobody knows anything then.
pub async fn read(cluster: &Cluster, namespaces: Option<&BTreeSet<String>>) -> Result<Snapshot, ClusterError> {
    let mut snapshot = Snapshot::default();
    snapshot.objects.complete = true;
    snapshot.objects.namespaces = namespaces.cloned();
    let places: Vec<Option<&str>> =
        namespaces.map_or_else(|| vec![None], |names| names.iter().map(|name| Some(name.as_str())).collect());
    let mut begun = false;
    for (resource, is_set) in [(proxies(), false), (proxy_sets(), true)] {
        for place in &places {
            let (objects, trouble) = list(cluster, &resource, *place).await;
            begun |= trouble.is_none() || !objects.is_empty();
            for object in objects {
                snapshot.take(object, is_set);
            }
            if let Some(trouble) = trouble {
                snapshot.objects.complete = false;
                snapshot.troubles.push(trouble);
            }
        }
    }
    if !begun && let Some(trouble) = snapshot.troubles.first().cloned() {
        return Err(trouble);
    }
    snapshot.read_secrets(cluster).await;
    Ok(snapshot)
}

/// One list to its end, as far as it goes, and why it goes no further.
async fn list(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> (Vec<DynamicObject>, Option<ClusterError>) {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, resource),
        None => Api::all_with(cluster.client.clone(), resource),
    };
    let what = match namespace {
        Some(namespace) => format!("list {} in {namespace}", resource.plural),
        None => format!("list {}", resource.plural),
    };
    let mut restarts = 0;
    'anew: loop {
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            match cluster.bounded(&what, api.list(&params)).await {
                Ok(page) => {
                    objects.extend(page.items);
                    match page.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => params = params.continue_token(&token),
                        None => return (objects, None),
                    }
                }
                // The pages belong together only for some minutes.
                Err(error) if error.code() == Some(410) && restarts < RESTARTS => {
                    restarts += 1;
                    continue 'anew;
                }
                Err(error) => return (objects, Some(error)),
            }
        }
    }
}

impl Snapshot {
    fn take(&mut self, mut object: DynamicObject, is_set: bool) {
        let (Some(name), Some(namespace)) = (object.metadata.name.clone(), object.metadata.namespace.clone()) else {
            return;
        };
        let known = Known {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            status: object.data.get_mut("status").map(Value::take).unwrap_or_default(),
            replicas: object
                .data
                .pointer("/spec/replicas")
                .and_then(Value::as_u64)
                .map_or(0, |it| usize::try_from(it).unwrap_or_default()),
        };
        if let Some(data) = object.data.as_object_mut() {
            data.remove("status");
        }
        // On its way out: whatever it wanted is wanted no more.
        if object.metadata.deletion_timestamp.is_some() {
            return;
        }
        object.metadata.managed_fields = None;
        if let Ok(key) = ProxyKey::new(&namespace, &name) {
            if is_set {
                self.sets.insert(key, known)
            } else {
                self.proxies.insert(key, known)
            };
        }
        match serde_json::to_string(&object) {
            Ok(json) => self.objects.objects.push(Object { is_set, namespace, name, json }),
            Err(_) => self.objects.complete = false,
        }
    }

    /// Reads each Secret that an object names, once.
    async fn read_secrets(&mut self, cluster: &Cluster) {
        let mut wanted: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for object in &self.objects.objects {
            let Ok(value) = serde_json::from_str::<Value>(&object.json) else { continue };
            let spec = if object.is_set { "/spec/template/spec" } else { "/spec" };
            let field = |name: &str| {
                value.pointer(&format!("{spec}/cloudInitFrom/secretKeyRef/{name}")).and_then(Value::as_str)
            };
            let (Some(name), Some(key)) = (field("name"), field("key")) else { continue };
            wanted.entry((object.namespace.clone(), name.to_owned())).or_default().insert(key.to_owned());
        }
        let answers: Vec<_> = stream::iter(wanted)
            .map(|((namespace, name), keys)| async move {
                let api: Api<Secret> = Api::namespaced(cluster.client.clone(), &namespace);
                let what = format!("read the secret {namespace}/{name}");
                let answer = cluster.bounded(&what, api.get_opt(&name)).await;
                (namespace, name, keys, answer)
            })
            .buffer_unordered(SECRETS_AT_A_TIME)
            .collect()
            .await;
        for (namespace, name, keys, answer) in answers {
            let secret = usable(answer);
            for key in keys {
                let value = secret.as_ref().map_err(Clone::clone).and_then(|secret| {
                    let data = secret.data.as_ref().and_then(|data| data.get(&key));
                    data.map(|bytes| bytes.0.clone())
                        .ok_or_else(|| "does not exist: the Secret has no such key".to_owned())
                });
                let wanted = SecretKey { namespace: namespace.clone(), name: name.clone(), key };
                self.objects.secrets.insert(wanted, value);
            }
        }
    }
}

/// A Secret that may be used as user-data, or why not.
fn usable(answer: Result<Option<Secret>, ClusterError>) -> Result<Secret, String> {
    match answer {
        Ok(Some(secret)) => {
            let labels = secret.metadata.labels.as_ref();
            if labels.and_then(|labels| labels.get(SECRET_LABEL)).is_some_and(|value| value == "true") {
                Ok(secret)
            } else {
                Err(format!("is not meant for this: label it {SECRET_LABEL}=true to let machines have it"))
            }
        }
        Ok(None) => Err("does not exist".to_owned()),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}
