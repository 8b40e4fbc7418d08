//! `images prune`: removes base images that nothing uses and no manifest needs, under the lock, after
//! asking.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;

use super::{needs, tell_of_left_out};
use crate::cli::ImagesPruneArgs;
use crate::load::Loaded;
use crate::plan::{HostRef, HostState, HostTrouble, Observed};
use crate::provider::{Depth, Prunable, Prunables, Pruned};
use crate::report::prune::{PruneOutcome, outcome, proposal};
use crate::run::approval::{confirm, not_approved};
use crate::run::execution::{check_simulation, progress};
use crate::run::exit::{Facts, pick};
use crate::run::fleet::{Fleet, Setup, load_all};
use crate::run::locking::{Deadline, give_back, take_locks};
use crate::run::{CommandResult, Context, Failure, Signals, cluster};

/// Runs the command.
///
/// # Errors
/// Problems of the input; whatever ended the run before anything was done.
pub(super) async fn run(args: &ImagesPruneArgs, context: &Context) -> CommandResult {
    let objects = cluster::objects(&args.manifests.cluster, &args.config, context).await?;
    let loaded = load_all(&args.manifests, &args.config, objects, context)?;
    if loaded.desired.broke_off() || loaded.desired.namespaces.is_some() {
        return Err(Failure::world("the list of proxies is not whole, so nobody knows which images are wanted")
            .hint("run again when the whole list can be read, and without --namespace"));
    }
    check_simulation(args.simulation.simulate, &loaded.desired)?;
    let signals = Signals::install(args.lock.grace)
        .map_err(|error| Failure::world("signals cannot be taken over").cause(error.to_string()))?;
    let mut fleet = Fleet::new(&setup(args, &loaded, &signals), context)?;
    fleet.narrow(&args.hosts)?;
    let result = on(args, loaded, &fleet, &signals, context).await;
    fleet.end(&args.simulation, result).await
}

/// What the command's fleet is made from.
#[must_use]
pub fn setup<'a>(args: &ImagesPruneArgs, loaded: &'a Loaded, signals: &Signals) -> Setup<'a> {
    Setup {
        providers: &loaded.providers,
        desired: &loaded.desired,
        hosts_at_a_time: args.limits.parallelism.map_or(loaded.concurrency.hosts, usize::from),
        downloads: loaded.concurrency.downloads,
        cache_dir: None,
        stop: signals.first.clone(),
        wait_running: false,
    }
}

/// Does the command's work on a fleet that is there; the caller closes it.
///
/// # Errors
/// Whatever ended the run before anything was done.
pub async fn on(
    args: &ImagesPruneArgs,
    mut loaded: Loaded,
    fleet: &Fleet,
    signals: &Signals,
    context: &Context,
) -> CommandResult {
    let _deadline = Deadline::after(args.limits.timeout, signals);
    match take_locks(fleet, args.lock.lock_timeout, signals, &progress(context)).await {
        Ok(locked) => {
            let result = under_lock(args, &mut loaded, fleet, &locked.unreachable, signals, context).await;
            give_back(locked.locks, signals.second.is_cancelled(), signals).await;
            result
        }
        Err(not_locked) => Err(not_locked.failure),
    }
}

async fn under_lock(
    args: &ImagesPruneArgs,
    loaded: &mut Loaded,
    fleet: &Fleet,
    unreachable: &BTreeMap<HostRef, HostTrouble>,
    signals: &Signals,
    context: &Context,
) -> CommandResult {
    let looking = async {
        let mut observed = fleet.observe(Depth::Locked, unreachable).await;
        loaded.settle(&observed);
        let found = find(loaded, fleet, &mut observed, args.leftovers).await;
        (observed, found)
    };
    let (observed, found) = tokio::select! {
        looked = looking => looked,
        () = signals.first.cancelled() => return Err(Failure::interrupted()),
    };
    let (unknown, all_unknown) = tell_of_left_out(&observed, context);
    let found = without_neighbours(&found);
    context.terminal.data(proposal(&found, Timestamp::now()).as_bytes())?;
    let mut facts = Facts { failed: all_unknown, incomplete: unknown > 0, ..Facts::default() };
    if found.values().all(Vec::is_empty) {
        return Ok(pick(&facts));
    }
    if !args.auto_approve && !confirm(context, signals).await? {
        return Err(not_approved(signals));
    }
    let outcomes = remove(fleet, &found, signals).await;
    facts.interrupted = signals.interrupted();
    facts.actions_failed = outcomes.iter().any(|outcome| outcome.what.is_err());
    Failure::prefer(Ok(pick(&facts)), context.terminal.data(outcome(&outcomes).as_bytes()))
}

