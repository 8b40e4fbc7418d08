//! Objects of a cluster: read as manifests are, but each one alone. What is wrong with one blocks its
//! proxies and nothing else, and their keys stay desired.

use std::collections::{BTreeMap, BTreeSet};

use super::desired::Join;
use super::documents::{self, Document, Kind};
use super::files::SourceFile;
use super::problem::Problem;
use super::user_data::Secrets;
use crate::plan::{HostRef, Label, MachineSpec, Managed, Mode, Proxy, ProxyKey};
use crate::provider::document::{Finding, Findings, Limits, Node, Position, Severity, Value};

/// What stands for a provider entry or a host that an object does not name.
const UNNAMED: &str = "unnamed";

/// Everything that a cluster holds for a fleet.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// The id of the cluster as a source of manifests.
    pub source: Option<String>,
    /// Whether each list was read to its end.
    pub complete: bool,
    /// The namespaces that were listed; none for all of them.
    pub namespaces: Option<BTreeSet<String>>,
    /// The objects, sets after single proxies.
    pub objects: Vec<Object>,
    /// The values of Secrets that objects name, or why there is none.
    pub secrets: BTreeMap<SecretKey, Result<Vec<u8>, String>>,
}

/// One object.
#[derive(Debug, Clone)]
pub struct Object {
    /// Whether it is a set.
    pub is_set: bool,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// As the API server gave it, in JSON.
    pub json: String,
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretKey {
    /// The Secret's namespace, which is the proxy's.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The key within it.
    pub key: String,
}

impl Object {
    /// As it is shown: `proxy/crawlers/crawl-1`.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}/{}/{}", if self.is_set { "proxyset" } else { "proxy" }, self.namespace, self.name)
    }

    fn source(&self) -> SourceFile {
        SourceFile { name: self.shown(), bytes: Vec::new(), real: None, folder: None, root: None, argument: usize::MAX }
    }
}

/// What reading objects came to beside the proxies.
#[derive(Default)]
pub(super) struct Read {
    /// Keys that files give too: those are errors.
    pub errors: Vec<Problem>,
    /// What should be looked at and stops nothing.
    pub warnings: Vec<Problem>,
    /// Whether the keys of an object could not be told, so that nobody knows what is wanted.
    pub unknown_keys: bool,
}

/// Adds every object to what is desired.
pub(super) fn add<'a>(objects: &'a Objects, join: &mut Join<'a>) -> Read {
    let of_files = join.keys().clone();
    let mut read = Read::default();
    for object in &objects.objects {
        let source = object.source();
        let sets = join.sets.len();
        let (node, findings) = read_one(object, &source, &objects.secrets, join);
        let keys = keys(object, node.as_ref());
        let twice = keys.iter().flatten().filter_map(|key| Some((key, of_files.get(key)?)));
        read.errors.extend(twice.map(|(key, first)| {
            let message = format!("the proxy {key} is given by a file as well, at {first}; leave one of the two");
            Problem::of_file(&source.name, message)
        }));
        let (wrong, odd): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.severity == Severity::Error);
        read.warnings.extend(odd.iter().map(|finding| problem(&source, finding)));
        if wrong.is_empty() {
            continue;
        }
        // What of it was sound enough to be taken goes again: half an object is another one.
        join.sets.truncate(sets);
        let why = wrong.iter().map(|finding| problem(&source, finding).message).collect::<Vec<_>>().join("; ");
        if let Some(keys) = keys {
            block(keys, &why, &source.name, node.as_ref(), join);
        } else {
            read.unknown_keys = true;
            let message = format!("which proxies it wants cannot be told, so nothing is deleted: {why}");
            read.warnings.push(Problem { severity: Severity::Warning, ..Problem::of_file(&source.name, message) });
        }
    }
    read
}

fn read_one<'a>(
    object: &Object,
    source: &SourceFile,
    secrets: &'a BTreeMap<SecretKey, Result<Vec<u8>, String>>,
    join: &mut Join<'a>,
) -> (Option<Node>, Vec<Finding>) {
    let mut findings = Findings::default();
    let kind = if object.is_set { Kind::ProxySet } else { Kind::Proxy };
    match documents::parse(&object.json, 0, Limits::MANIFEST) {
        Ok(Some(node)) => {
            let document = Document { kind, node, path: String::new() };
            let files = std::mem::replace(&mut join.context.secrets, Secrets::Cluster(secrets));
            join.add(&document, source, &mut findings);
            join.context.secrets = files;
            (Some(document.node), findings.into_vec())
        }
        Ok(None) => (None, vec![finding("the API server gave an object with nothing in it")]),
        Err(fault) => (None, vec![finding(&fault.message)]),
    }
}

