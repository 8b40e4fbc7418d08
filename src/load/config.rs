//! The providers config: fleet, policy, limits, and the entries with their blocks.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::documents;
use super::files::read_bounded;
use super::problem::Problem;
use super::snippet::Lines;
use super::user_data::reason;
use crate::plan::{Bound, HostRef, HostSettings, Label, OnCatalogueChange, Policy};
use crate::provider::document::check::{known, lasting, parsed, quoted, required, within};
use crate::provider::document::{DurationText, Finding, Findings, Folders, Limits, Located, Location};
use crate::provider::libvirt::config::{Access, LibvirtConfig, Outline, RawBlock, find_twins};

type Field<T> = Option<Located<T>>;

/// The config as it is written.
#[derive(Debug, Clone, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Config")]
pub struct RawConfig {
    /// The ownership scope. Required, here or by `--fleet`.
    pub fleet: Field<String>,
    /// What a run may do.
    pub policy: Field<RawPolicy>,
    /// How much happens at a time.
    pub concurrency: Field<RawConcurrency>,
    /// Where machines may go.
    #[schemars(required)]
    pub providers: Field<Vec<Located<RawProvider>>>,
}

/// What a run may do.
#[derive(Debug, Clone, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub struct RawPolicy {
    /// Whether orphans are deleted; default true.
    pub prune: Field<bool>,
    /// No orphan younger than this is deleted; default 10m.
    pub min_age: Field<DurationText>,
    /// More deletions than this refuse a plan: N or N%; default 20%.
    pub max_deletions: Field<RawBound>,
    /// Whether no manifests at all may mean that nothing is wanted; default false.
    pub allow_empty: Field<bool>,
    /// How many replaced machines may be not ready at a time: N or N%; default 1.
    pub max_unavailable: Field<RawBound>,
    /// What a change of the config behind the same keys means; default ignore.
    pub on_catalogue_change: Field<OnCatalogueChange>,
}

/// How much happens at a time.
#[derive(Debug, Clone, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Concurrency")]
pub struct RawConcurrency {
    /// Hosts; default 16.
    #[schemars(range(min = 1, max = 256))]
    pub hosts: Field<i64>,
    /// Actions on a host; default 2.
    #[schemars(range(min = 1, max = 16))]
    pub per_host: Field<i64>,
    /// Images on their way; default 2.
    #[schemars(range(min = 1, max = 16))]
    pub downloads: Field<i64>,
}

/// One entry of `providers:`.
#[derive(Debug, Clone, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Provider")]
pub struct RawProvider {
    /// The entry's name: `spec.provider` of manifests.
    #[schemars(required)]
    pub name: Field<String>,
    /// `libvirt`; `kvm2` and `kvm` are other names of the same.
    #[schemars(required, extend("enum" = ["libvirt", "kvm2", "kvm"]))]
    #[serde(rename = "type")]
    pub kind: Field<String>,
    /// The block of a libvirt provider.
    pub libvirt: Field<RawBlock>,
    /// The same under another name.
    pub kvm2: Field<RawBlock>,
    /// The same under another name.
    pub kvm: Field<RawBlock>,
}

/// The names of the libvirt provider, which are also those of its block.
const LIBVIRT: [&str; 3] = ["libvirt", "kvm2", "kvm"];

/// A count, as a number or as text, or a percentage.
#[derive(Debug, Clone, Copy)]
pub struct RawBound(Bound);

impl<'de> Deserialize<'de> for RawBound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoundVisitor;

        impl Visitor<'_> for BoundVisitor {
            type Value = RawBound;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count such as 3, or a percentage from 0% to 100%")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<RawBound, E> {
                u32::try_from(number).map(|count| RawBound(Bound::Count(count))).map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawBound, E> {
                text.parse().map(RawBound).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(BoundVisitor)
    }
}

impl JsonSchema for RawBound {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bound".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A count, or a percentage such as 20%.",
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": "^([0-9]+|[0-9]{1,2}%|100%)$"}
            ]
        })
    }
}

/// How much happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// Hosts at work at a time, 1 to 256.
    pub hosts: usize,
    /// Actions on one host at a time, 1 to 16.
    pub per_host: usize,
    /// Images on their way at a time, 1 to 16.
    pub downloads: usize,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { hosts: 16, per_host: 2, downloads: 2 }
    }
}

/// A provider entry, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderConfig {
    /// Machines on libvirt hosts.
    Libvirt(Box<LibvirtConfig>),
}

impl ProviderConfig {
    /// The entry's name.
    #[must_use]
    pub fn entry(&self) -> &Label {
        match self {
            Self::Libvirt(config) => &config.entry,
        }
    }

