//! From text to what is desired: manifests and the providers config, with positions.
//!
//! Every problem of every file is found in one go, what the config cannot resolve included, and
//! then nothing is planned. May use `plan` and `provider`; knows nothing of `apply` or `report`.
//! Asks no host. Never shows a line of user-data, vendor-data or a secret.

mod config;
mod desired;
mod documents;
mod files;
pub mod manifest;
mod network;
mod objects;
mod problem;
mod proxy_set;
pub mod schema;
mod snippet;
mod spec;
mod user_data;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

pub use config::{Concurrency, ProviderConfig};
pub use objects::{Object, Objects, SecretKey};
pub use problem::{Problem, Problems, place};
pub use proxy_set::SetPlacement;

use crate::plan::{Desired, HostRef, HostState, Instance, Label, Mode, Observed, Policy, ProxyKey};
use crate::provider::document::{Finding, Findings, Position, Severity};
use crate::provider::libvirt::resolve::resolve;
use desired::Join;
use documents::Documents;
use files::{Gathered, SourceFile};
use snippet::Lines;
use spec::Context;
use user_data::Secrets;

/// Where to load from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `-f`: files and folders; `-` stands for stdin.
    pub filenames: Vec<PathBuf>,
    /// `-c`: the providers config.
    pub config: PathBuf,
    /// `--fleet`; wins over the config's.
    pub fleet: Option<Label>,
    /// `--secrets-dir`.
    pub secrets_dir: Option<PathBuf>,
    /// `--strict`: documents of other kinds are errors.
    pub strict: bool,
    /// `--from-cluster`: what the cluster holds.
    pub cluster: Option<Objects>,
}

/// What manifests and config came to.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What is wanted. Members of sets stand where nothing observed would put them, until
    /// [`Loaded::settle`].
    pub desired: Desired,
    /// What a run may do, as the config says.
    pub policy: Policy,
    /// How much happens at a time.
    pub concurrency: Concurrency,
    /// The provider entries, by name.
    pub providers: Vec<ProviderConfig>,
    /// Sets, for [`Loaded::settle`].
    pub sets: Vec<SetPlacement>,
    /// What should be looked at and stops nothing.
    pub warnings: Vec<Problem>,
    /// What is good to know.
    pub notes: Vec<String>,
    /// Documents of other kinds that were passed over.
    pub skipped: usize,
}

/// A config without manifests, for commands that need none.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The fleet; a bare config without `--fleet` has none.
    pub fleet: Option<Label>,
    /// What a run may do.
    pub policy: Policy,
    /// How much happens at a time.
    pub concurrency: Concurrency,
    /// The provider entries, by name.
    pub providers: Vec<ProviderConfig>,
    /// What should be looked at and stops nothing.
    pub warnings: Vec<Problem>,
}

impl LoadedConfig {
    /// What is desired by a command that needs no manifests: nothing, and not known to be whole, so
    /// that nothing is ever deleted by it. None without a fleet.
    #[must_use]
    pub fn nothing_desired(&self) -> Option<Desired> {
        Some(Desired {
            fleet: self.fleet.clone()?,
            source: None,
            complete: false,
            namespaces: None,
            proxies: BTreeMap::new(),
            hosts: self.providers.iter().flat_map(ProviderConfig::host_settings).collect(),
        })
    }
}

impl Loaded {
    /// Puts members of sets where the hosts show them, so that growing a set or appending a zone
    /// moves nobody, and what cannot be resolved where it is. To be called once hosts were observed
    /// and before planning.
    pub fn settle(&mut self, observed: &Observed) {
        self.stay(observed);
        for set in &self.sets {
            let config = self.providers.iter().find(|provider| *provider.entry() == set.entry);
            let Some(ProviderConfig::Libvirt(config)) = config else { continue };
            for (key, zone) in set.members.iter().zip(set.spread(observed)) {
                let Some(proxy) = self.desired.proxies.get_mut(key) else { continue };
                let Mode::Managed(managed) = &mut proxy.mode else { continue };
                if managed.place.host == zone {
                    continue;
                }
                managed.place = HostRef { entry: set.entry.clone(), host: zone };
                let fleet = &self.desired.fleet;
                managed.resolved =
                    resolve(config, fleet, &managed.place, key, &managed.spec, &proxy.labels).map_err(|problems| {
                        problems.into_iter().map(|(_, message)| message).collect::<Vec<_>>().join("; ")
                    });
            }
        }
    }

    /// Nothing of a proxy that cannot be resolved is touched, so that it is wanted where its machine is.
    fn stay(&mut self, observed: &Observed) {
        let mut seen: BTreeMap<&ProxyKey, BTreeSet<&HostRef>> = BTreeMap::new();
        for (place, state) in &observed.hosts {
            let HostState::Known(view) = state else { continue };
            for mark in view.instances.iter().filter_map(Instance::mark) {
                seen.entry(&mark.proxy).or_default().insert(place);
            }
        }
        for (key, proxy) in &mut self.desired.proxies {
            let Mode::Managed(managed) = &mut proxy.mode else { continue };
            let Some(places) = seen.get(key).filter(|_| managed.resolved.is_err()) else { continue };
            // Of two, in the middle of a move, neither is known to be the one that is wanted.
            if let (1, Some(place)) = (places.len(), places.first()) {
                managed.place = (*place).clone();
            }
        }
    }
}

/// Loads the config alone.
///
/// # Errors
/// Every problem of it.
pub fn load_config(path: &Path, fleet: Option<&Label>) -> Result<LoadedConfig, Problems> {
    let read = config::read(path);
    let providers = read.providers();
    let problems = Problems::new(read.problems);
    if problems.has_errors() {
        return Err(problems);
    }
    Ok(LoadedConfig {
        fleet: fleet.cloned().or(read.fleet),
        policy: read.policy,
        concurrency: read.concurrency,
        providers,
        warnings: problems.into_vec(),
    })
}