/// What each known host may lose. A host that does not answer all of it becomes unknown.
async fn find(
    loaded: &Loaded,
    fleet: &Fleet,
    observed: &mut Observed,
    leftovers: bool,
) -> BTreeMap<HostRef, Prunables> {
    let needs = needs(&loaded.desired);
    let ids = |place: &HostRef| -> BTreeSet<String> {
        needs.get(place).into_iter().flatten().map(|need| need.id.clone()).collect()
    };
    let known = observed.hosts.iter().filter(|(_, state)| matches!(state, HostState::Known(_)));
    let asked: Vec<_> = known.filter_map(|(place, _)| Some((place.clone(), fleet.providers.of(place)?))).collect();
    let answers: Vec<_> = stream::iter(asked)
        .map(|(place, provider)| {
            let ids = ids(&place);
            async move {
                let answer = provider.prunables(&place.host, &ids, leftovers).await;
                (place, answer)
            }
        })
        .buffer_unordered(fleet.hosts_at_a_time)
        .collect()
        .await;
    let mut found = BTreeMap::new();
    for (place, answer) in answers {
        match answer {
            Ok(prunables) => _ = found.insert(place, prunables),
            Err(trouble) => _ = observed.hosts.insert(place, HostState::Unknown(trouble)),
        }
    }
    found
}

/// Leaves out disks whose machine is on another host: two hosts may share a folder, and then each one
/// shows the other's disks as its own.
fn without_neighbours(found: &BTreeMap<HostRef, Prunables>) -> BTreeMap<HostRef, Vec<Prunable>> {
    let elsewhere = |place: &HostRef, item: &Prunable| {
        let has = |machine| found.iter().any(|(other, host)| other != place && host.machines.contains(machine));
        item.machine.as_ref().is_some_and(has)
    };
    let kept = |(place, host): (&HostRef, &Prunables)| {
        let items = host.items.iter().filter(|item| !elsewhere(place, item)).cloned().collect();
        (place.clone(), items)
    };
    found.iter().map(kept).collect()
}

/// Removes what was shown, one after the other on each host. A signal begins nothing more, and after
/// the second one nothing is waited for.
async fn remove(fleet: &Fleet, found: &BTreeMap<HostRef, Vec<Prunable>>, signals: &Signals) -> Vec<PruneOutcome> {
    let outcomes = Mutex::new(BTreeMap::new());
    let note = |place: &HostRef, item: &Prunable, what| {
        outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert((place.clone(), item.clone()), what);
    };
    let hosts = found.iter().filter_map(|(place, items)| Some((place, items, fleet.providers.of(place)?)));
    let removals = hosts.map(|(place, items, provider)| async move {
        for item in items {
            let what = if signals.interrupted() {
                Ok(Pruned::Kept("the run was interrupted first".to_owned()))
            } else {
                provider.prune(&place.host, item, &signals.second).await.map_err(|error| error.to_string())
            };
            note(place, item, what);
        }
    });
    let stop = signals.stop();
    tokio::select! {
        () = stream::iter(removals).buffer_unordered(fleet.hosts_at_a_time).collect() => {}
        () = stop.overdue() => {}
    }
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shown = found.iter().flat_map(|(place, items)| items.iter().map(move |item| (place.clone(), item.clone())));
    shown
        .map(|(host, item)| {
            let late = || Ok(Pruned::Kept("whether it went is not known: the host did not answer in time".to_owned()));
            let what = outcomes.remove(&(host.clone(), item.clone())).unwrap_or_else(late);
            PruneOutcome { host, item, what }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::PruneKind;

    #[test]
    fn a_disk_whose_machine_is_on_another_host_is_no_leftover() {
        let disk = |machine: &str| Prunable {
            kind: PruneKind::Leftover,
            file: format!("{machine}-01234567.qcow2"),
            bytes: 0,
            modified: None,
            machine: Some(machine.to_owned()),
        };
        let host = |place: &str, items: Vec<Prunable>, machine: &str| {
            (place.parse().expect("a host"), Prunables { items, machines: BTreeSet::from([machine.to_owned()]) })
        };
        // h1 has a machine `a` of its own, whose former disk is left over; the disk of `b` is in use on h2.
        let found = BTreeMap::from([host("lab/h1", vec![disk("a"), disk("b")], "a"), host("lab/h2", Vec::new(), "b")]);
        let left = without_neighbours(&found);
        assert_eq!(left.values().flatten().collect::<Vec<_>>(), [&disk("a")]);
    }
}
