//! Looking at hosts without changing them: the frame around it, and the report of a fleet as it is,
//! which `status` and `inventory` share. No lock is taken and nothing is refreshed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use tokio::time::Instant;

use super::cluster::{self, Looked};
use super::exit::{ExitCode, Facts, pick};
use super::fleet::{Fleet, Setup, fleet_unknown, load_all, load_config_alone};
use super::telling::run_info;
use super::{Context, Failure, Signals, planning};
use crate::cli::{ConfigArgs, LimitArgs, ManifestArgs};
use crate::load::{Concurrency, Objects, ProviderConfig};
use crate::plan::{
    Desired, HostRef, HostState, ImageNeed, MachineSpec, Managed, Mark, Mode, Network, Observed, Policy, Proxy,
    ProxyKey, Resolved, Selection, plan,
};
use crate::provider::Depth;
use crate::report::{Report, ReportInput, document};

/// Takes signals over for a command that only looks: there is nothing to drain, so the first ends it.
///
/// # Errors
/// What the operating system said.
pub fn signals() -> Result<Signals, Failure> {
    Signals::install(Duration::ZERO)
        .map_err(|error| Failure::world("signals cannot be taken over").cause(error.to_string()))
}

/// Does `work` on the hosts of `fleet` and ends all connections. `None` when a signal came first.
///
/// # Errors
/// The time of `--timeout` was over first.
pub async fn bounded<T>(
    fleet: &Fleet,
    signals: &Signals,
    until: Option<Instant>,
    work: impl Future<Output = T>,
) -> Result<Option<T>, Failure> {
    let ended = tokio::select! {
        done = work => Ok(Some(done)),
        () = signals.first.cancelled() => Ok(None),
        () = over(until) => Err(Failure::world("the hosts did not answer within --timeout")),
    };
    fleet.close().await;
    ended
}

/// When the time of `--timeout` is over, counted from now.
#[must_use]
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

/// Ends when the time of `--timeout` is over; never without one.
pub async fn over(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Which fleet is looked at, and which part of it is told of.
pub struct Request<'a> {
    /// The command, for the report.
    pub command: &'static str,
    /// The manifests; without any, the machines that are there are taken for what is wanted.
    pub manifests: &'a ManifestArgs,
    /// The config.
    pub config: &'a ConfigArgs,
    /// What is told of.
    pub selection: Selection,
    /// The report of a former run.
    pub previous: Option<&'a Path>,
    /// How many hosts at a time, and for how long.
    pub limits: &'a LimitArgs,
}

/// The report of the fleet as it is now, and what the command ends with. `None` when a signal came
/// first.
///
/// # Errors
/// Problems of the input; the time of `--timeout` was over.
pub async fn look(request: &Request<'_>, context: &Context) -> Result<Option<(Report, ExitCode)>, Failure> {
    let started_at = Timestamp::now();
    let until = deadline(request.limits.timeout);
    let mut looked = cluster::look(&request.manifests.cluster, request.config, until, context).await?;
    let generations = looked.as_ref().map(Looked::generations).unwrap_or_default();
    let before = planning::before(request.previous, looked.as_ref().and_then(Looked::memory))?;
    let mut wanted = Wanted::load(request, looked.as_mut().and_then(Looked::take_objects), context)?;
    let signals = signals()?;
    let fleet = Fleet::new(
        &Setup {
            providers: &wanted.providers,
            desired: &wanted.desired,
            hosts_at_a_time: request.limits.parallelism.map_or(wanted.concurrency.hosts, usize::from),
            downloads: wanted.concurrency.downloads,
            cache_dir: None,
            stop: signals.first.clone(),
            wait_running: false,
        },
        context,
    )?;
    let none = BTreeMap::new();
    let looking = fleet.observe(Depth::Addresses, &none);
    let Some(observed) = bounded(&fleet, &signals, until, looking).await? else { return Ok(None) };
    wanted.settle(&observed);
    for target in planning::unmatched(&request.selection, &wanted.desired, &observed) {
        context.terminal.say(&target);
    }
    // Nothing of this plan is carried out: it says what is pending and why something is not as wanted.
    let plan = plan(&wanted.desired, &observed, &wanted.policy, Timestamp::now());
    let code = pick(&Facts {
        failed: planning::every_host_lost(&plan),
        incomplete: plan.is_incomplete() || wanted.desired.broke_off(),
        ..Facts::default()
    });
    let run = run_info(request.command, &wanted.desired, &plan, started_at, code, context);
    let mut report = document::build(&ReportInput {
        run: &run,
        desired: &wanted.desired,
        observed: &observed,
        plan: &plan,
        outcome: None,
        addresses: &BTreeMap::new(),
        figures: &fleet.figures(),
        boot_deadlines: &fleet.boot_deadlines,
        generations: &generations,
        before: before.as_ref(),
    });
    let selection = &request.selection;
    report.narrow(|proxy| selection.selects(&proxy.key, proxy.host.as_ref(), Some(&proxy.labels)));
    Ok(Some((report, code)))
}

