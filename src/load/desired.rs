//! Joins manifests and config into what is desired.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::documents::{Document, Kind};
use super::files::SourceFile;
use super::manifest::{RawMetadata, RawProxy, RawProxySet, RawSetSpec};
use super::problem::place;
use super::proxy_set::SetPlacement;
use super::spec::{self, Checked, Context, Machine, Met};
use super::user_data::{Reach, Secrets};
use crate::plan::{HostRef, Label, Managed, Mode, Observed, Proxy, ProxyKey};
use crate::provider::document::check::{REQUIRED, required, within};
use crate::provider::document::{Findings, Located, Location, Node, Position, Value};
use crate::provider::libvirt::config::Outline;
use crate::provider::libvirt::resolve::resolve;

/// Collects proxies from documents; problems go to the findings of the document's file.
pub(super) struct Join<'a> {
    pub context: Context<'a>,
    /// The fleet, where it is known: without it nothing is resolved.
    pub fleet: Option<&'a Label>,
    pub proxies: BTreeMap<ProxyKey, Proxy>,
    pub sets: Vec<SetPlacement>,
    pub met: Met,
    /// Where each key was first given.
    keys: BTreeMap<ProxyKey, String>,
    /// Who has each static address, and where that is said.
    addresses: BTreeMap<IpAddr, (ProxyKey, String)>,
}

/// A manifest's name and what goes with it.
struct Identity {
    namespace: String,
    name: String,
    at: Location,
    labels: BTreeMap<String, String>,
}

