//! The lease of a fleet: beside the locks on its hosts, so that of two runs in a cluster one does not
//! even begin.
//!
//! No clock of ours decides who is alive, and no time that another one wrote (C23). Since when a lease
//! was not touched is what the API server wrote down about its last change; what time it is there is
//! read off an object that is made as a dry run. Where the server keeps no such record, the lease is
//! watched for as long as its holder asked for. The holder's own duration counts, never ours.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};

use super::client::{Cluster, ClusterError};
use crate::plan::Label;

/// How long a lease of ours lives without being renewed.
pub const LIFE: Duration = Duration::from_mins(1);
/// How often it is renewed.
pub const RENEWAL: Duration = Duration::from_secs(20);
/// Between two looks at another's lease.
const LOOK: Duration = Duration::from_secs(2);
/// The longest life of a lease without a record that is watched to its end whatever the run's patience.
const WATCH: Duration = Duration::from_secs(90);
/// After another run was quicker.
const QUICKER: Duration = Duration::from_millis(200);

/// A lease that this run holds.
pub struct Lease {
    cluster: Cluster,
    api: Api<Object>,
    name: String,
    holder: String,
    /// The id of the cluster as a source of manifests: it stays while the object does.
    pub source: String,
}

/// Why a run does not hold the lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    /// Another run does.
    #[error("{holder} holds the lease {lease}")]
    Other {
        /// The lease, as `namespace/name`.
        lease: String,
        /// Who.
        holder: String,
        /// How long it lives on without being renewed, as far as that is known.
        left: Option<Duration>,
    },
    /// The API server did not do what was asked.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// What a look at somebody's lease came to.
enum Look {
    Free,
    Held { holder: String, left: Option<Duration> },
}

/// What was seen of a lease of which the server does not say when it was changed.
struct Seen {
    version: Option<String>,
    /// What its holder asked for.
    life: Duration,
    since: Instant,
}

impl Lease {
    /// The name of a fleet's lease.
    #[must_use]
    pub fn name(fleet: &Label) -> String {
        format!("egress-plan-{fleet}")
    }

    /// Takes the lease of a fleet, and waits for it for `timeout`. `holder` says which pod and run.
    ///
    /// # Errors
    /// Another run holds it, or the API server refused.
    pub async fn take(cluster: &Cluster, fleet: &Label, holder: &str, timeout: Duration) -> Result<Self, NotHeld> {
        let api: Api<Object> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let name = Self::name(fleet);
        let begun = Instant::now();
        let mut seen: Option<Seen> = None;
        loop {
            let there = cluster.bounded("read the lease", api.get_opt(&name)).await?;
            let held = match &there {
                None => Look::Free,
                Some(lease) => look(cluster, &api, lease, &mut seen).await?,
            };
            let (holder_there, left) = match held {
                Look::Held { holder, left } => (holder, left),
                Look::Free => {
                    if let Some(source) = claim(cluster, &api, &name, there, holder).await? {
                        return Ok(Self { cluster: cluster.clone(), api, name, holder: holder.to_owned(), source });
                    }
                    // Another run was quicker; who it is, the next look tells.
                    tokio::time::sleep(QUICKER).await;
                    continue;
                }
            };
            // A dead holder's lease of which there is no record has to be watched for its whole life.
            let watched = seen.as_ref().filter(|seen| seen.life <= WATCH);
            let over = watched.map(|seen| (seen.life + QUICKER).saturating_sub(seen.since.elapsed()));
            let remaining = timeout.saturating_sub(begun.elapsed()).max(over.unwrap_or_default());
            if remaining.is_zero() {
                let lease = format!("{}/{name}", cluster.namespace);
                return Err(NotHeld::Other { lease, holder: holder_there, left });
            }
            tokio::time::sleep(remaining.min(LOOK)).await;
        }
    }

    /// The source that a lease stands for, for commands that take none. Before any run took it, no
    /// machine is of it, and the name of none stands for that.
    ///
    /// # Errors
    /// The API server refused.
    pub async fn source(cluster: &Cluster, fleet: &Label) -> Result<String, ClusterError> {
        let api: Api<Object> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let there = cluster.bounded("read the lease", api.get_opt(&Self::name(fleet))).await?;
        Ok(there.and_then(|lease| source_of(&lease)).unwrap_or_else(|| "lease/none".to_owned()))
    }

    /// Gives a lease back that a run may or may not have taken when it was told to end.
    pub async fn withdraw(cluster: &Cluster, fleet: &Label, holder: &str) {
        let api: Api<Object> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let (name, holder) = (Self::name(fleet), holder.to_owned());
        Self { cluster: cluster.clone(), api, name, holder, source: String::new() }.release().await.ok();
    }

    /// Says that the run is still at it.
    ///
    /// # Errors
    /// It is another's meanwhile, or the API server refused.
    pub async fn renew(&self) -> Result<(), NotHeld> {
        self.change(|spec| spec.renew_time = Some(MicroTime(now()))).await
    }