    /// What the entry says about its hosts that matters for planning.
    #[must_use]
    pub fn host_settings(&self) -> BTreeMap<HostRef, HostSettings> {
        let Self::Libvirt(config) = self;
        let settings = config.hosts.iter().map(|(name, host)| {
            let place = HostRef { entry: config.entry.clone(), host: name.clone() };
            let settings = HostSettings {
                aliases: host.aliases.clone(),
                retired: host.retired,
                max_instances: host.max_instances,
                recorded: matches!(host.access, Access::Recorded(_)),
                console: "virsh -c qemu:///system".to_owned(),
            };
            (place, settings)
        });
        settings.collect()
    }
}

/// An entry of a config that may not be sound.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub outline: Outline,
    pub config: Option<LibvirtConfig>,
}

/// What was read of a config.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub fleet: Option<Label>,
    pub policy: Policy,
    pub concurrency: Concurrency,
    /// The entries by name; none when the text is no config at all.
    pub entries: Option<BTreeMap<Label, Entry>>,
    pub problems: Vec<Problem>,
}

impl Read {
    /// The sound entries.
    pub fn providers(&self) -> Vec<ProviderConfig> {
        let sound = self.entries.iter().flatten().filter_map(|(_, entry)| entry.config.clone());
        sound.map(|config| ProviderConfig::Libvirt(Box::new(config))).collect()
    }
}

/// Reads a config file.
pub(super) fn read(path: &Path) -> Read {
    let name = path.display().to_string();
    let bytes = match std::fs::File::open(path).and_then(|mut file| read_bounded(&mut file)) {
        Ok(bytes) => bytes,
        Err(error) => {
            let problem = Problem::of_file(name, format!("the config {}", reason(&error)));
            return Read { problems: vec![problem], ..Read::default() };
        }
    };
    let folders = Folders {
        config: path.parent().map(Path::to_path_buf).unwrap_or_default(),
        home: std::env::var_os("HOME").filter(|home| !home.is_empty()).map(Into::into),
    };
    read_text(&name, &bytes, &folders)
}

fn read_text(name: &str, bytes: &[u8], folders: &Folders) -> Read {
    let failed = |problem| Read { problems: vec![problem], ..Read::default() };
    let text = match documents::decode(bytes) {
        Ok(text) => text,
        Err(fault) => return failed(Problem::at(name, &Lines::new(""), fault.at, fault.message)),
    };
    let lines = Lines::new(text);
    let mut node = None;
    for (lines_before, chunk) in documents::split(text) {
        match documents::parse(chunk, lines_before, Limits::CONFIG) {
            Ok(None) => {}
            Ok(Some(next)) if node.is_some() => {
                return failed(Problem::at(name, &lines, next.at, "a config is one document; remove the second"));
            }
            Ok(next) => node = next,
            Err(fault) => return failed(Problem::at(name, &lines, fault.at, fault.message)),
        }
    }
    let Some(node) = node else {
        return failed(Problem::of_file(name, "this config is empty; providers is required"));
    };
    let mut findings = Findings::default();
    let raw = node.read::<RawConfig>("", &mut findings);
    let mut read = Read::default();
    if let Some(config) = raw.get() {
        read.fleet = config.fleet.as_ref().and_then(|field| parsed(field, &mut findings));
        read.policy = policy(config.policy.as_ref(), &mut findings);
        read.concurrency = concurrency(config.concurrency.as_ref(), &mut findings);
        read.entries = Some(entries(config, &raw.at, folders, &mut findings));
    }
    let problem = |mut finding: Finding| {
        finding.path = within_block(&finding.path);
        Problem::of_finding(name, &lines, &finding)
    };
    read.problems = findings.into_vec().into_iter().map(problem).collect();
    read
}

