//! Groups of flags that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value::{PlanFormat, duration, positive_duration};
use crate::plan::{Bound, HostRef, Label, LabelSelector, ProxyKey, Selection, Target};

/// Where the manifests are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub struct ManifestArgs {
    /// A manifest, a folder of them, or `-` for stdin; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "PATH", required_unless_present = "from_cluster")]
    pub filenames: Vec<PathBuf>,
    /// Where secrets are: DIR/NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// Refuse documents of other kinds instead of skipping them
    #[arg(long)]
    pub strict: bool,
    /// A cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The cluster that manifests come from, beside those of files.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Read the Proxy and ProxySet objects of a cluster
    #[arg(long)]
    pub from_cluster: bool,
    /// Only those of this namespace; may be repeated [default: all namespaces]
    #[arg(short = 'n', long = "namespace", value_name = "NAME", requires = "from_cluster")]
    pub namespaces: Vec<String>,
    /// How to reach the cluster [default: KUBECONFIG, a pod's service account, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of the Lease, the reports and the inventory [default: the pod's or the context's]
    #[arg(long, value_name = "NAME")]
    pub cluster_namespace: Option<String>,
}

/// What a run holds in a cluster, and leaves there.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterOutputArgs {
    /// Hold the fleet's Lease while the run lasts; --from-cluster does so anyway
    #[arg(long)]
    pub lease: bool,
    /// Write the report to a ConfigMap, and keep the last N of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub cluster_reports: Option<u16>,
    /// Write the proxies that clients may use to a ConfigMap
    #[arg(long)]
    pub cluster_inventory: bool,
}

/// Where the config is, and whose fleet it is for.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub struct ConfigArgs {
    /// The providers config
    #[arg(short, long, value_name = "FILE", env = "EGRESS_PLAN_CONFIG", hide_env_values = true)]
    pub config: PathBuf,
    /// The fleet, when the config does not name it
    #[arg(long, value_name = "NAME", env = "EGRESS_PLAN_FLEET", hide_env_values = true)]
    pub fleet: Option<Label>,
}

/// Which proxies and hosts a run may act on. What is desired stays the same.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectionArgs {
    /// Only proxies with these labels: k=v, k!=v, k in (a,b), k notin (a,b), k, !k; joined by commas
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<LabelSelector>,
    /// Only this proxy (NAMESPACE/NAME) or host (PROVIDER/HOST); may be repeated
    #[arg(long = "target", value_name = "KEY|HOST", conflicts_with = "excludes")]
    pub targets: Vec<Target>,
    /// Not this proxy (NAMESPACE/NAME) or host (PROVIDER/HOST); may be repeated
    #[arg(long = "exclude", value_name = "KEY|HOST")]
    pub excludes: Vec<Target>,
}

impl SelectionArgs {
    /// The selection as the planner takes it.
    #[must_use]
    pub fn selection(&self) -> Selection {
        Selection { labels: self.selector.clone(), targets: self.targets.clone(), excludes: self.excludes.clone() }
    }
}

/// Which hosts a command looks at.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Selection")]
pub struct HostArgs {
    /// Only this host; may be repeated
    #[arg(long = "target", value_name = "PROVIDER/HOST", conflicts_with = "excludes")]
    pub targets: Vec<HostRef>,
    /// Not this host; may be repeated
    #[arg(long = "exclude", value_name = "PROVIDER/HOST")]
    pub excludes: Vec<HostRef>,
}

impl HostArgs {
    /// Whether the command looks at `host`.
    #[must_use]
    pub fn includes(&self, host: &HostRef) -> bool {
        (self.targets.is_empty() || self.targets.contains(host)) && !self.excludes.contains(host)
    }
}

/// What a plan may hold.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Planning")]
pub struct PlanArgs {
    /// Replace the machine of this proxy though nothing changed; may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub replace: Vec<ProxyKey>,
    /// Refuse a plan with more deletions: a count, or a percentage of the fleet
    #[arg(long, value_name = "N|N%")]
    pub max_deletions: Option<Bound>,
    /// Mean it when there is no manifest at all
    #[arg(long)]
    pub allow_empty: bool,
    /// Accept orphans that another source of manifests made, this once
    #[arg(long)]
    pub take_over: bool,
    /// Mean it when this fleet has nothing yet and another one bears its keys
    #[arg(long)]
    pub new_fleet: bool,
    /// The report of a former run: what it knew is compared with what is there
    #[arg(long, value_name = "FILE")]
    pub previous_report: Option<PathBuf>,
}

/// How a plan or a result is printed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct PlanOutputArgs {
    /// The format on stdout
    #[arg(short, long, value_enum, value_name = "human|json|markdown", hide_possible_values = true, default_value_t = PlanFormat::Human)]
    pub output: PlanFormat,
    /// Write the JSON form to this file too
    #[arg(long, value_name = "FILE")]
    pub json_into: Option<PathBuf>,
}

/// How much a run does at a time, and for how long.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Hosts in flight at a time, 1 to 256 [default: the config's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallelism: Option<u16>,
    /// End the run after this long, as an interrupt would
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub timeout: Option<Duration>,
}

/// How a run that changes hosts waits for others, and how it is stopped.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct LockArgs {
    /// How long to wait for another run of the fleet to end
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub lock_timeout: Duration,
    /// How long what runs may go on after the first interrupt
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20s")]
    pub grace: Duration,
}

/// Runs that change recorded hosts, in memory.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Simulation")]
pub struct SimulateArgs {
    /// Allow recorded hosts, and change copies of them in memory
    #[arg(long)]
    pub simulate: bool,
    /// Write the changed copies into this folder
    #[arg(long, value_name = "DIR", requires = "simulate")]
    pub save_recorded: Option<PathBuf>,
}