/// What the machines are compared with.
struct Wanted {
    desired: Desired,
    policy: Policy,
    concurrency: Concurrency,
    providers: Vec<ProviderConfig>,
    /// The manifests; none when the machines themselves say what is wanted.
    loaded: Option<crate::load::Loaded>,
}

impl Wanted {
    fn load(request: &Request<'_>, objects: Option<Objects>, context: &Context) -> Result<Self, Failure> {
        if request.manifests.filenames.is_empty() && objects.is_none() {
            let loaded = load_config_alone(request.config, context)?;
            let desired = loaded.nothing_desired().ok_or_else(fleet_unknown)?;
            let (policy, concurrency) = (loaded.policy, loaded.concurrency);
            return Ok(Self { desired, policy, concurrency, providers: loaded.providers, loaded: None });
        }
        let loaded = load_all(request.manifests, request.config, objects, context)?;
        Ok(Self {
            desired: loaded.desired.clone(),
            policy: loaded.policy.clone(),
            concurrency: loaded.concurrency,
            providers: loaded.providers.clone(),
            loaded: Some(loaded),
        })
    }

    /// Adds what only the hosts can say.
    fn settle(&mut self, observed: &Observed) {
        match &mut self.loaded {
            Some(loaded) => {
                loaded.settle(observed);
                self.desired = loaded.desired.clone();
            }
            None => self.desired.proxies = as_seen(observed),
        }
    }
}

/// The machines that are there, taken for what is wanted. Of two machines of one proxy, in the middle
/// of a move, the one on the first host counts; the other one shows as one that nobody wants.
fn as_seen(observed: &Observed) -> BTreeMap<ProxyKey, Proxy> {
    let mut proxies = BTreeMap::new();
    for (place, state) in &observed.hosts {
        let HostState::Known(view) = state else { continue };
        for instance in &view.instances {
            if let Some(mark) = instance.mark() {
                proxies.entry(mark.proxy.clone()).or_insert_with(|| of_mark(place, &instance.name, mark));
            }
        }
    }
    proxies
}

fn of_mark(place: &HostRef, instance: &str, mark: &Mark) -> Proxy {
    let addresses: Vec<IpNet> = mark.addresses.iter().filter_map(|address| address.trim().parse().ok()).collect();
    let network = (!addresses.is_empty()).then(|| Network { addresses, gateway: None, nameservers: Vec::new() });
    // A mark holds digests alone, so that what is behind them stays empty here.
    let spec = MachineSpec { image: String::new(), machine_type: String::new(), user_data: None, network };
    let resolved = Resolved {
        instance: instance.to_owned(),
        spec: mark.spec.clone(),
        catalogue: mark.catalogue.clone(),
        image: ImageNeed { key: String::new(), id: String::new() },
        disk_bytes: 0,
        reserve_bytes: 0,
        labels: mark.labels.clone(),
        summary: String::new(),
    };
    Proxy {
        key: mark.proxy.clone(),
        origin: format!("the mark of {instance}"),
        labels: BTreeMap::new(),
        mode: Mode::Managed(Box::new(Managed {
            place: place.clone(),
            port: mark.port,
            protect: mark.protect,
            spec,
            resolved: Ok(resolved),
        })),
    }
}
