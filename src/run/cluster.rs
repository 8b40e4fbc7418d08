//! The cluster of a run: its objects before, its lease meanwhile, and what is written there afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::exit::ExitCode;
use super::fleet::{fleet_unknown, load_config_alone};
use super::look::over;
use super::{Context, Failure, Kind, Signals};
use crate::cli::{ClusterArgs, ClusterOutputArgs, ConfigArgs};
use crate::cluster::client::{Access, Cluster, ClusterError};
use crate::cluster::lease::{LIFE, Lease, NotHeld, RENEWAL};
use crate::cluster::outputs::{Written, write_inventory, write_report};
use crate::cluster::source::Snapshot;
use crate::cluster::{events, publish, source, status};
use crate::load::Objects;
use crate::plan::{Label, ProxyKey};
use crate::report::inventory::Format;
use crate::report::{Inventory, Memory, Report};

/// How soon a renewal that failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long giving the lease back may take.
const RELEASE: Duration = Duration::from_secs(10);
/// How long writing into the cluster may take as a whole.
const PUBLISH: Duration = Duration::from_mins(5);
/// Of what could not be written, so many are told one by one.
const TOLD: usize = 3;

/// What a cluster said before the run began.
pub struct Looked {
    cluster: Cluster,
    fleet: Label,
    /// Its objects; none when manifests come from files alone.
    pub snapshot: Option<Snapshot>,
}

/// What a run holds in a cluster, and leaves there.
pub struct InCluster {
    looked: Looked,
    lease: Option<Held>,
    reports: usize,
    inventory: bool,
}