    /// Gives the lease back, so that the next run need not wait.
    ///
    /// # Errors
    /// As of [`Lease::renew`].
    pub async fn release(&self) -> Result<(), NotHeld> {
        self.change(|spec| {
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(now()));
        })
        .await
    }

    /// Changes the lease while it is ours. A conflict with a change that left it ours is tried again.
    async fn change(&self, change: impl Fn(&mut LeaseSpec)) -> Result<(), NotHeld> {
        for _ in 0..3 {
            let mut lease = self.cluster.bounded("read the lease", self.api.get(&self.name)).await?;
            let spec = lease.spec.get_or_insert_default();
            let holder = spec.holder_identity.clone().unwrap_or_default();
            if holder != self.holder {
                let lease = self.name.clone();
                return Err(NotHeld::Other { lease, holder, left: None });
            }
            change(spec);
            let params = PostParams::default();
            match self.cluster.bounded("renew the lease", self.api.replace(&self.name, &params, &lease)).await {
                Err(error) if error.code() == Some(409) => {}
                other => return other.map(drop).map_err(NotHeld::from),
            }
        }
        let message = "it was changed again and again by somebody else".to_owned();
        Err(NotHeld::Cluster(ClusterError::Lost { what: "renew the lease".to_owned(), message }))
    }
}

/// Makes the lease ours; `None` when another run was quicker.
async fn claim(
    cluster: &Cluster,
    api: &Api<Object>,
    name: &str,
    there: Option<Object>,
    holder: &str,
) -> Result<Option<String>, ClusterError> {
    let time = MicroTime(now());
    // One that is gone since it was looked at is made by the next try; a namespace that is gone is not.
    let replaces = there.is_some();
    let made = match there {
        None => {
            let spec = LeaseSpec { lease_transitions: Some(0), ..ours(holder, &time) };
            let lease = Object { metadata: named(name), spec: Some(spec) };
            cluster.bounded("make the lease", api.create(&PostParams::default(), &lease)).await
        }
        Some(mut lease) => {
            let before = lease.spec.take().unwrap_or_default();
            let transitions = before.lease_transitions.unwrap_or_default().saturating_add(1);
            lease.spec = Some(LeaseSpec { lease_transitions: Some(transitions), ..ours(holder, &time) });
            // Its version goes along, so that of two runs one alone can have it.
            cluster.bounded("take the lease", api.replace(name, &PostParams::default(), &lease)).await
        }
    };
    match made {
        Ok(lease) => Ok(Some(source_of(&lease).unwrap_or_default())),
        Err(error) if error.code() == Some(409) || (replaces && error.code() == Some(404)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn ours(holder: &str, time: &MicroTime) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(i32::try_from(LIFE.as_secs()).unwrap_or(60)),
        acquire_time: Some(time.clone()),
        renew_time: Some(time.clone()),
        ..LeaseSpec::default()
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn source_of(lease: &Object) -> Option<String> {
    lease.metadata.uid.as_ref().map(|uid| format!("lease/{uid}"))
}

fn now() -> Timestamp {
    Timestamp::now()
}

/// Whether somebody holds the lease.
async fn look(
    cluster: &Cluster,
    api: &Api<Object>,
    lease: &Object,
    seen: &mut Option<Seen>,
) -> Result<Look, ClusterError> {
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    if holder.is_empty() {
        return Ok(Look::Free);
    }
    let life = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok()).filter(|seconds| *seconds > 0);
    let life = life.map_or(LIFE, Duration::from_secs);
    let idle = match touched(lease) {
        Some(touched) => {
            let now = server_time(cluster, api).await?;
            now.duration_since(touched).max(SignedDuration::ZERO).unsigned_abs()
        }
        None => watched(lease, life, seen),
    };
    Ok(if idle > life { Look::Free } else { Look::Held { holder, left: Some(life.saturating_sub(idle)) } })
}

/// When the API server last wrote a change of the lease down.
fn touched(lease: &Object) -> Option<Timestamp> {
    let entries = lease.metadata.managed_fields.as_ref()?;
    entries.iter().filter_map(|entry| entry.time.as_ref().map(|time| time.0)).max()
}

/// How long the lease has stood as it is, as far as this run saw.
fn watched(lease: &Object, life: Duration, seen: &mut Option<Seen>) -> Duration {
    let version = lease.metadata.resource_version.clone();
    match seen {
        Some(seen) if seen.version == version => seen.since.elapsed(),
        _ => {
            *seen = Some(Seen { version, life, since: Instant::now() });
            Duration::ZERO
        }
    }
}

/// The API server's clock, to the second: when it says that an object was made which is not kept.
async fn server_time(cluster: &Cluster, api: &Api<Object>) -> Result<Timestamp, ClusterError> {
    let metadata = ObjectMeta { generate_name: Some("egress-plan-clock-".to_owned()), ..ObjectMeta::default() };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let what = "ask for the API server's time";
    let made = cluster.bounded(what, api.create(&params, &Object { metadata, spec: None })).await?;
    made.metadata.creation_timestamp.map(|time| time.0).ok_or_else(|| ClusterError::Lost {
        what: what.to_owned(),
        message: "an object without a time came back".to_owned(),
    })
}
