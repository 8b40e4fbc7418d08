//! The fleet of a run: its providers, made from the config, and what every command asks of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::{CommandResult, Context, Failure};
use crate::cli::{ConfigArgs, HostArgs, ManifestArgs, SimulateArgs};
use crate::load::{Loaded, LoadedConfig, Objects, Problems, ProviderConfig, Sources, load, load_config};
use crate::plan::{Desired, HostRef, HostState, HostTrouble, Label, Mode, Observed};
use crate::provider::libvirt::image::{Downloads, Limits};
use crate::provider::libvirt::naming::RunId;
use crate::provider::libvirt::{LibvirtProvider, Links, RunContext};
use crate::provider::{Depth, Provider, Providers};
use crate::report::HostFigures;

/// The providers of a run and where they are.
pub struct Fleet {
    /// By entry.
    pub providers: Providers,
    /// Hosts in scope, sorted.
    pub places: Vec<HostRef>,
    /// Hosts looked at or dialled at a time.
    pub hosts_at_a_time: usize,
    /// `bootDeadline` of each entry.
    pub boot_deadlines: BTreeMap<Label, SignedDuration>,
    links: Vec<Arc<Links>>,
}

/// What a fleet is made from.
pub struct Setup<'a> {
    /// The entries.
    pub providers: &'a [ProviderConfig],
    /// What is wanted.
    pub desired: &'a Desired,
    /// Hosts at a time.
    pub hosts_at_a_time: usize,
    /// Downloads at a time.
    pub downloads: usize,
    /// Where downloaded images are kept.
    pub cache_dir: Option<PathBuf>,
    /// Ends transfers.
    pub stop: CancellationToken,
    /// Whether a start is followed until the machine runs.
    pub wait_running: bool,
}

/// Loads manifests, objects of a cluster and config, tells of warnings and notes.
///
/// # Errors
/// Every problem of every file, in one go.
pub fn load_all(
    manifests: &ManifestArgs,
    config: &ConfigArgs,
    objects: Option<Objects>,
    context: &Context,
) -> Result<Loaded, Failure> {
    let loaded = load(&sources(manifests, config, objects), &mut std::io::stdin().lock().by_ref())
        .map_err(|problems| refused(&problems))?;
    for warning in &loaded.warnings {
        context.terminal.say(&warning.to_string());
    }
    for note in &loaded.notes {
        context.terminal.say(note);
    }
    Ok(loaded)
}

/// Where the command line says that manifests and config are.
#[must_use]
pub fn sources(manifests: &ManifestArgs, config: &ConfigArgs, objects: Option<Objects>) -> Sources {
    Sources {
        filenames: manifests.filenames.clone(),
        config: config.config.clone(),
        fleet: config.fleet.clone(),
        secrets_dir: manifests.secrets_dir.clone(),
        strict: manifests.strict,
        cluster: objects,
    }
}

/// Loads the config alone, for commands that need no manifests.
///
/// # Errors
/// Every problem of it.
pub fn load_config_alone(config: &ConfigArgs, context: &Context) -> Result<LoadedConfig, Failure> {
    let loaded = load_config(&config.config, config.fleet.as_ref()).map_err(|problems| refused(&problems))?;
    for warning in &loaded.warnings {
        context.terminal.say(&warning.to_string());
    }
    Ok(loaded)
}

/// What is wanted by a command that needs neither manifests nor a fleet: nothing. Where no fleet is
/// named, one that no machine bears stands for it.
///
/// # Errors
/// Never, as long as the stand-in is a name.
pub fn nothing_wanted(loaded: &LoadedConfig) -> Result<Desired, Failure> {
    let unnamed = || "unnamed".parse().map_err(|_| Failure::bug("the stand-in for a fleet is no name"));
    let fleet = loaded.fleet.clone().map_or_else(unnamed, Ok)?;
    LoadedConfig { fleet: Some(fleet), ..loaded.clone() }
        .nothing_desired()
        .ok_or_else(|| Failure::bug("a config with a fleet wants not even nothing"))
}

