//! A plan in the making: what the passes of the planner add to, and what they may ask.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;

use super::change::{Action, ActionId, ActionKind, Expect, Held, Make, MarkUpdate};
use super::desired::{Desired, Managed, Mode, Proxy, Resolved};
use super::hold::Hold;
use super::name::{HostRef, ProxyKey};
use super::observed::{HostState, HostView, Instance, Mark, Observed};
use super::policy::Policy;
use super::room::Room;

/// A machine of ours, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub place: &'a HostRef,
    pub view: &'a HostView,
    pub instance: &'a Instance,
    pub mark: &'a Mark,
}

impl Machine<'_> {
    pub fn is(&self, other: &Machine<'_>) -> bool {
        self.place == other.place && self.instance.uuid == other.instance.uuid
    }
}

pub(super) struct Draft<'a> {
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    pub policy: &'a Policy,
    pub now: Timestamp,
    pub actions: Vec<Action>,
    pub held: Vec<Held>,
    pub unchanged: BTreeSet<ProxyKey>,
    pub notes: BTreeSet<String>,
    /// Machines that the config resolves anew and that are left as they are, by what changed.
    pub outdated: BTreeMap<String, Vec<&'a ProxyKey>>,
    /// What may still be planned on each host that is known.
    pub room: BTreeMap<&'a HostRef, Room<'a>>,
    /// Ours, by key and then by place and name, so that no order of a listing shows.
    machines: BTreeMap<&'a ProxyKey, Vec<Machine<'a>>>,
    /// Ours, by the static addresses that their marks bear.
    addresses: BTreeMap<IpAddr, Vec<Machine<'a>>>,
    planned: BTreeMap<ActionId, usize>,
    /// Deletions that make a static address free, and the action that takes it.
    pub followers: BTreeMap<ActionId, ActionId>,
}

impl<'a> Draft<'a> {
    pub fn new(desired: &'a Desired, observed: &'a Observed, policy: &'a Policy, now: Timestamp) -> Self {
        let mut draft = Self {
            desired,
            observed,
            policy,
            now,
            actions: Vec::new(),
            held: Vec::new(),
            unchanged: BTreeSet::new(),
            notes: BTreeSet::new(),
            outdated: BTreeMap::new(),
            room: BTreeMap::new(),
            machines: BTreeMap::new(),
            addresses: BTreeMap::new(),
            planned: BTreeMap::new(),
            followers: BTreeMap::new(),
        };
        for (place, view) in draft.views() {
            draft.room.insert(place, Room::of(view, desired.hosts.get(place)));
            for instance in in_order(view) {
                let Some(mark) = instance.mark() else { continue };
                let machine = Machine { place, view, instance, mark };
                draft.machines.entry(&mark.proxy).or_default().push(machine);
                for address in mark.addresses.iter().filter_map(|text| address_of(text)) {
                    draft.addresses.entry(address).or_default().push(machine);
                }
            }
        }
        draft
    }