/// A block's fields are named from the block on: `libvirt.hosts[0].bridge`.
fn within_block(path: &str) -> String {
    let rest = path.strip_prefix("providers[").and_then(|rest| rest.split_once("].")).map(|(_, rest)| rest);
    let block = |rest: &&str| {
        LIBVIRT.iter().any(|name| rest.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    rest.filter(block).unwrap_or(path).to_owned()
}

fn policy(raw: Option<&Located<RawPolicy>>, findings: &mut Findings) -> Policy {
    let mut policy = Policy::default();
    let Some(raw) = raw.and_then(Located::get) else { return policy };
    let flag = |field: &Field<bool>, default| field.as_ref().and_then(|field| field.value).unwrap_or(default);
    policy.prune = flag(&raw.prune, policy.prune);
    policy.allow_empty = flag(&raw.allow_empty, policy.allow_empty);
    let year = std::time::Duration::from_hours(24 * 366);
    if let Some(age) = raw.min_age.as_ref().and_then(|field| lasting(field, std::time::Duration::ZERO..=year, findings))
    {
        policy.min_age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
    }
    if let Some(RawBound(bound)) = raw.max_deletions.as_ref().and_then(|field| field.value) {
        policy.max_deletions = bound;
    }
    if let Some(field) = &raw.max_unavailable
        && let Some(RawBound(bound)) = field.value
    {
        if matches!(bound, Bound::Count(0) | Bound::Percent(0)) {
            findings.error(&field.at, "with none unavailable nothing could ever be replaced; use at least 1");
        }
        policy.max_unavailable = bound;
    }
    if let Some(change) = raw.on_catalogue_change.as_ref().and_then(|field| field.value) {
        policy.on_catalogue_change = change;
    }
    policy
}

fn concurrency(raw: Option<&Located<RawConcurrency>>, findings: &mut Findings) -> Concurrency {
    let usual = Concurrency::default();
    let Some(raw) = raw.and_then(Located::get) else { return usual };
    let mut limit = |field: &Field<i64>, most, default| {
        field.as_ref().and_then(|field| within(field, 1..=most, findings)).unwrap_or(default)
    };
    Concurrency {
        hosts: limit(&raw.hosts, 256, usual.hosts),
        per_host: limit(&raw.per_host, 16, usual.per_host),
        downloads: limit(&raw.downloads, 16, usual.downloads),
    }
}

fn entries(raw: &RawConfig, at: &Location, folders: &Folders, findings: &mut Findings) -> BTreeMap<Label, Entry> {
    let items = raw.providers.as_ref().and_then(Located::get).map(Vec::as_slice).unwrap_or_default();
    if raw.providers.as_ref().is_none_or(|given| given.get().is_some_and(Vec::is_empty)) {
        findings.missing(at, "providers", "at least one provider is required");
    }
    let mut found: BTreeMap<Label, Entry> = BTreeMap::new();
    let mut lines: BTreeMap<Label, usize> = BTreeMap::new();
    for item in items {
        let Some(raw) = item.get() else { continue };
        let name = "this field is required: manifests call it spec.provider";
        let name = required(raw.name.as_ref(), &item.at, "name", name, findings);
        let name = name.and_then(|field| parsed::<Label>(field, findings));
        let block = block(raw, &item.at, findings);
        // A block under a bad name is checked all the same.
        let Some(unnamed) = "unnamed".parse::<Label>().ok() else { continue };
        let label = name.clone().unwrap_or(unnamed);
        let entry = match block {
            Some(block) => {
                let before = findings.errors();
                let (outline, config) = LibvirtConfig::read(&label, block, folders, findings);
                Entry { outline, config: config.filter(|_| findings.errors() == before) }
            }
            None => Entry { outline: Outline::default(), config: None },
        };
        let (Some(name), Some(field)) = (name, &raw.name) else { continue };
        if let Some(first) = lines.get(&name) {
            findings.error(
                &field.at,
                format!("the name {name} is taken, first on line {first}; entries need names of their own"),
            );
            continue;
        }
        lines.insert(name.clone(), field.at.position.line);
        found.insert(name, entry);
    }
    let outlines = found.iter().map(|(name, entry)| (name.clone(), entry.outline.clone())).collect();
    find_twins(&outlines, findings);
    found
}

/// The block of an entry: exactly one, under one of the provider's names.
fn block<'a>(raw: &'a RawProvider, at: &Location, findings: &mut Findings) -> Option<&'a Located<RawBlock>> {
    match &raw.kind {
        None => findings.missing(at, "type", format!("this field is required; {}", known(LIBVIRT))),
        Some(field) => {
            if let Some(kind) = field.get()
                && !LIBVIRT.contains(&kind.as_str())
            {
                findings.error(&field.at, format!("unknown type {}; {}", quoted(kind), known(LIBVIRT)));
            }
        }
    }
    let mut blocks = [&raw.libvirt, &raw.kvm2, &raw.kvm].into_iter().flatten();
    let first = blocks.next();
    for more in blocks {
        findings.error(&more.at, "an entry has one block; remove the others");
    }
    if first.is_none() {
        let name = raw.kind.as_ref().and_then(Located::get).filter(|kind| LIBVIRT.contains(&kind.as_str()));
        findings.missing(at, name.map_or("libvirt", String::as_str), "the block of the provider is required");
    }
    first
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
