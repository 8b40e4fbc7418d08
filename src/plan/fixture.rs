//! Worlds for the planner's tests, told in sentences: what is wanted, what is there, what is
//! allowed. Every plan that a world makes is linted.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::change::{Plan, Verdict};
use super::desired::{
    Desired, HostSettings, ImageNeed, MachineSpec, Managed, Mode, Network, Proxy, Resolved, UserData,
};
use super::fingerprint::Fingerprint;
use super::lint::lint;
use super::name::{HostRef, ProxyKey};
use super::observed::{
    Address, BaseImage, HostState, HostTrouble, HostView, Instance, Mark, MarkState, Observed, Power, Standing, Store,
};
use super::policy::Policy;
use super::reason::Reason;

pub const GIB: u64 = 1 << 30;

pub fn key(name: &str) -> ProxyKey {
    ProxyKey::new("t", name).expect("a name")
}

pub fn host(name: &str) -> HostRef {
    format!("lab/{name}").parse().expect("a host")
}

pub fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

/// What is wanted, seen and allowed.
#[derive(Debug, Clone)]
pub struct World {
    pub desired: Desired,
    pub observed: Observed,
    pub policy: Policy,
}

impl World {
    /// Hosts that answered and hold nothing but the image `debian`.
    pub fn of(hosts: &[&str]) -> Self {
        let settings = HostSettings {
            aliases: Vec::new(),
            retired: false,
            max_instances: None,
            recorded: true,
            console: "virsh -c qemu:///system".to_owned(),
        };
        Self {
            desired: Desired {
                fleet: "fleet".parse().expect("a name"),
                source: None,
                complete: true,
                namespaces: None,
                proxies: BTreeMap::new(),
                hosts: hosts.iter().map(|name| (host(name), settings.clone())).collect(),
            },
            observed: Observed {
                hosts: hosts.iter().map(|name| (host(name), HostState::Known(Box::new(empty_view())))).collect(),
            },
            policy: Policy::default(),
        }
    }

    pub fn wants(mut self, proxy: WantedProxy) -> Self {
        self.desired.proxies.insert(key(&proxy.name), proxy.build());
        self
    }

    pub fn has(self, machine: Seen) -> Self {
        let place = machine.host.clone();
        self.seeing(&place, |view| view.instances.push(machine.build()))
    }

    pub fn seeing(mut self, name: &str, change: impl FnOnce(&mut HostView)) -> Self {
        let Some(HostState::Known(view)) = self.observed.hosts.get_mut(&host(name)) else {
            panic!("{name} is not a known host")
        };
        change(view);
        self
    }

    pub fn unknown(mut self, name: &str) -> Self {
        let trouble = HostTrouble { reason: Reason::Unreachable, message: "connection refused".to_owned(), hint: None };
        self.observed.hosts.insert(host(name), HostState::Unknown(trouble));
        self
    }

    pub fn configured(mut self, name: &str, change: impl FnOnce(&mut HostSettings)) -> Self {
        change(self.desired.hosts.get_mut(&host(name)).expect("a host of the config"));
        self
    }

    pub fn under(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    pub fn of_source(mut self, source: &str) -> Self {
        self.desired.source = Some(source.to_owned());
        self
    }

    /// The plan, after the linter found nothing in it.
    pub fn plan(&self) -> Plan {
        let plan = super::plan(&self.desired, &self.observed, &self.policy, now());
        let broken = lint(&plan, &self.desired, &self.observed, &self.policy);
        assert!(broken.is_empty(), "{broken:#?}\n{:#?}", plan.actions);
        plan
    }

    /// The plan in short: actions, then what is held, then what is unchanged, a line each.
    pub fn story(&self) -> Vec<String> {
        let plan = self.plan();
        let actions = plan.actions.iter().map(|action| match action.after.as_slice() {
            [] => action.id.0.clone(),
            after => {
                let after: Vec<&str> = after.iter().map(|id| id.0.as_str()).collect();
                format!("{} after {}", action.id.0, after.join(" and "))
            }
        });
        let held = plan.held.iter().map(|held| {
            let verdict = match held.verdict {
                Verdict::Blocked => "blocked",
                Verdict::Waiting => "waits",
                Verdict::Kept => "kept",
            };
            let who = held.key.as_ref().map_or_else(|| held.instance.clone().unwrap_or_default(), ToString::to_string);
            let place = held.place.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{who} on {place} {verdict}: {:?}", held.reason)
        });
        actions.chain(held).chain(plan.unchanged.iter().map(|key| format!("{key} unchanged"))).collect()
    }

    /// The reason of the only action.
    pub fn why(&self) -> String {
        let plan = self.plan();
        assert_eq!(plan.actions.len(), 1, "{:#?}", plan.actions);
        plan.actions[0].why.clone()
    }
}

fn empty_view() -> HostView {
    HostView {
        software: "libvirt 11.6.0".to_owned(),
        store: Store {
            name: "pool default".to_owned(),
            identity: None,
            start_hint: "virsh -c qemu:///system pool-start default".to_owned(),
            active: true,
            capacity: 1_000 * GIB,
            available: 500 * GIB,
            reserve: 5 * GIB,
            growth: 0,
        },
        images: BTreeMap::from([(image("debian").id, base_image())]),
        ..HostView::default()
    }
}

pub fn base_image() -> BaseImage {
    BaseImage { name: "base".to_owned(), bytes: GIB, virtual_bytes: Some(2 * GIB) }
}

pub fn image(name: &str) -> ImageNeed {
    ImageNeed { key: name.to_owned(), id: format!("id-of-{name}") }
}

/// What a machine is made from: the same for a manifest and for a mark, so that the two agree until
/// one of them is told otherwise.
#[derive(Debug, Clone)]
struct Recipe {
    image: String,
    user_data: String,
    network: Option<String>,
    size: String,
    port: u16,
    labels: String,
    protect: bool,
}

impl Recipe {
    fn usual() -> Self {
        Self {
            image: "debian".to_owned(),
            user_data: "squid".to_owned(),
            network: None,
            size: "small".to_owned(),
            port: 3128,
            labels: "none".to_owned(),
            protect: false,
        }
    }

