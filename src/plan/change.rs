//! The plan: what will be done, what will not, and why. Plain data that leaves the executor no
//! choice.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::desired::ImageNeed;
use super::name::{HostRef, Label, ProxyKey};
use super::observed::{HostTrouble, Leftover, LockHolder};
use super::reason::Reason;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Always [`Plan::FORMAT`]; a reader refuses another.
    pub format: String,
    /// The fleet that it is for.
    pub fleet: Label,
    /// When it was made.
    pub made_at: Timestamp,
    /// Whether files answered for the hosts: such a plan is refused by live ones.
    pub recorded: bool,
    /// Every host in scope.
    pub hosts: BTreeMap<HostRef, HostSummary>,
    /// Base images to bring to hosts before anything else.
    pub images: Vec<ImageAction>,
    /// What will be done, in the order in which it is shown.
    pub actions: Vec<Action>,
    /// What will not be done, and why.
    pub held: Vec<Held>,
    /// Proxies that are as wanted.
    pub unchanged: Vec<ProxyKey>,
    /// What a reader should know and nobody needs to act on.
    pub notes: Vec<String>,
    /// Guards that refuse the plan as a whole.
    pub refusals: Vec<Refusal>,
}

impl Plan {
    /// The format that this program writes and reads.
    pub const FORMAT: &'static str = "egress-plan.dev/plan/v1";

    /// Whether there is anything to do. The only place that decides it: text, JSON and exit codes
    /// ask here.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Whether a person is needed: a proxy is blocked or a host unknown.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.held.iter().any(|held| held.verdict == Verdict::Blocked)
            || self.hosts.values().any(|host| matches!(host, HostSummary::Unknown(_)))
    }

    /// Proxies whose replacement a person asked for by name.
    pub fn forced_replaces(&self) -> impl Iterator<Item = ProxyKey> + '_ {
        let forced = |action: &&Action| matches!(action.kind, ActionKind::Replace { forced: true, .. });
        self.actions.iter().filter(forced).map(|action| action.key.clone())
    }

    /// Leaves out images that no action of this plan is made from: an image is brought only where
    /// something needs it.
    pub(super) fn drop_needless_images(&mut self) {
        let needed: BTreeSet<(&HostRef, &ImageNeed)> = self
            .actions
            .iter()
            .filter_map(|action| action.kind.make().map(|make| (&action.place, &make.image)))
            .collect();
        self.images.retain(|image| needed.contains(&(&image.place, &image.image)));
    }

    /// How many actions there are of each kind, and how many proxies are blocked.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for action in &self.actions {
            match action.kind {
                ActionKind::Create { .. } => counts.create += 1,
                ActionKind::Start { .. } => counts.start += 1,
                ActionKind::Update { .. } => counts.update += 1,
                ActionKind::Replace { .. } => counts.replace += 1,
                ActionKind::Delete { .. } => counts.delete += 1,
            }
        }
        counts.blocked = self.held.iter().filter(|held| held.verdict == Verdict::Blocked).count();
        counts
    }
}

/// The figures of the plan's last line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Machines to make.
    pub create: usize,
    /// Machines to start.
    pub start: usize,
    /// Marks to update.
    pub update: usize,
    /// Machines to replace.
    pub replace: usize,
    /// Machines to delete.
    pub delete: usize,
    /// Proxies or machines that need a person.
    pub blocked: usize,
}

/// A host, as far as the plan shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HostSummary {
    /// It answered.
    #[serde(rename_all = "camelCase")]
    Known {
        /// `libvirt 11.6.0`.
        software: String,
        /// `pool default`.
        store: String,
        /// Free bytes, as last reported.
        available_bytes: u64,
        /// Machines of this fleet.
        ours: usize,
        /// Machines of others.
        others: usize,
        /// Volumes that look like ours and belong to no machine.
        leftovers: Vec<Leftover>,
        /// Another run that is at work there.
        lock: Option<LockHolder>,
    },
    /// It did not.
    Unknown(HostTrouble),
}

/// Names an action within a plan: `create default/p1 on lab/h1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ActionId(pub String);