impl<'a> Join<'a> {
    pub fn new(context: Context<'a>, fleet: Option<&'a Label>) -> Self {
        Self {
            context,
            fleet,
            proxies: BTreeMap::new(),
            sets: Vec::new(),
            met: Met::default(),
            keys: BTreeMap::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// Where each key was first given.
    pub fn keys(&self) -> &BTreeMap<ProxyKey, String> {
        &self.keys
    }

    /// Adds what `document` of `file` describes.
    pub fn add(&mut self, document: &Document, file: &SourceFile, findings: &mut Findings) {
        match document.kind {
            Kind::Proxy => self.add_proxy(document, file, findings),
            Kind::ProxySet => self.add_set(document, file, findings),
        }
    }

    fn add_proxy(&mut self, document: &Document, file: &SourceFile, findings: &mut Findings) {
        let raw: Located<RawProxy> = document.node.read(&document.path, findings);
        let at = &raw.at;
        let Some(raw) = raw.get() else { return };
        let identity = identity(raw.metadata.as_ref(), at, findings);
        let namespace = identity.as_ref().map_or("default", |identity| identity.namespace.as_str());
        let reach = reach(file, self.context.secrets);
        let checked = required(raw.spec.as_ref(), at, "spec", REQUIRED, findings)
            .and_then(|field| spec::check(field, namespace, &self.context, &reach, &mut self.met, findings));
        warn_of_nothing(document.node.get("spec"), at, "spec", findings);
        // A duplicate or an unknown zone is told even when another field is wrong.
        let Some(identity) = identity else { return };
        let Some(key) = self.take(&identity, &identity.name, file, findings) else { return };
        let origin = origin(file, at.position);
        let Some(checked) = checked else { return };
        let zone = match &checked {
            Checked::External { .. } => None,
            Checked::Managed(machine) => match (&machine.zone, self.outline(&machine.entry)) {
                (Some(zone), _) => Some(zone.clone()),
                (None, Some(outline)) => spec::only_host(outline, &machine.zone_at, findings),
                (None, None) => None,
            },
        };
        self.insert(key, origin, identity.labels, &checked, zone, file, findings);
    }

    fn add_set(&mut self, document: &Document, file: &SourceFile, findings: &mut Findings) {
        let raw: Located<RawProxySet> = document.node.read(&document.path, findings);
        let at = &raw.at;
        let Some(raw) = raw.get() else { return };
        let identity = identity(raw.metadata.as_ref(), at, findings);
        let Some(set) = required(raw.spec.as_ref(), at, "spec", REQUIRED, findings) else { return };
        let set_at = &set.at;
        let Some(set) = set.get() else { return };
        let replicas: Option<usize> = required(set.replicas.as_ref(), set_at, "replicas", REQUIRED, findings)
            .and_then(|field| within(field, 0..=10_000, findings));
        let Some(template) = required(set.template.as_ref(), set_at, "template", REQUIRED, findings) else { return };
        let template_at = &template.at;
        let Some(template) = template.get() else { return };
        let labels = template.metadata.as_ref().and_then(Located::get).and_then(|metadata| metadata.labels.as_ref());
        let labels = read_labels(labels, findings);
        let namespace = identity.as_ref().map_or("default", |identity| identity.namespace.as_str());
        let Some(spec) = required(template.spec.as_ref(), template_at, "spec", REQUIRED, findings) else { return };
        let node = document.node.get("spec").and_then(|spec| spec.get("template")).and_then(|node| node.get("spec"));
        warn_of_nothing(node, at, "spec.template.spec", findings);
        let reach = reach(file, self.context.secrets);
        let checked = spec::check(spec, namespace, &self.context, &reach, &mut self.met, findings);
        let (Some(identity), Some(replicas), Some(checked)) = (identity, replicas, checked) else { return };
        let Checked::Managed(machine) = &checked else {
            let mode = spec.get().and_then(|spec| spec.mode.as_ref()).map_or(&spec.at, |mode| &mode.at);
            return findings.error(mode, "a set is of Managed proxies; an External one has one endpoint");
        };
        let zones = self.zones(set, machine, findings);
        let mut members = Vec::new();
        for index in 0..replicas {
            let Some(key) = self.take(&identity, &format!("{}-{index}", identity.name), file, findings) else { return };
            members.push(key);
        }
        if zones.is_empty() {
            return;
        }
        let placement = SetPlacement { entry: machine.entry.clone(), zones, members };
        let spread = placement.spread(&Observed::default());
        let mut all_labels = identity.labels;
        all_labels.extend(labels);
        for (key, zone) in placement.members.iter().zip(spread) {
            let origin = origin(file, at.position);
            self.insert(key.clone(), origin, all_labels.clone(), &checked, Some(zone), file, findings);
        }
        self.sets.push(placement);
    }

    fn outline(&self, entry: &Label) -> Option<&'a Outline> {
        self.context.entries.and_then(|entries| entries.get(entry)).map(|entry| &entry.outline)
    }

    /// The host of an entry that has one alone.
    pub fn only_host(&self, entry: &Label) -> Option<Label> {
        match self.outline(entry)?.hosts.as_slice() {
            [host] => Some(host.name.clone()),
            _ => None,
        }
    }

    /// The zones of a set that something may be put on.
    fn zones(&self, set: &RawSetSpec, machine: &Machine, findings: &mut Findings) -> Vec<Label> {
        let outline = self.outline(&machine.entry);
        let Some(list) = &set.zones else {
            let one = match (&machine.zone, outline) {
                (Some(zone), _) => Some(zone.clone()),
                (None, Some(outline)) => spec::only_host(outline, &machine.zone_at, findings),
                (None, None) => None,
            };
            return one.into_iter().collect();
        };
        if machine.zone.is_some() {
            findings.error(&machine.zone_at, "a set has zones, or its template has a zone; leave one of the two");
        }
        if list.get().is_some_and(Vec::is_empty) {
            findings.error(&list.at, "at least one zone is required");
        }
        let mut zones: Vec<Label> = Vec::new();
        for field in list.get().into_iter().flatten() {
            let Some(zone) = spec::host(field, outline, findings) else { continue };
            if zones.contains(&zone) {
                findings.error(&field.at, "this zone is given twice; leave one");
            } else {
                zones.push(zone);
            }
        }
        let retired = |zone: &Label| {
            outline.is_some_and(|outline| outline.hosts.iter().any(|host| host.name == *zone && host.retired))
        };
        let usable: Vec<Label> = zones.iter().filter(|zone| !retired(zone)).cloned().collect();
        if usable.is_empty() { zones } else { usable }
    }

    /// Takes a key for a proxy; a key that is taken is reported with both places.
    fn take(
        &mut self,
        identity: &Identity,
        name: &str,
        file: &SourceFile,
        findings: &mut Findings,
    ) -> Option<ProxyKey> {
        let key = match ProxyKey::new(&identity.namespace, name) {
            Ok(key) => key,
            Err(error) => {
                let whose = if name == identity.name { String::new() } else { "the names of the members: ".to_owned() };
                findings.error(&identity.at, format!("{whose}{error}"));
                return None;
            }
        };
        if let Some(first) = self.keys.get(&key) {
            findings.error(&identity.at, format!("the proxy {key} is given twice, first at {first}; leave one"));
            return None;
        }
        self.keys.insert(key.clone(), place(&file.name, identity.at.position));
        Some(key)
    }

    #[allow(clippy::too_many_arguments, reason = "one proxy's parts, each of another source")]
    fn insert(
        &mut self,
        key: ProxyKey,
        origin: String,
        labels: BTreeMap<String, String>,
        checked: &Checked,
        zone: Option<Label>,
        file: &SourceFile,
        findings: &mut Findings,
    ) {
        let mode = match checked {
            Checked::External { host, port } => Mode::External { host: host.clone(), port: *port },
            Checked::Managed(machine) => {
                for (address, at) in &machine.addresses {
                    if let Some((other, first)) = self.addresses.get(address) {
                        findings.error(
                            at,
                            format!("the address {address} of {key} is taken by {other} at {first}; give each its own"),
                        );
                    } else {
                        self.addresses.insert(*address, (key.clone(), place(&file.name, at.position)));
                    }
                }
                let Some(host) = zone else { return };
                let place = HostRef { entry: machine.entry.clone(), host };
                let config = self
                    .context
                    .entries
                    .and_then(|entries| entries.get(&machine.entry))
                    .and_then(|e| e.config.as_ref());
                let (Some(config), Some(fleet)) = (config, self.fleet) else { return };
                match resolve(config, fleet, &place, &key, &machine.spec, &labels) {
                    Ok(resolved) => Mode::Managed(Box::new(Managed {
                        place,
                        port: machine.port,
                        protect: machine.protect,
                        spec: machine.spec.clone(),
                        resolved: Ok(resolved),
                    })),
                    Err(problems) => {
                        for (field, message) in problems {
                            findings.error(machine.fields.get(field).unwrap_or(&machine.zone_at), message);
                        }
                        return;
                    }
                }
            }
        };
        self.proxies.insert(key.clone(), Proxy { key, origin, labels, mode });
    }
}

fn origin(file: &SourceFile, at: Position) -> String {
    format!("{}:{}", place(&file.name, Position::default()), at.line)
}

fn reach<'b>(file: &'b SourceFile, secrets: Secrets<'b>) -> Reach<'b> {
    Reach { folder: file.folder.as_deref(), root: file.root.as_deref(), secrets }
}

fn identity(raw: Option<&Located<RawMetadata>>, at: &Location, findings: &mut Findings) -> Option<Identity> {
    let located = required(raw, at, "metadata", "this field is required: it holds the name", findings)?;
    let raw = located.get()?;
    let labels = read_labels(raw.labels.as_ref(), findings);
    let namespace = match &raw.namespace {
        Some(field) => {
            let text = field.get()?;
            // The name beside it is known to be good.
            if let Err(error) = ProxyKey::new(text, "a") {
                findings.error(&field.at, error.to_string());
                return None;
            }
            text.clone()
        }
        None => "default".to_owned(),
    };
    let field = required(raw.name.as_ref(), &located.at, "name", REQUIRED, findings)?;
    Some(Identity { namespace, name: field.get()?.clone(), at: field.at.clone(), labels })
}

/// `cloudInit:` with nothing behind it reads as if it were not there; the machine would come up bare.
fn warn_of_nothing(spec: Option<&Node>, at: &Location, path: &str, findings: &mut Findings) {
    for field in ["cloudInit", "cloudInitFrom"] {
        let Some(node) = spec.and_then(|spec| spec.get(field)) else { continue };
        if matches!(node.value, Value::Null) {
            let at = Location { position: node.at, ..at.field(&format!("{path}.{field}")) };
            findings.warning(&at, "nothing is given here, so the machine gets no user-data");
        }
    }
}

type RawLabels = BTreeMap<String, Located<String>>;

/// Labels as Kubernetes allows them, since selectors and a cluster rely on it.
fn read_labels(raw: Option<&Located<RawLabels>>, findings: &mut Findings) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for (key, field) in raw.and_then(Located::get).into_iter().flatten() {
        let Some(value) = field.get() else { continue };
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
        let good_prefix = prefix.len() <= 253 && prefix.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
        if !good_prefix || !is_label_text(name) || name.is_empty() {
            findings.error(&field.at, "this key is no label's: at most 63 letters, digits, '-', '_' and '.'");
        } else if !is_label_text(value) {
            findings.error(&field.at, "a label's value has at most 63 letters, digits, '-', '_' and '.'");
        } else {
            labels.insert(key.clone(), value.clone());
        }
    }
    labels
}

fn is_label_text(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && edge(text.chars().next())
        && edge(text.chars().last())
}