    fn spec(&self, version: u32) -> Fingerprint {
        let network = self.network.as_ref().map(|network| ("network", network.as_bytes()));
        let parts = [("image", self.image.as_bytes()), ("user-data", self.user_data.as_bytes())];
        Fingerprint::of(version, parts.into_iter().chain(network))
    }

    fn catalogue(&self) -> Fingerprint {
        Fingerprint::of(1, [("size", self.size.as_bytes())])
    }
}

/// A manifest: `wanted("p1").on("h1")`.
#[derive(Debug, Clone)]
pub struct WantedProxy {
    name: String,
    host: String,
    recipe: Recipe,
    resolved: bool,
    external: bool,
    disk: u64,
    spec_version: u32,
}

pub fn wanted(name: &str) -> WantedProxy {
    WantedProxy {
        name: name.to_owned(),
        host: "h1".to_owned(),
        recipe: Recipe::usual(),
        resolved: true,
        external: false,
        disk: 10 * GIB,
        spec_version: 1,
    }
}

impl WantedProxy {
    pub fn on(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    pub fn with_image(mut self, image: &str) -> Self {
        image.clone_into(&mut self.recipe.image);
        self
    }

    pub fn with_user_data(mut self, text: &str) -> Self {
        text.clone_into(&mut self.recipe.user_data);
        self
    }

    pub fn at(mut self, address: &str) -> Self {
        self.recipe.network = Some(address.to_owned());
        self
    }

    pub fn of_size(mut self, size: &str) -> Self {
        size.clone_into(&mut self.recipe.size);
        self
    }

    pub fn on_port(mut self, port: u16) -> Self {
        self.recipe.port = port;
        self
    }

    pub fn labelled(mut self, labels: &str) -> Self {
        labels.clone_into(&mut self.recipe.labels);
        self
    }

    pub fn protected(mut self) -> Self {
        self.recipe.protect = true;
        self
    }

    pub fn unresolved(mut self) -> Self {
        self.resolved = false;
        self
    }

    pub fn external(mut self) -> Self {
        self.external = true;
        self
    }

    pub fn with_disk_of(mut self, gib: u64) -> Self {
        self.disk = gib * GIB;
        self
    }

    pub fn by_version(mut self, version: u32) -> Self {
        self.spec_version = version;
        self
    }

    fn build(self) -> Proxy {
        let recipe = &self.recipe;
        let network = recipe.network.as_ref().map(|address| Network {
            addresses: vec![address.parse().expect("an address with its prefix length")],
            gateway: None,
            nameservers: Vec::new(),
        });
        let resolved = Resolved {
            instance: instance_name(&self.name, &self.host),
            spec: recipe.spec(self.spec_version),
            catalogue: recipe.catalogue(),
            image: image(&recipe.image),
            disk_bytes: self.disk,
            reserve_bytes: self.disk,
            labels: recipe.labels.clone(),
            summary: format!("{}, {}", recipe.size, recipe.image),
        };
        let managed = Managed {
            place: host(&self.host),
            port: recipe.port,
            protect: recipe.protect,
            spec: MachineSpec {
                image: recipe.image.clone(),
                machine_type: recipe.size.clone(),
                user_data: Some(UserData::new(recipe.user_data.clone().into_bytes())),
                network,
            },
            resolved: if self.resolved { Ok(resolved) } else { Err("no image of that name".to_owned()) },
        };
        let mode = if self.external {
            Mode::External { host: "proxy.example".to_owned(), port: 3128 }
        } else {
            Mode::Managed(Box::new(managed))
        };
        let labels = BTreeMap::from([("name".to_owned(), self.name.clone())]);
        Proxy { key: key(&self.name), origin: "p.yaml:1".to_owned(), labels, mode }
    }
}

pub fn instance_name(name: &str, host: &str) -> String {
    format!("egress-{name}-{host}")
}

/// A machine on a host: `seen("p1").on("h1")`, ours, running, a day old and as its manifest says.
#[derive(Debug, Clone)]
pub struct Seen {
    name: String,
    host: String,
    former_host_name: bool,
    recipe: Recipe,
    spec_version: u32,
    state: MarkState,
    source: Option<String>,
    age: SignedDuration,
    blocked: Option<(bool, Reason)>,
    power: Power,
    transient: bool,
    missing_disks: Vec<String>,
}

pub fn seen(name: &str) -> Seen {
    Seen {
        name: name.to_owned(),
        host: "h1".to_owned(),
        former_host_name: false,
        recipe: Recipe::usual(),
        spec_version: 1,
        state: MarkState::Ready,
        source: None,
        age: SignedDuration::from_hours(24),
        blocked: None,
        power: Power::Running,
        transient: false,
        missing_disks: Vec::new(),
    }
}

impl Seen {
    pub fn on(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    pub fn with_image(mut self, image: &str) -> Self {
        image.clone_into(&mut self.recipe.image);
        self
    }

    pub fn with_user_data(mut self, text: &str) -> Self {
        text.clone_into(&mut self.recipe.user_data);
        self
    }

    pub fn at(mut self, address: &str) -> Self {
        self.recipe.network = Some(address.to_owned());
        self
    }

    pub fn of_size(mut self, size: &str) -> Self {
        size.clone_into(&mut self.recipe.size);
        self
    }

    pub fn protected(mut self) -> Self {
        self.recipe.protect = true;
        self
    }

    /// Made when the host had another name, which is an alias now.
    pub fn named_after_a_former_host_name(mut self) -> Self {
        self.former_host_name = true;
        self
    }

    pub fn by_version(mut self, version: u32) -> Self {
        self.spec_version = version;
        self
    }

    pub fn left(mut self, state: MarkState) -> Self {
        self.state = state;
        self
    }

    pub fn of_source(mut self, source: &str) -> Self {
        self.source = Some(source.to_owned());
        self
    }

    pub fn minutes_old(mut self, minutes: i64) -> Self {
        self.age = SignedDuration::from_mins(minutes);
        self
    }

    /// With our fleet's mark, and not ours.
    pub fn blocked(mut self, reason: Reason) -> Self {
        self.blocked = Some((true, reason));
        self
    }

    /// With a mark that does not even say for which proxy.
    pub fn unreadable(mut self) -> Self {
        self.blocked = Some((false, Reason::UnreadableMark));
        self
    }

    pub fn being(mut self, power: Power) -> Self {
        self.power = power;
        self
    }

    pub fn off(self) -> Self {
        self.being(Power::Off("shutdown".to_owned()))
    }

    pub fn paused(self) -> Self {
        let hint = "virsh -c qemu:///system resume it".to_owned();
        self.being(Power::Paused { why: "ioerror".to_owned(), hint })
    }

    pub fn undefined(mut self) -> Self {
        self.transient = true;
        self
    }

    pub fn without_its_disk(mut self) -> Self {
        self.missing_disks = vec!["disk.qcow2".to_owned()];
        self
    }

    fn build(self) -> Instance {
        let suffix = if self.former_host_name { "-formerly" } else { "" };
        let name = format!("{}{suffix}", instance_name(&self.name, &self.host));
        let uuid = format!("uuid-of-{name}");
        let made = now().saturating_sub(self.age).expect("a time");
        let mark = Mark {
            fleet: "fleet".to_owned(),
            provider: "lab".to_owned(),
            host: self.host.clone(),
            proxy: key(&self.name),
            machine: uuid.clone(),
            state: self.state,
            spec: self.recipe.spec(self.spec_version),
            catalogue: self.recipe.catalogue(),
            addresses: self.recipe.network.iter().cloned().collect(),
            port: self.recipe.port,
            labels: self.recipe.labels.clone(),
            protect: self.recipe.protect,
            created_at: made,
            started_at: Some(made),
            source: self.source,
            tool: "0.1.0".to_owned(),
            uid: None,
        };
        let standing = match self.blocked {
            None => Standing::Ours(Box::new(mark)),
            Some((marked, reason)) => Standing::Blocked {
                key: marked.then(|| key(&self.name)),
                reason,
                message: "its mark does not fit".to_owned(),
            },
        };
        Instance {
            removes: vec![format!("{name}-seed.iso"), format!("{name}.qcow2")],
            disk_bytes: if self.missing_disks.is_empty() { 10 * GIB } else { 0 },
            name,
            uuid,
            standing,
            power: self.power,
            transient: self.transient,
            missing_disks: self.missing_disks,
            address: Address::NotAsked,
        }
    }
}