/// A fleet that neither the config nor the command line names.
#[must_use]
pub fn fleet_unknown() -> Failure {
    Failure::input("the fleet is not known").hint("set fleet in the config, or pass --fleet")
}

/// A host that was named and is not in the config.
#[must_use]
pub fn not_a_host<'a>(named: &HostRef, known: impl IntoIterator<Item = &'a HostRef>) -> Failure {
    let known: Vec<String> = known.into_iter().map(ToString::to_string).collect();
    Failure::input(format!("the config has no host {named}")).hint(format!("its hosts are: {}", known.join(", ")))
}

/// Problems of files, as a failure that names each.
#[must_use]
pub fn refused(problems: &Problems) -> Failure {
    let count = problems.as_slice().len();
    let what = if count == 1 { "1 problem was found".to_owned() } else { format!("{count} problems were found") };
    Failure::input(format!("{what}, so nothing was planned"))
        .causes(problems.as_slice().iter().map(ToString::to_string))
}

impl Fleet {
    /// Makes the ways to the hosts and the providers. Dials nothing.
    ///
    /// # Errors
    /// A recorded host's file that cannot be read.
    pub fn new(setup: &Setup<'_>, context: &Context) -> Result<Self, Failure> {
        // What a killed run left in the folder for temporary files.
        crate::provider::libvirt::host::bridge::sweep();
        let links = setup.providers.iter().map(|ProviderConfig::Libvirt(config)| {
            let made = Links::new(Arc::new((**config).clone()));
            made.map(Arc::new).map_err(|error| Failure::input("a recorded host cannot be used").cause(error))
        });
        Self::over(setup, links.collect::<Result<_, _>>()?, context)
    }

    /// Makes the providers over ways that are there, one for each entry in the order of the entries.
    /// Runs that share them share the worlds of recorded hosts, as runs on real hosts share those.
    ///
    /// # Errors
    /// A run's id that is none.
    pub fn over(setup: &Setup<'_>, links: Vec<Arc<Links>>, context: &Context) -> Result<Self, Failure> {
        let run = RunId::parse(&context.run).ok_or_else(|| Failure::bug("the run's id is not one"))?;
        let places: BTreeSet<HostRef> = setup.desired.hosts.keys().cloned().collect();
        let mut wanted: BTreeMap<HostRef, BTreeSet<String>> = BTreeMap::new();
        let mut url_images = BTreeSet::new();
        for proxy in setup.desired.proxies.values() {
            let Mode::Managed(managed) = &proxy.mode else { continue };
            if let Ok(resolved) = &managed.resolved {
                wanted.entry(managed.place.clone()).or_default().insert(resolved.instance.clone());
            }
            if managed.spec.image.contains("://") {
                url_images.insert(managed.spec.image.clone());
            }
        }
        let run = RunContext {
            fleet: setup.desired.fleet.clone(),
            run,
            source: setup.desired.source.clone(),
            places: places.clone(),
            wanted,
            url_images,
            stop: setup.stop.clone(),
            wait_running: setup.wait_running,
        };
        let mut providers: Vec<Arc<dyn Provider>> = Vec::new();
        let mut boot_deadlines = BTreeMap::new();
        for (ProviderConfig::Libvirt(config), links) in setup.providers.iter().zip(&links) {
            let config = Arc::new((**config).clone());
            let deadline = SignedDuration::try_from(config.boot_deadline).unwrap_or(SignedDuration::from_mins(15));
            boot_deadlines.insert(config.entry.clone(), deadline);
            let limits = Limits {
                total: config.budgets.image_download,
                stall: config.budgets.transfer_idle,
                ..Limits::default()
            };
            let downloads = Arc::new(Downloads::new(setup.cache_dir.clone(), setup.downloads, limits));
            providers.push(Arc::new(LibvirtProvider::new(config, Arc::clone(links), downloads, &run)));
        }
        Ok(Self {
            providers: Providers::new(providers),
            places: places.into_iter().collect(),
            hosts_at_a_time: setup.hosts_at_a_time,
            boot_deadlines,
            links,
        })
    }