struct Held {
    lease: Arc<Lease>,
    ended: CancellationToken,
    lost: CancellationToken,
    renewing: JoinHandle<()>,
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let failure = Self::world(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Reads the cluster that manifests come from, for a command that only looks.
///
/// # Errors
/// No way to it; a list that could not be begun; the time of `--timeout` was over.
pub async fn look(
    args: &ClusterArgs,
    config: &ConfigArgs,
    until: Option<Instant>,
    context: &Context,
) -> Result<Option<Looked>, Failure> {
    if !args.from_cluster {
        return Ok(None);
    }
    let look = async {
        let (cluster, fleet) = connect(args, config, context).await?;
        let source = Lease::source(&cluster, &fleet).await?;
        read(cluster, fleet, args, Some(source), context).await.map(Some)
    };
    tokio::select! {
        looked = look => looked,
        () = over(until) => Err(Failure::world("the cluster did not answer within --timeout")),
    }
}

/// The objects of the cluster that manifests come from, for a command that leaves nothing there.
///
/// # Errors
/// As of [`look`].
pub async fn objects(args: &ClusterArgs, config: &ConfigArgs, context: &Context) -> Result<Option<Objects>, Failure> {
    Ok(look(args, config, None, context).await?.as_mut().and_then(Looked::take_objects))
}

async fn connect(args: &ClusterArgs, config: &ConfigArgs, context: &Context) -> Result<(Cluster, Label), Failure> {
    let fleet = load_config_alone(config, context)?.fleet;
    let fleet = fleet.ok_or_else(fleet_unknown)?;
    let access = Access { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    let mut cluster = Cluster::connect(&access).await?;
    if let Some(namespace) = &args.cluster_namespace {
        cluster.namespace.clone_from(namespace);
    }
    Ok((cluster, fleet))
}

async fn read(
    cluster: Cluster,
    fleet: Label,
    args: &ClusterArgs,
    source: Option<String>,
    context: &Context,
) -> Result<Looked, Failure> {
    let namespaces = (!args.namespaces.is_empty()).then(|| args.namespaces.iter().cloned().collect());
    let mut snapshot = source::read(&cluster, namespaces.as_ref()).await?;
    snapshot.objects.source = source;
    for trouble in &snapshot.troubles {
        context.terminal.say(&format!("the list of proxies is not whole, so nothing is deleted: {trouble}"));
    }
    Ok(Looked { cluster, fleet, snapshot: Some(snapshot) })
}

impl Looked {
    /// What `load` takes, once: it is the bulk of what was read.
    pub fn take_objects(&mut self) -> Option<Objects> {
        self.snapshot.as_mut().map(|snapshot| std::mem::take(&mut snapshot.objects))
    }

    /// What the statuses remember of the time before.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        self.snapshot.as_ref().map(status::memory)
    }

    /// `metadata.generation` of each proxy.
    #[must_use]
    pub fn generations(&self) -> BTreeMap<ProxyKey, i64> {
        let Some(snapshot) = &self.snapshot else { return BTreeMap::new() };
        let single = snapshot.proxies.iter().map(|(key, known)| (key.clone(), known.generation));
        let sets = publish::sets_of_members(snapshot);
        let members = sets.into_iter().filter_map(|(key, set)| Some((key, snapshot.sets.get(&set)?.generation)));
        members.chain(single).collect()
    }
}

impl InCluster {
    /// Takes the lease, and reads the cluster where manifests come from it.
    ///
    /// # Errors
    /// No way to the cluster; another run holds the lease; a list that could not be begun; a signal.
    pub async fn begin(
        args: &ClusterArgs,
        outputs: &ClusterOutputArgs,
        config: &ConfigArgs,
        lock_timeout: Duration,
        signals: &Signals,
        context: &Context,
    ) -> Result<Option<Self>, Failure> {
        let leased = args.from_cluster || outputs.lease;
        if !leased && outputs.cluster_reports.is_none() && !outputs.cluster_inventory {
            return Ok(None);
        }
        let (cluster, fleet) = connect(args, config, context).await?;
        let (of, name, holder) = (cluster.clone(), fleet.clone(), holder(&context.run));
        let work = async {
            let mut held = None;
            if leased {
                let lease = Lease::take(&cluster, &fleet, &holder, lock_timeout).await.map_err(not_held)?;
                held = Some(Held::new(lease, signals));
            }
            Self::read(args, outputs, (cluster, fleet), held, context).await
        };
        tokio::select! {
            begun = work => begun.map(Some),
            () = signals.first.cancelled() => {
                // It may have been taken in this very moment.
                if leased {
                    tokio::time::timeout(RELEASE, Lease::withdraw(&of, &name, &holder)).await.ok();
                }
                Err(Failure::interrupted())
            }
        }
    }

    async fn read(
        args: &ClusterArgs,
        outputs: &ClusterOutputArgs,
        (cluster, fleet): (Cluster, Label),
        held: Option<Held>,
        context: &Context,
    ) -> Result<Self, Failure> {
        let source = held.as_ref().map(|held| held.lease.source.clone());
        let looked = if args.from_cluster {
            match read(cluster, fleet, args, source, context).await {
                Ok(looked) => looked,
                Err(failure) => {
                    release(held).await;
                    return Err(failure);
                }
            }
        } else {
            Looked { cluster, fleet, snapshot: None }
        };
        let reports = outputs.cluster_reports.map_or(0, usize::from);
        Ok(Self { looked, lease: held, reports, inventory: outputs.cluster_inventory })
    }

    /// What was read.
    #[must_use]
    pub fn looked(&self) -> &Looked {
        &self.looked
    }

    /// As of [`Looked::take_objects`].
    pub fn take_objects(&mut self) -> Option<Objects> {
        self.looked.take_objects()
    }

    /// Writes status, events and outputs, as far as there is time; whatever could not be written is said,
    /// and fails nothing.
    ///
    /// A run that did not look knows nothing that a status should say, and one that did not end well
    /// nothing that an inventory should.
    pub async fn publish(
        &self,
        report: &Report,
        json: &str,
        known: (bool, bool),
        (signals, context): (&Signals, &Context),
    ) {
        let stop = signals.stop();
        let written = tokio::select! {
            written = tokio::time::timeout(PUBLISH, self.write(report, json, known, context)) => written.is_ok(),
            () = stop.overdue() => false,
            () = self.lost() => false,
        };
        if !written {
            context.terminal.say("not everything was written into the cluster in time");
        }
    }

    async fn write(&self, report: &Report, json: &str, (looked, ended_well): (bool, bool), context: &Context) {
        let cluster = &self.looked.cluster;
        let mut troubles = Vec::new();
        let lost = self.lease.as_ref().is_some_and(|held| held.lost.is_cancelled());
        // First, since clients go by it.
        if self.inventory && ended_well && !lost {
            self.write_inventory(report, &mut troubles, context).await;
        }
        if lost {
            context
                .terminal
                .say("the lease was lost, so another run may be at work; no status and no inventory is written");
        }
        if let Some(snapshot) = &self.looked.snapshot {
            let now = Timestamp::now();
            if looked && !lost {
                troubles.extend(publish::write(cluster, publish::changes(report, snapshot, now)).await);
            }
            let sets = publish::sets_of_members(snapshot);
            let happened = events::of_report(report, snapshot, &sets);
            troubles.extend(events::write(cluster, snapshot, happened, &context.run, now).await);
        }
        if self.reports > 0 {
            match write_report(cluster, report, json, self.reports).await {
                Ok(true) => {}
                Ok(false) => context.terminal.say(
                    "the report is too large for a ConfigMap, which has its summary and its digest; \
                     write it to a file with --report",
                ),
                Err(error) => troubles.push(error),
            }
        }
        for trouble in troubles.iter().take(TOLD) {
            context.terminal.say(&format!("not written into the cluster: {trouble}"));
        }
        if let Some(more) = troubles.len().checked_sub(TOLD).filter(|more| *more > 0) {
            context.terminal.say(&format!("and {more} more"));
        }
    }

    /// Ends in the moment in which the lease is lost; one that was lost before is heeded where it matters.
    async fn lost(&self) {
        match &self.lease {
            Some(held) if !held.lost.is_cancelled() => held.lost.cancelled().await,
            _ => std::future::pending().await,
        }
    }

    async fn write_inventory(&self, report: &Report, troubles: &mut Vec<ClusterError>, context: &Context) {
        let Ok(rendered) = Format::Json.render(&Inventory::of(report)) else { return };
        match write_inventory(&self.looked.cluster, &self.looked.fleet, &rendered).await {
            Ok(Written::Kept) => context.terminal.say(
                "the inventory in the cluster lists proxies and is kept, since none of the wanted ones can be listed now",
            ),
            Ok(Written::TooLarge) => {
                context.terminal.say("the inventory is too large for a ConfigMap; write it to a file with --inventory");
            }
            Ok(Written::Unchanged | Written::Replaced) => {}
            Err(error) => troubles.push(error),
        }
    }

    /// Gives the lease back, as far as there is time.
    pub async fn end(self, signals: &Signals) {
        let stop = signals.stop();
        tokio::select! {
            () = release(self.lease) => {}
            () = stop.overdue() => tracing::warn!("the lease is left to run out by itself"),
        }
    }
}

async fn release(held: Option<Held>) {
    let Some(mut held) = held else { return };
    held.ended.cancel();
    let given_back = tokio::time::timeout(RELEASE, async {
        // A renewal under way is waited for, so that it does not take back what was given back.
        (&mut held.renewing).await.ok();
        held.lease.release().await
    });
    match given_back.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the lease could not be given back; it runs out by itself"),
        Err(_) => tracing::warn!("the API server did not answer, so the lease is left to run out by itself"),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Held {
    fn new(lease: Lease, signals: &Signals) -> Self {
        let (lease, ended, lost) = (Arc::new(lease), CancellationToken::new(), CancellationToken::new());
        let (renewed, until, signals, no_more) = (Arc::clone(&lease), ended.clone(), signals.clone(), lost.clone());
        let renewing = tokio::spawn(async move {
            let renewal = || {
                let lease = Arc::clone(&renewed);
                async move { lease.renew().await }
            };
            if !renew(Pace::OURS, renewal, until).await {
                no_more.cancel();
                signals.expire();
            }
        });
        Self { lease, ended, lost, renewing }
    }
}

/// When a lease is renewed.
#[derive(Clone, Copy)]
struct Pace {
    /// How long it lives without.
    life: Duration,
    /// How long after a renewal the next one is due.
    renewal: Duration,
    /// How long after one that failed.
    again: Duration,
}

impl Pace {
    const OURS: Self = Self { life: LIFE, renewal: RENEWAL, again: AGAIN };
}

/// Renews a lease until the run ends. Returns whether it is the run's to the end: one that another took,
/// or that could not be renewed for as long as it lives, is lost, and that is known in the moment in
/// which it may be another's.
async fn renew<F>(pace: Pace, mut renewal: impl FnMut() -> F, ended: CancellationToken) -> bool
where
    F: Future<Output = Result<(), NotHeld>>,
{
    let mut last = Instant::now();
    let mut pause = pace.renewal;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ended.cancelled() => return true,
        }
        // It lives from the moment in which the server renewed it, which is after this one.
        let begun = Instant::now();
        match tokio::time::timeout_at(last + pace.life, renewal()).await {
            Ok(Ok(())) => (last, pause) = (begun, pace.renewal),
            Ok(Err(NotHeld::Other { holder, .. })) => {
                let holder = if holder.is_empty() { "nobody".to_owned() } else { holder };
                tracing::error!(%holder, "the lease was taken from this run; nothing more is begun");
                return false;
            }
            Ok(Err(NotHeld::Cluster(error))) => {
                tracing::warn!(%error, "the lease could not be renewed");
                pause = pace.again;
            }
            Err(_) => tracing::warn!("the lease could not be renewed in time"),
        }
        let left = (last + pace.life).saturating_duration_since(Instant::now());
        if left.is_zero() {
            tracing::error!("the lease has run out, and may be another run's; nothing more is begun");
            return false;
        }
        pause = pause.min(left);
    }
}

/// Which pod, or machine, and which run.
fn holder(run: &str) -> String {
    let pod = std::env::var("POD_NAME").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let pod = pod.filter(|pod| !pod.is_empty()).unwrap_or_else(|| "egress-plan".to_owned());
    format!("{pod}/{run}")
}

fn not_held(not_held: NotHeld) -> Failure {
    match not_held {
        NotHeld::Cluster(error) => error.into(),
        NotHeld::Other { lease, holder, left } => {
            let left = left
                .map_or_else(String::new, |left| format!(", for {} more seconds unless it is renewed", left.as_secs()));
            Failure::new(
                Kind::World,
                ExitCode::Locked,
                format!("another run holds the lease {lease}; nothing was done"),
            )
            .cause(format!("{holder} holds it{left}"))
            .hint("wait for it, or raise --lock-timeout")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const QUICK: Pace = Pace {
        life: Duration::from_millis(600),
        renewal: Duration::from_millis(200),
        again: Duration::from_millis(50),
    };

    fn away() -> NotHeld {
        NotHeld::Cluster(ClusterError::Lost { what: "renew".to_owned(), message: "away".to_owned() })
    }

    #[tokio::test]
    async fn c23_a_lease_is_lost_in_the_moment_in_which_it_runs_out() {
        let lost_after = |begun: Instant, life: Duration, story: &str| {
            let elapsed = begun.elapsed();
            assert!(elapsed >= life && elapsed < life * 3, "{story}: {elapsed:?}");
        };
        let begun = Instant::now();
        assert!(!renew(QUICK, pending, CancellationToken::new()).await);
        lost_after(begun, QUICK.life, "a renewal that hangs");

        let begun = Instant::now();
        assert!(!renew(QUICK, || ready(Err(away())), CancellationToken::new()).await);
        lost_after(begun, QUICK.life, "renewals that fail");

        let (begun, mut good) = (Instant::now(), 2);
        let renewal = || {
            good -= 1;
            ready(if good >= 0 { Ok(()) } else { Err(away()) })
        };
        assert!(!renew(QUICK, renewal, CancellationToken::new()).await);
        lost_after(begun, QUICK.renewal * 2 + QUICK.life, "it lives on from the last good one");

        let begun = Instant::now();
        let other = || ready(Err(NotHeld::Other { lease: "l".to_owned(), holder: "x".to_owned(), left: None }));
        assert!(!renew(QUICK, other, CancellationToken::new()).await);
        lost_after(begun, QUICK.renewal, "another run has it");
    }

    #[tokio::test]
    async fn a_lease_is_renewed_until_the_run_ends() {
        let (ended, mut times) = (CancellationToken::new(), 0);
        let renewal = || {
            times += 1;
            if times == 5 {
                ended.cancel();
            }
            ready(Ok(()))
        };
        assert!(renew(QUICK, renewal, ended.clone()).await);
        assert_eq!(times, 5);
    }
}