/// Loads manifests and config.
///
/// # Errors
/// Every problem of every file, warnings included.
pub fn load(sources: &Sources, stdin: &mut dyn Read) -> Result<Loaded, Problems> {
    let mut config = config::read(&sources.config);
    let mut problems = std::mem::take(&mut config.problems);
    let fleet = sources.fleet.clone().or_else(|| config.fleet.clone());
    if fleet.is_none() && !problems.iter().any(|problem| problem.severity == Severity::Error) {
        let message = "fleet: this field is required, in the config or by --fleet";
        problems.push(Problem::of_file(sources.config.display().to_string(), message));
    }
    if sources.filenames.is_empty() && sources.cluster.is_none() {
        problems.push(Problem::of_file("-f", "no manifests were given; name files, folders or - for stdin"));
    }
    let Gathered { files, problems: unread, folders } = files::gather(&sources.filenames, stdin);
    problems.extend(unread);

    let secrets = sources.secrets_dir.as_deref().map_or(Secrets::None, Secrets::Folder);
    let context = Context { entries: config.entries.as_ref(), secrets };
    let mut join = Join::new(context, fleet.as_ref());
    let mut read: Vec<ReadFile<'_>> = files.iter().map(|file| ReadFile::of(file, &mut join)).collect();
    let of_cluster = sources.cluster.as_ref().map(|cluster| objects::add(cluster, &mut join));
    let Join { proxies, sets, met, .. } = join;

    // A file that a manifest names as user-data is no manifest, whatever it looks like.
    let user_data: BTreeSet<&PathBuf> = met.files.iter().collect();
    read.retain(|file| file.recognised || !file.source.real.as_ref().is_some_and(|real| user_data.contains(real)));
    for folder in folders {
        let recognised = |file: &ReadFile<'_>| file.recognised && folder.holds(file.source);
        let broken = |file: &ReadFile<'_>| folder.holds(file.source) && !file.findings.is_empty();
        let unread = problems.iter().any(|problem| problem.file.starts_with(&folder.name));
        if !read.iter().any(|file| recognised(file) || broken(file)) && !unread {
            let message = "no manifest is in this folder; to want nothing, give one with `kind: List` and `items: []`";
            problems.push(Problem::of_file(&folder.name, message));
        }
    }
    let skipped = read.iter().map(|file| file.skipped.len()).sum();
    for file in &read {
        problems.extend(file.problems(sources.strict));
    }

    let of_cluster = of_cluster.unwrap_or_default();
    problems.extend(of_cluster.errors);
    problems.extend(of_cluster.warnings);
    let problems = Problems::new(problems);
    let Some(fleet) = fleet.filter(|_| !problems.has_errors()) else { return Err(problems) };
    let providers = config.providers();
    let mut notes = Vec::new();
    if met.regions > 0 {
        notes.push(format!("placement.region is not looked at; {} manifests give it", met.regions));
    }
    if skipped > 0 {
        let (documents, were) = if skipped == 1 { ("document", "was") } else { ("documents", "were") };
        notes.push(format!("{skipped} {documents} of other kinds {were} passed over"));
    }
    if let (Some(given), Some(other)) = (&sources.fleet, &config.fleet)
        && given != other
    {
        notes.push(format!("the fleet is {given} by --fleet; the config says {other}"));
    }
    Ok(Loaded {
        desired: Desired {
            fleet,
            source: sources.cluster.as_ref().and_then(|cluster| cluster.source.clone()),
            complete: sources.cluster.as_ref().is_none_or(|cluster| cluster.complete) && !of_cluster.unknown_keys,
            namespaces: sources.cluster.as_ref().and_then(|cluster| cluster.namespaces.clone()),
            proxies,
            hosts: providers.iter().flat_map(ProviderConfig::host_settings).collect(),
        },
        policy: config.policy,
        concurrency: config.concurrency,
        providers,
        sets,
        warnings: problems.into_vec(),
        notes,
        skipped,
    })
}

/// A file whose documents were read.
struct ReadFile<'a> {
    source: &'a SourceFile,
    /// The text, for snippets; empty when it is none.
    text: &'a str,
    recognised: bool,
    skipped: Vec<(Position, String)>,
    findings: Vec<Finding>,
}

impl<'a> ReadFile<'a> {
    fn of(source: &'a SourceFile, join: &mut Join<'_>) -> Self {
        let text = match documents::decode(&source.bytes) {
            Ok(text) => text,
            Err(fault) => {
                let finding =
                    Finding { at: fault.at, path: String::new(), message: fault.message, severity: Severity::Error };
                return Self { source, text: "", recognised: false, skipped: Vec::new(), findings: vec![finding] };
            }
        };
        let Documents { ours, skipped, recognised, findings: faults } = documents::read(text);
        let mut findings = Findings::default();
        findings.extend(faults);
        for document in &ours {
            join.add(document, source, &mut findings);
        }
        Self { source, text, recognised, skipped, findings: findings.into_vec() }
    }

    fn problems(&self, strict: bool) -> Vec<Problem> {
        let name = self.source.name.as_str();
        let lines = Lines::new(self.text);
        let skipped = self.skipped.iter().filter(|_| strict).map(|(at, what)| {
            let message = format!("this document ({what}) is none of ours, which --strict does not allow");
            Problem::at(name, &lines, *at, message)
        });
        let found = self.findings.iter().map(|finding| Problem::of_finding(name, &lines, finding));
        found.chain(skipped).collect()
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