    /// Leaves the hosts that the command line leaves out alone.
    ///
    /// # Errors
    /// A host that is named and is not in the config: a mistyped `--exclude` must not widen a run.
    pub fn narrow(&mut self, hosts: &HostArgs) -> Result<(), Failure> {
        if let Some(named) = hosts.targets.iter().chain(&hosts.excludes).find(|host| !self.places.contains(host)) {
            return Err(not_a_host(named, &self.places));
        }
        self.places.retain(|place| hosts.includes(place));
        if self.places.is_empty() {
            return Err(Failure::input("no host is left to look at").hint("exclude fewer hosts"));
        }
        Ok(())
    }

    /// Observes every host in scope; those of `unreachable` are unknown without being asked again.
    pub async fn observe(&self, depth: Depth, unreachable: &BTreeMap<HostRef, HostTrouble>) -> Observed {
        let within: Vec<HostRef> =
            self.places.iter().filter(|place| !unreachable.contains_key(*place)).cloned().collect();
        let mut observed = self.providers.observe(&within, depth, self.hosts_at_a_time).await;
        observed
            .hosts
            .extend(unreachable.iter().map(|(place, trouble)| (place.clone(), HostState::Unknown(trouble.clone()))));
        observed
    }

    /// How each host was met.
    #[must_use]
    pub fn figures(&self) -> BTreeMap<HostRef, HostFigures> {
        let figures = |place: &HostRef| {
            let Some(provider) = self.providers.of(place) else { return HostFigures::default() };
            HostFigures {
                observe_seconds: provider.looked_for(&place.host).map(|time| time.as_secs_f64()),
                calls: provider.calls(&place.host),
            }
        };
        self.places.iter().map(|place| (place.clone(), figures(place))).collect()
    }

    /// Ends a command that changes hosts: connections first, then recorded hosts are written as it left
    /// them.
    ///
    /// # Errors
    /// The command's own; else what the file system said.
    pub async fn end(&self, simulation: &SimulateArgs, result: CommandResult) -> CommandResult {
        self.close().await;
        let saved = simulation.save_recorded.as_deref().map_or(Ok(()), |folder| self.save_recorded(folder));
        Failure::prefer(result, saved)
    }

    /// Writes recorded hosts as a simulated run left them, each under the name of the file that it was
    /// read from; where two of those names are the same, as `<entry>/<host>.yaml`.
    ///
    /// # Errors
    /// What the file system said.
    fn save_recorded(&self, folder: &Path) -> Result<(), Failure> {
        let recorded: Vec<_> = self.links.iter().flat_map(|links| links.recorded()).collect();
        for (place, read_from, world) in &recorded {
            let namesakes = recorded.iter().filter(|(_, other, _)| other.file_name() == read_from.file_name()).count();
            let to = match read_from.file_name() {
                Some(name) if namesakes == 1 => folder.join(name),
                _ => folder.join(place.entry.as_str()).join(format!("{}.yaml", place.host)),
            };
            let parent = to.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).map_err(|error| {
                Failure::world(format!("{} cannot be made", parent.display())).cause(error.to_string())
            })?;
            let host = world.lock().unwrap_or_else(std::sync::PoisonError::into_inner).to_file();
            host.write(&to)
                .map_err(|error| Failure::world("a recorded host cannot be saved").cause(error.to_string()))?;
        }
        Ok(())
    }

    /// Ends every connection, bounded: what does not end by itself ends with the process.
    pub async fn close(&self) {
        let begun = Instant::now();
        if tokio::time::timeout(Duration::from_secs(2), self.providers.close()).await.is_err() {
            tracing::debug!(seconds = begun.elapsed().as_secs_f64(), "connections were still closing at the end");
        }
    }
}
