//! `apply`: make the fleet equal to what the manifests say.

use std::path::Path;

use jiff::Timestamp;

use super::cluster::InCluster;
use super::execution::{Execution, Order, check_simulation};
use super::fleet::{Fleet, Setup, load_all};
use super::locking::Deadline;
use super::{CommandResult, Context, Failure, Signals, planning};
use crate::apply::{Limits, Wait};
use crate::cli::{self, ApplyArgs};
use crate::load::{Loaded, Objects};
use crate::plan::saved;

/// Runs the command.
///
/// # Errors
/// Whatever ended the run before anything was done.
pub async fn run(args: &ApplyArgs, context: &Context) -> CommandResult {
    let started_at = Timestamp::now();
    let signals = Signals::install(args.lock.grace)
        .map_err(|error| Failure::world("signals cannot be taken over").cause(error.to_string()))?;
    let _deadline = Deadline::after(args.limits.timeout, &signals);
    let (from, to, wait) = (&args.manifests.cluster, &args.cluster, args.lock.lock_timeout);
    let mut cluster = InCluster::begin(from, to, &args.config, wait, &signals, context).await?;
    let objects = cluster.as_mut().and_then(InCluster::take_objects);
    let result = beside(args, objects, cluster.as_ref(), started_at, &signals, context).await;
    if let Some(cluster) = cluster {
        cluster.end(&signals).await;
    }
    result
}

/// The command beside a cluster, whose lease is the caller's to give back.
async fn beside(
    args: &ApplyArgs,
    objects: Option<Objects>,
    cluster: Option<&InCluster>,
    started_at: Timestamp,
    signals: &Signals,
    context: &Context,
) -> CommandResult {
    let loaded = load_all(&args.manifests, &args.config, objects, context)?;
    check_simulation(args.simulation.simulate, &loaded.desired)?;
    let fleet = Fleet::new(&setup(args, &loaded, signals), context)?;
    let result = on(args, loaded, &fleet, cluster, started_at, signals, context).await;
    fleet.end(&args.simulation, result).await
}

/// What the command's fleet is made from.
#[must_use]
pub fn setup<'a>(args: &ApplyArgs, loaded: &'a Loaded, signals: &Signals) -> Setup<'a> {
    Setup {
        providers: &loaded.providers,
        desired: &loaded.desired,
        hosts_at_a_time: args.limits.parallelism.map_or(loaded.concurrency.hosts, usize::from),
        downloads: loaded.concurrency.downloads,
        cache_dir: args.cache_dir.clone(),
        stop: signals.first.clone(),
        wait_running: args.wait != cli::Wait::None,
    }
}

/// Does the command's work on a fleet that is there; the caller closes it.
///
/// # Errors
/// Whatever ended the run before anything was done.
pub async fn on(
    args: &ApplyArgs,
    mut loaded: Loaded,
    fleet: &Fleet,
    cluster: Option<&InCluster>,
    started_at: Timestamp,
    signals: &Signals,
    context: &Context,
) -> CommandResult {
    let saved = args.plan_file.as_deref().map(read_plan).transpose()?;
    let remembered = cluster.and_then(|cluster| cluster.looked().memory());
    let before = planning::before(args.planning.previous_report.as_deref(), remembered)?;
    let mut policy = planning::policy(
        loaded.policy.clone(),
        &args.planning,
        args.selection.selection(),
        &loaded.desired,
        before.as_ref(),
    )?;
    if let Some(plan) = &saved {
        // What a person asked for by name when the plan was made is asked for by the plan.
        policy.replace.extend(plan.forced_replaces());
    }
    let wanted = loaded.desired.proxies.len();
    let order = Order {
        command: "apply",
        limits: Limits {
            hosts: fleet.hosts_at_a_time,
            per_host: loaded.concurrency.per_host,
            downloads: loaded.concurrency.downloads,
            unavailable: policy.unavailable_of(wanted),
        },
        policy,
        wait: match args.wait {
            cli::Wait::None => Wait::None,
            cli::Wait::Running => Wait::Running(args.wait_timeout),
            cli::Wait::Address => Wait::Address(args.wait_timeout),
        },
        lock_timeout: args.lock.lock_timeout,
        approved: args.auto_approve,
        output: &args.output,
        report: args.report.as_deref(),
        inventory: args.inventory.as_deref(),
        before,
        cluster,
        saved,
        started_at,
    };
    let mut settled = |observed: &crate::plan::Observed| {
        loaded.settle(observed);
        loaded.desired.clone()
    };
    Execution { order: &order, fleet, signals, context }.carry_out(&mut settled).await
}

fn read_plan(path: &Path) -> Result<crate::plan::Plan, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{} cannot be read", path.display())).cause(error.to_string()))?;
    saved::read(&text).map_err(|error| Failure::input(format!("{} is not a saved plan", path.display())).source(&error))
}
