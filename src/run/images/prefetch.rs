//! `images prefetch`: brings the images of the manifests to their hosts, under the lock, by the same
//! steps as `apply`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{needs, tell_of_left_out};
use crate::apply::{ImageOutcome, Limits, Outcome, StepResult, Wait};
use crate::cli::ImagesPrefetchArgs;
use crate::load::Loaded;
use crate::plan::{Desired, HostState, ImageAction, Observed, Plan};
use crate::provider::Depth;
use crate::report::words;
use crate::run::execution::{Work, broken, check_simulation, progress};
use crate::run::exit::{Facts, pick};
use crate::run::fleet::{Fleet, Setup, load_all};
use crate::run::locking::{Deadline, give_back, take_locks};
use crate::run::{CommandResult, Context, Failure, Signals, cluster};

/// Runs the command.
///
/// # Errors
/// Problems of the input; whatever ended the run before anything was done.
pub(super) async fn run(args: &ImagesPrefetchArgs, context: &Context) -> CommandResult {
    let objects = cluster::objects(&args.manifests.cluster, &args.config, context).await?;
    let mut loaded = load_all(&args.manifests, &args.config, objects, context)?;
    check_simulation(args.simulation.simulate, &loaded.desired)?;
    let signals = Signals::install(args.lock.grace)
        .map_err(|error| Failure::world("signals cannot be taken over").cause(error.to_string()))?;
    let mut fleet = Fleet::new(
        &Setup {
            providers: &loaded.providers,
            desired: &loaded.desired,
            hosts_at_a_time: args.limits.parallelism.map_or(loaded.concurrency.hosts, usize::from),
            downloads: loaded.concurrency.downloads,
            cache_dir: args.cache_dir.clone(),
            stop: signals.first.clone(),
            wait_running: false,
        },
        context,
    )?;
    fleet.narrow(&args.hosts)?;
    let result = under_lock(args, &mut loaded, &fleet, &signals, context).await;
    fleet.end(&args.simulation, result).await
}

async fn under_lock(
    args: &ImagesPrefetchArgs,
    loaded: &mut Loaded,
    fleet: &Fleet,
    signals: &Signals,
    context: &Context,
) -> CommandResult {
    let progress = Arc::new(progress(context));
    let _deadline = Deadline::after(args.limits.timeout, signals);
    let locked = take_locks(fleet, args.lock.lock_timeout, signals, &*progress).await.map_err(|not| not.failure)?;
    let observed = tokio::select! {
        observed = fleet.observe(Depth::Locked, &locked.unreachable) => observed,
        () = signals.first.cancelled() => {
            give_back(locked.locks, signals.second.is_cancelled(), signals).await;
            return Err(Failure::interrupted());
        }
    };
    loaded.settle(&observed);
    let (unknown, all_unknown) = tell_of_left_out(&observed, context);
    let plan = images_alone(&loaded.desired, &observed);
    let limits = Limits {
        hosts: fleet.hosts_at_a_time,
        per_host: loaded.concurrency.per_host,
        downloads: loaded.concurrency.downloads,
        unavailable: 1,
    };
    let work = Work { plan: &plan, desired: &loaded.desired, limits, wait: Wait::None };
    let outcome = work.carry_out(fleet, signals, &progress).await;
    give_back(locked.locks, signals.second.is_cancelled(), signals).await;
    let facts = Facts {
        interrupted: outcome.interrupted,
        failed: all_unknown,
        actions_failed: outcome.has_failures(),
        incomplete: unknown > 0,
        ..Facts::default()
    };
    let end = outcome.fault.as_deref().map_or_else(|| Ok(pick(&facts)), |fault| Err(broken(fault)));
    let told = text(&outcome, there(&loaded.desired, &observed));
    Failure::prefer(end, context.terminal.data(told.as_bytes()))
}

/// A plan that brings what is wanted and not there, and does nothing else.
fn images_alone(desired: &Desired, observed: &Observed) -> Plan {
    let lacks = |place: &_, need: &_| match observed.hosts.get(place) {
        Some(HostState::Known(view)) => view.store.active && view.image(need).is_none(),
        Some(HostState::Unknown(_)) | None => false,
    };
    let wanted = needs(desired)
        .into_iter()
        .flat_map(|(place, needs)| needs.into_iter().map(move |image| ImageAction { place: place.clone(), image }));
    Plan {
        format: Plan::FORMAT.to_owned(),
        fleet: desired.fleet.clone(),
        made_at: Timestamp::now(),
        recorded: desired.hosts.values().any(|host| host.recorded),
        hosts: BTreeMap::new(),
        images: wanted.filter(|wanted| lacks(&wanted.place, &wanted.image)).collect(),
        actions: Vec::new(),
        held: Vec::new(),
        unchanged: Vec::new(),
        notes: Vec::new(),
        refusals: Vec::new(),
    }
}

/// How many of the wanted images were on their hosts already.
fn there(desired: &Desired, observed: &Observed) -> usize {
    let on_host = |place: &_, need: &_| match observed.hosts.get(place) {
        Some(HostState::Known(view)) => view.image(need).is_some(),
        Some(HostState::Unknown(_)) | None => false,
    };
    needs(desired).iter().map(|(place, needs)| needs.iter().filter(|need| on_host(place, need)).count()).sum()
}

/// A line for each image that could not be brought, and a last one that counts.
fn text(outcome: &Outcome, there: usize) -> String {
    let brought = |image: &&ImageOutcome| matches!(image.what.result, StepResult::Done | StepResult::AlreadyDone);
    let mut text = String::new();
    for ImageOutcome { action, what } in outcome.images.iter().filter(|image| !brought(image)) {
        let why = what.message.as_deref().unwrap_or("it was not tried");
        text.push_str(&format!("not brought: {} to {}: {}\n", action.image.key, action.place, words::line(why)));
    }
    let count = outcome.images.iter().filter(brought).count();
    let missing = outcome.images.len() - count;
    let brought = words::count(count, "image", "images");
    text.push_str(&format!("{brought} brought, {there} there already, {missing} not brought.\n"));
    text
}