/// A base image to bring to a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageAction {
    /// Where to.
    pub place: HostRef,
    /// Which.
    pub image: ImageNeed,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// Its name within the plan.
    pub id: ActionId,
    /// Where.
    pub place: HostRef,
    /// For which proxy.
    pub key: ProxyKey,
    /// The machine's name on the host.
    pub instance: String,
    /// What to do, and what must hold before.
    pub kind: ActionKind,
    /// Why, for people; nothing branches on it.
    pub why: String,
    /// More lines for people.
    pub details: Vec<String>,
    /// Actions that must have succeeded before.
    pub after: Vec<ActionId>,
}

/// The closed set of things that can be done to a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ActionKind {
    /// Make it. No machine of that name may exist.
    Create {
        /// What it is made from.
        make: Make,
    },
    /// Start it, and write the given values into its mark.
    Start {
        /// What must be there.
        expect: Expect,
        /// The values that its mark is to have.
        set: MarkUpdate,
    },
    /// Write what changed into its mark.
    Update {
        /// What must be there.
        expect: Expect,
        /// The new values.
        set: MarkUpdate,
    },
    /// Delete it and make it anew.
    Replace {
        /// What must be there.
        expect: Expect,
        /// File names that go with the old one.
        removes: Vec<String>,
        /// What the new one is made from.
        make: Make,
        /// A person asked for it by name, so that even a paused machine may go.
        forced: bool,
        /// An interrupted run left it in the making: it never served, so that no limit of how many may
        /// be out of service counts it.
        unfinished: bool,
    },
    /// Delete it.
    Delete {
        /// What must be there.
        expect: Expect,
        /// File names that go with it.
        removes: Vec<String>,
        /// A person asked for it by name, so that even a paused machine may go.
        forced: bool,
    },
}

impl ActionKind {
    /// The verb.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Start { .. } => "start",
            Self::Update { .. } => "update",
            Self::Replace { .. } => "replace",
            Self::Delete { .. } => "delete",
        }
    }

    /// What must be on the host before, for all but a create.
    #[must_use]
    pub fn expect(&self) -> Option<&Expect> {
        match self {
            Self::Create { .. } => None,
            Self::Start { expect, .. }
            | Self::Update { expect, .. }
            | Self::Replace { expect, .. }
            | Self::Delete { expect, .. } => Some(expect),
        }
    }

    /// What it makes, for a create and a replace.
    #[must_use]
    pub fn make(&self) -> Option<&Make> {
        match self {
            Self::Create { make } | Self::Replace { make, .. } => Some(make),
            Self::Start { .. } | Self::Update { .. } | Self::Delete { .. } => None,
        }
    }
}

/// The machine that the plan saw; another one, or another mark, means that nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// Its UUID.
    pub uuid: String,
    /// Digest of the spec in its mark.
    pub spec: String,
    /// Digest of the catalogue in its mark.
    pub catalogue: String,
    /// Whether its mark protects it.
    pub protect: bool,
    /// The source of manifests in its mark, where there is one.
    pub source: Option<String>,
}

/// What a machine is made from, digests only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Make {
    /// Digest of the spec.
    pub spec: String,
    /// Digest of the catalogue.
    pub catalogue: String,
    /// The base image.
    pub image: ImageNeed,
    /// Capacity of the disk in bytes.
    pub disk_bytes: u64,
}

/// The fields of a mark that change in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkUpdate {
    /// The proxy's port.
    pub port: u16,
    /// Digest of the labels.
    pub labels: String,
    /// No run replaces or deletes it.
    pub protect: bool,
    /// The source of manifests.
    pub source: Option<String>,
}

/// Something that is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Where, when a place is known.
    pub place: Option<HostRef>,
    /// The proxy, or the one that the mark bears.
    pub key: Option<ProxyKey>,
    /// The machine on the host, where there is one.
    pub instance: Option<String>,
    /// Whether it needs a person.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// One line for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Whether what is not done needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It does.
    Blocked,
    /// A later run will do it.
    Waiting,
    /// It stays as it is, on purpose.
    Kept,
}

/// A guard that refuses the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Which guard.
    pub guard: Guard,
    /// One line for people.
    pub message: String,
    /// What to do when it is meant.
    pub hint: String,
}

/// The guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Guard {
    /// No manifests at all, or a partial list.
    EmptySet,
    /// More deletions than `policy.maxDeletions`.
    MaxDeletions,
    /// The fleet has nothing anywhere while another one bears its keys.
    FleetRenamed,
    /// Most of what a former report knew has vanished.
    Vanished,
}