fn finding(message: &str) -> Finding {
    Finding { at: Position::default(), path: String::new(), message: message.to_owned(), severity: Severity::Error }
}

/// A line and a column mean nothing to whoever wrote the object.
fn problem(source: &SourceFile, finding: &Finding) -> Problem {
    let message = match finding.path.as_str() {
        "" => finding.message.clone(),
        path => format!("{path}: {}", finding.message),
    };
    Problem { severity: finding.severity, ..Problem::of_file(&source.name, message) }
}

/// The keys that an object wants, as far as its name and its replicas tell.
fn keys(object: &Object, node: Option<&Node>) -> Option<Vec<ProxyKey>> {
    if !object.is_set {
        return Some(vec![ProxyKey::new(&object.namespace, &object.name).ok()?]);
    }
    let replicas = match node?.get("spec")?.get("replicas")?.value {
        Value::Int(replicas) => usize::try_from(replicas).ok().filter(|replicas| *replicas <= 10_000)?,
        _ => return None,
    };
    (0..replicas).map(|index| ProxyKey::new(&object.namespace, &format!("{}-{index}", object.name)).ok()).collect()
}

/// Keeps keys desired whose object cannot be resolved: nothing is made, changed or deleted for them. A
/// key that another object gave first stays that one's.
fn block(keys: Vec<ProxyKey>, why: &str, origin: &str, node: Option<&Node>, join: &mut Join<'_>) {
    let spec = node.and_then(|node| node.get("spec"));
    let spec = spec.and_then(|spec| spec.get("template").and_then(|template| template.get("spec")).or(Some(spec)));
    let label = |node: Option<&Node>, field: &str| -> Option<Label> {
        node.and_then(|node| node.get(field)).and_then(Node::text)?.parse().ok()
    };
    let placement = spec.and_then(|spec| spec.get("placement"));
    let Ok(unnamed) = UNNAMED.parse::<Label>() else { return };
    let entry = label(spec, "provider").unwrap_or_else(|| unnamed.clone());
    let zones = match node.and_then(|node| node.get("spec")?.get("zones")).map(|zones| &zones.value) {
        Some(Value::List(zones)) => zones.iter().filter_map(|zone| zone.text()?.parse().ok()).collect(),
        _ => Vec::new(),
    };
    let zone = label(placement, "zone").or_else(|| join.only_host(&entry));
    let host = |index: usize| {
        let spread = index.checked_rem(zones.len()).and_then(|index| zones.get(index));
        zone.as_ref().or(spread).unwrap_or(&unnamed).clone()
    };
    let port = match spec.and_then(|spec| spec.get("port")).map(|port| &port.value) {
        Some(Value::Int(port)) => u16::try_from(*port).unwrap_or_default(),
        _ => 0,
    };
    let protect = spec.and_then(|spec| spec.get("protect")).is_some_and(|it| matches!(it.value, Value::Bool(true)));
    let labels = labels(node);
    for (index, key) in keys.into_iter().enumerate() {
        let place = HostRef { entry: entry.clone(), host: host(index) };
        let spec = MachineSpec { image: String::new(), machine_type: String::new(), user_data: None, network: None };
        let managed = Managed { place, port, protect, spec, resolved: Err(why.to_owned()) };
        let mode = Mode::Managed(Box::new(managed));
        let proxy = Proxy { key: key.clone(), origin: origin.to_owned(), labels: labels.clone(), mode };
        let own = format!("{origin}:");
        if join.proxies.get(&key).is_none_or(|there| there.origin.starts_with(&own)) {
            join.proxies.insert(key, proxy);
        }
    }
}

/// Labels of an object, and of its template where it is a set: clients choose proxies by them.
fn labels(node: Option<&Node>) -> BTreeMap<String, String> {
    let own = node.and_then(|node| node.get("metadata")?.get("labels"));
    let template = node.and_then(|node| node.get("spec")?.get("template")?.get("metadata")?.get("labels"));
    let entries = [own, template].into_iter().flatten().filter_map(|labels| match &labels.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    });
    entries.flatten().filter_map(|entry| Some((entry.key.clone(), entry.value.text()?.to_owned()))).collect()
}