    /// Every host that is known.
    pub fn views(&self) -> impl Iterator<Item = (&'a HostRef, &'a HostView)> + use<'a> {
        self.observed.hosts.iter().filter_map(|(place, state)| match state {
            HostState::Known(view) => Some((place, &**view)),
            HostState::Unknown(_) => None,
        })
    }

    /// Every host of the config that is not known, be it that it did not answer or was not asked.
    pub fn unknown_hosts(&self) -> impl Iterator<Item = &'a HostRef> + use<'a> {
        let observed = self.observed;
        let missing = move |place: &&HostRef| !observed.hosts.contains_key(*place);
        let silent = observed.hosts.iter().filter(|(_, state)| matches!(state, HostState::Unknown(_)));
        silent.map(|(place, _)| place).chain(self.desired.hosts.keys().filter(missing))
    }

    /// Every machine of ours on every known host.
    pub fn ours(&self) -> impl Iterator<Item = Machine<'a>> {
        self.machines.values().flatten().copied()
    }

    /// Machines of ours for `key`, wherever they are, by place and name.
    pub fn machines_of(&self, key: &ProxyKey) -> &[Machine<'a>] {
        self.machines.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Machines of ours whose marks bear `address`.
    pub fn holders_of(&self, address: IpAddr) -> &[Machine<'a>] {
        self.addresses.get(&address).map(Vec::as_slice).unwrap_or_default()
    }

    /// The machine that is wanted for `key`, wherever that is.
    pub fn wanted(&self, key: &ProxyKey) -> Option<(&'a Proxy, &'a Managed)> {
        let proxy = self.desired.proxies.get(key)?;
        match &proxy.mode {
            Mode::Managed(managed) => Some((proxy, managed)),
            Mode::External { .. } => None,
        }
    }

    pub fn retired(&self, place: &HostRef) -> bool {
        self.desired.hosts.get(place).is_some_and(|host| host.retired)
    }

    /// The machine at its wanted place that realises `key`. Two can be there after a host got an
    /// alias: then it is the one with today's name, or the first.
    pub fn realises(&self, key: &ProxyKey) -> Option<Machine<'a>> {
        let (_, managed) = self.wanted(key)?;
        let here = || self.machines_of(key).iter().filter(|machine| *machine.place == managed.place).copied();
        let named = managed.resolved.as_ref().ok().map(|resolved| resolved.instance.as_str());
        here().find(|machine| Some(machine.instance.name.as_str()) == named).or_else(|| here().next())
    }

    /// Whether nobody wants this machine where it is. While its proxy cannot be resolved, nothing at
    /// its place is an orphan.
    pub fn is_orphan(&self, machine: &Machine<'a>) -> bool {
        match self.wanted(&machine.mark.proxy) {
            Some((_, managed)) if managed.place == *machine.place && !self.retired(machine.place) => {
                managed.resolved.is_ok() && self.realises(&machine.mark.proxy).is_some_and(|it| !it.is(machine))
            }
            _ => true,
        }
    }

    /// How people address the host's manager in printed commands.
    pub fn console(&self, place: &HostRef) -> &'a str {
        self.desired.hosts.get(place).map(|host| host.console.as_str()).unwrap_or_default()
    }

    pub fn hold(&mut self, place: &HostRef, key: Option<&ProxyKey>, instance: Option<&str>, hold: Hold) {
        self.held.push(hold.held(place, key, instance));
    }

    /// The action that makes or starts the wanted machine of `key` in this run, if one does.
    pub fn making(&self, key: &ProxyKey, place: &HostRef) -> Option<&ActionId> {
        ["create", "start", "replace"]
            .iter()
            .find_map(|verb| self.planned.get_key_value(&id(verb, key, place)))
            .map(|(id, _)| id)
    }

    /// The id of the deletion of a machine. Of two machines for one key on one host, the second is
    /// named besides.
    pub fn deletion_of(&self, machine: &Machine<'a>) -> ActionId {
        let plain = id("delete", &machine.mark.proxy, machine.place);
        let first = self.machines_of(&machine.mark.proxy).iter().find(|other| other.place == machine.place);
        match first {
            Some(other) if !other.is(machine) => ActionId(format!("{} ({})", plain.0, machine.instance.name)),
            _ => plain,
        }
    }

    /// Makes `second` wait for `first`.
    pub fn order(&mut self, first: ActionId, second: &ActionId) {
        if let Some(action) = self.planned.get(second).and_then(|at| self.actions.get_mut(*at))
            && !action.after.contains(&first)
        {
            action.after.push(first);
            action.after.sort();
        }
    }

    pub fn act(&mut self, action: Action) {
        self.planned.insert(action.id.clone(), self.actions.len());
        self.actions.push(action);
    }
}

/// The machines of a host by name, whatever the order in which the host listed them.
pub(super) fn in_order(view: &HostView) -> Vec<&Instance> {
    let mut instances: Vec<&Instance> = view.instances.iter().collect();
    instances.sort_by(|a, b| (&a.name, &a.uuid).cmp(&(&b.name, &b.uuid)));
    instances
}

pub(super) fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}

/// The address of a mark's `192.0.2.17/24`.
fn address_of(text: &str) -> Option<IpAddr> {
    text.trim().split('/').next()?.parse().ok()
}

pub(super) fn id(verb: &str, key: &ProxyKey, place: &HostRef) -> ActionId {
    ActionId(format!("{verb} {key} on {place}"))
}

/// An action that waits for nothing yet.
pub(super) fn action(place: &HostRef, key: &ProxyKey, instance: &str, kind: ActionKind, why: String) -> Action {
    Action {
        id: id(kind.verb(), key, place),
        place: place.clone(),
        key: key.clone(),
        instance: instance.to_owned(),
        kind,
        why,
        details: Vec::new(),
        after: Vec::new(),
    }
}

pub(super) fn expect(machine: &Machine<'_>) -> Expect {
    Expect {
        uuid: machine.instance.uuid.clone(),
        spec: machine.mark.spec.hash.clone(),
        catalogue: machine.mark.catalogue.hash.clone(),
        protect: machine.mark.protect,
        source: machine.mark.source.clone(),
    }
}

pub(super) fn make(resolved: &Resolved) -> Make {
    Make {
        spec: resolved.spec.hash.clone(),
        catalogue: resolved.catalogue.hash.clone(),
        image: resolved.image.clone(),
        disk_bytes: resolved.disk_bytes,
    }
}

impl Draft<'_> {
    /// What the mark of a machine that stays is to bear. Its source changes only when this source
    /// takes the fleet over: moving manifests into a cluster changes nothing by itself.
    pub fn mark_update(&self, managed: &Managed, resolved: &Resolved, mark: &Mark) -> MarkUpdate {
        let source = if self.policy.take_over { &self.desired.source } else { &mark.source };
        MarkUpdate {
            port: managed.port,
            labels: resolved.labels.clone(),
            protect: managed.protect,
            source: source.clone(),
        }
    }
}
