//! The cluster as a source of manifests: every Proxy and ProxySet, page by page, and the Secrets that
//! they name. A list that broke off is told as one that is not whole, and then nothing is deleted.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind, ObjectList};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::{Cluster, ClusterError};
use crate::load::manifest::API_GROUP;
use crate::load::{Object, Objects, SecretKey};
use crate::plan::ProxyKey;

/// Objects asked for at a time.
const PAGE: u32 = 500;
/// A list whose pages expired, or sets that changed meanwhile, begin everything anew so often.
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
/// Proxies and sets are two lists, of two moments. A key that went from the one kind to the other in
/// between would be in neither, and its machine wanted by nobody: so sets are listed before Proxies and
/// looked at once more after them, and a set that was made or changed meanwhile begins everything anew.
///
/// # Errors
/// When not even one list could be begun: nobody knows anything then.
pub async fn read(cluster: &Cluster, namespaces: Option<&BTreeSet<String>>) -> Result<Snapshot, ClusterError> {
    let places: Vec<Option<&str>> =
        namespaces.map_or_else(|| vec![None], |names| names.iter().map(|name| Some(name.as_str())).collect());
    let mut restarts = 0;
    let mut snapshot = loop {
        let mut snapshot = gather(cluster, &places).await?;
        if !snapshot.objects.complete {
            break snapshot;
        }
        match sets_stand(cluster, &places, &snapshot).await {
            Ok(true) => break snapshot,
            Ok(false) if restarts < RESTARTS => restarts += 1,
            Ok(false) => {
                let message = "they changed each time while proxies were listed".to_owned();
                snapshot.broke_off(ClusterError::Lost { what: "list proxysets".to_owned(), message });
                break snapshot;
            }
            Err(trouble) => {
                snapshot.broke_off(trouble);
                break snapshot;
            }
        }
    };
    snapshot.objects.namespaces = namespaces.cloned();
    snapshot.read_secrets(cluster).await;
    Ok(snapshot)
}

/// Every list once, sets first.
async fn gather(cluster: &Cluster, places: &[Option<&str>]) -> Result<Snapshot, ClusterError> {
    let mut snapshot = Snapshot::default();
    snapshot.objects.complete = true;
    let mut begun = false;
    for (resource, is_set) in [(proxy_sets(), true), (proxies(), false)] {
        for place in places {
            let api = api(cluster, &resource, *place);
            let (objects, trouble) = list(cluster, &resource, *place, async |params| api.list(params).await).await;
            begun |= trouble.is_none() || !objects.is_empty();
            for object in objects {
                snapshot.take(object, is_set);
            }
            if let Some(trouble) = trouble {
                snapshot.broke_off(trouble);
            }
        }
    }
    // Of a key that both give, the single proxy is the one that counts.
    snapshot.objects.objects.sort_by_key(|object| object.is_set);
    match snapshot.troubles.first() {
        Some(trouble) if !begun => Err(trouble.clone()),
        _ => Ok(snapshot),
    }
}

/// Whether every set that is there now was there, as it is.
async fn sets_stand(cluster: &Cluster, places: &[Option<&str>], snapshot: &Snapshot) -> Result<bool, ClusterError> {
    let known: BTreeSet<(&str, i64)> =
        snapshot.sets.values().map(|known| (known.uid.as_str(), known.generation)).collect();
    let resource = proxy_sets();
    for place in places {
        let api = api(cluster, &resource, *place);
        let (sets, trouble) = list(cluster, &resource, *place, async |params| api.list_metadata(params).await).await;
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        let stands = |metadata: &ObjectMeta| {
            metadata.deletion_timestamp.is_some()
                || known
                    .contains(&(metadata.uid.as_deref().unwrap_or_default(), metadata.generation.unwrap_or_default()))
        };
        if !sets.iter().all(|set| stands(&set.metadata)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn api(cluster: &Cluster, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, resource),
        None => Api::all_with(cluster.client.clone(), resource),
    }
}

/// One list to its end, page by page, as far as it goes, and why it goes no further.
async fn list<T: Clone>(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    page: impl AsyncFn(&ListParams) -> Result<ObjectList<T>, kube::Error>,
) -> (Vec<T>, Option<ClusterError>) {
    let what = match namespace {
        Some(namespace) => format!("list {} in {namespace}", resource.plural),
        None => format!("list {}", resource.plural),
    };
    let mut restarts = 0;
    'anew: loop {
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            match cluster.bounded(&what, page(&params)).await {
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
    fn broke_off(&mut self, trouble: ClusterError) {
        self.objects.complete = false;
        self.troubles.push(trouble);
    }

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
