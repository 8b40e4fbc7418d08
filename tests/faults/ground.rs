//! The ground of every story: a config, manifests, recorded hosts, and what others have on them.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egress_plan::load::{Loaded, ProviderConfig, Sources, load};
use egress_plan::plan::{HostRef, ProxyKey};
use egress_plan::provider::libvirt::Links;
use egress_plan::provider::libvirt::host::recorded::{RecordedDomain, RecordedHost, RecordedVolume, World};
use egress_plan::provider::libvirt::naming::{BaseName, LockName, instance_name};
use tempfile::TempDir;

/// The entry of every config.
pub const ENTRY: &str = "lab";
/// The fleet that runs are about.
pub const FLEET: &str = "faults";
/// A proxy whose machine is in nobody's way: it must outlive every story.
pub const STAYS: &str = "stays";
/// A wanted proxy whose name somebody's own machine has.
pub const SQUATTED: &str = "squatted";

/// A proxy of a manifest.
#[derive(Clone, Copy)]
pub struct Proxy {
    pub name: &'static str,
    pub zone: &'static str,
    pub image: &'static str,
    pub port: u16,
    pub user_data: &'static str,
    /// `spec.network`; empty for one whose address is given to it.
    pub network: &'static str,
    /// `metadata.labels` and `spec.protect`.
    pub more: (&'static str, bool),
}

impl Proxy {
    pub const fn new(name: &'static str, zone: &'static str, image: &'static str) -> Self {
        Self { name, zone, image, port: 3128, user_data: "one", network: "", more: ("{}", false) }
    }

    fn manifest(&self) -> String {
        let Self { name, zone, image, port, user_data, network, more: (labels, protect) } = self;
        let network = if network.is_empty() { String::new() } else { format!("  network: {network}\n") };
        format!(
            "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: {name}, labels: {labels}}}\nspec:\n  \
             provider: {ENTRY}\n  port: {port}\n  protect: {protect}\n  \
             placement: {{zone: {zone}, machineType: tiny, image: {image}}}\n  \
             cloudInit: \"#cloud-config\\n# {user_data}\\n\"\n{network}"
        )
    }
}

/// The folder of a config whose hosts are files.
pub struct Ground {
    folder: TempDir,
    drain: &'static str,
    zones: &'static [&'static str],
}

impl Ground {
    /// Hosts named `zones`, on which nothing is yet. `drain` is how long a guest may take to power off;
    /// at `0s` it is not asked.
    pub fn new(zones: &'static [&'static str], drain: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for zone in zones {
            // Its clock is right: whether a lock is shown as alive is judged by this machine's.
            // Its name tells its pool from those of other grounds.
            let name = folder.path().file_name().expect("a name").to_string_lossy().replace('.', "");
            let host = format!(
                "format: egress-plan.dev/recorded/v1\nrecordedAt: {}\nhostname: {zone}-{name}\n",
                jiff::Timestamp::now()
            );
            fs::write(folder.path().join(format!("{zone}.yaml")), host).expect("a file");
        }
        Self { folder, drain, zones }
    }

    /// What a fleet with these proxies comes to.
    pub fn load(&self, fleet: &str, proxies: &[Proxy]) -> Loaded {
        let host = |zone: &&str| format!("    - {{name: {zone}, recorded: {zone}.yaml, bridge: br0}}\n");
        let hosts = self.zones.iter().map(host).collect::<Vec<_>>().concat();
        self.load_entries(fleet, &[(ENTRY, hosts)], proxies)
    }

    /// A fleet that wants nothing, with two entries that each have a host of the same name.
    pub fn load_twice(&self, fleet: &str) -> Loaded {
        let host = |file: &str| format!("    - {{name: h1, recorded: {file}.yaml, bridge: br0}}\n");
        self.load_entries(fleet, &[(ENTRY, host("h1")), ("mirror", host("h2"))], &[])
    }

    fn load_entries(&self, fleet: &str, entries: &[(&str, String)], proxies: &[Proxy]) -> Loaded {
        let image = |key: &str, digit: &str| {
            format!(
                "      {key}: {{url: 'https://images.example/{key}.qcow2', checksum: 'sha256:{}'}}\n",
                digit.repeat(64)
            )
        };
        let entry = |(name, hosts): &(&str, String)| {
            format!(
                "- name: {name}\n  type: libvirt\n  libvirt:\n    diskSizeGb: 3\n    drain: {{timeout: {}}}\n    \
                 images:\n{}{}    machineTypes: {{tiny: {{vcpus: 1, memoryMiB: 64}}}}\n    hosts:\n{hosts}",
                self.drain,
                image("blank", "0"),
                image("other", "1")
            )
        };
        let entries: String = entries.iter().map(entry).collect();
        let config = format!(
            "fleet: {fleet}\npolicy: {{minAge: 0s, maxDeletions: 100%, allowEmpty: true}}\n\
             concurrency: {{hosts: 1, perHost: 1, downloads: 1}}\nproviders:\n{entries}"
        );
        let manifests = match proxies {
            [] => "apiVersion: v1\nkind: List\nitems: []\n".to_owned(),
            some => some.iter().map(Proxy::manifest).collect::<Vec<_>>().join("---\n"),
        };
        let path = |name: &str| self.folder.path().join(name);
        fs::write(path("config.yaml"), config).expect("a file");
        fs::write(path("manifests.yaml"), manifests).expect("a file");
        let sources =
            Sources { filenames: vec![path("manifests.yaml")], config: path("config.yaml"), ..Sources::default() };
        load(&sources, &mut std::io::empty()).unwrap_or_else(|problems| panic!("{:?}", problems.as_slice()))
    }
}

/// What is on each host, by name.
pub type Files = Vec<(String, RecordedHost)>;

/// Hosts in memory, which the runs of a story share as runs share real ones.
#[derive(Clone)]
pub struct Hosts(pub Arc<Links>);

impl Hosts {
    /// The hosts of a config, as its files have them.
    pub fn of(loaded: &Loaded) -> Self {
        let ProviderConfig::Libvirt(config) = &loaded.providers[0];
        let links = Links::new(Arc::new((**config).clone())).unwrap_or_else(|error| panic!("{error}"));
        Self(Arc::new(links))
    }

    /// Every host, by name.
    pub fn worlds(&self) -> impl Iterator<Item = (String, &Arc<Mutex<World>>)> {
        self.0.worlds().iter().map(|(name, world)| (name.to_string(), world))
    }

    /// The hosts as they are now, to begin stories with.
    pub fn snapshot(&self) -> Vec<World> {
        self.worlds().map(|(_, world)| lock(world).clone()).collect()
    }

    /// What is on each host now, by name.
    pub fn files(&self) -> Files {
        self.worlds().map(|(name, world)| (name, lock(world).to_file())).collect()
    }

    /// Other hosts that begin as a snapshot.
    pub fn from(loaded: &Loaded, snapshot: &[World]) -> Self {
        let hosts = Self::of(loaded);
        for ((_, world), begin) in hosts.worlds().zip(snapshot) {
            lock(world).clone_from(begin);
        }
        hosts
    }

    /// Every host's clock moves.
    pub fn pass(&self, time: jiff::SignedDuration) {
        self.each(|_, world| world.pass(time));
    }

    /// No host fails any more.
    pub fn heal(&self) {
        self.each(|_, world| world.heal());
    }

    pub fn each(&self, mut change: impl FnMut(&str, &mut World)) {
        for (name, world) in self.worlds() {
            change(&name, &mut lock(world));
        }
    }
}

/// A world, also after a test failed while it held the lock.
pub fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lock volumes that are there.
pub fn locks(files: &Files) -> usize {
    let volumes = files.iter().flat_map(|(_, file)| &file.pool.volumes);
    volumes.filter(|volume| LockName::parse(&volume.name).is_some()).count()
}

/// The name of a proxy's machine.
pub fn instance(fleet: &str, zone: &str, proxy: &str) -> String {
    let place: HostRef = format!("{ENTRY}/{zone}").parse().expect("a place");
    instance_name(&fleet.parse().expect("a fleet"), &place, &ProxyKey::new("default", proxy).expect("a key"))
}

/// What others have on the hosts beside this fleet, as it was before a story.
#[derive(Clone, PartialEq)]
pub struct Foreign {
    domains: BTreeMap<(String, String), RecordedDomain>,
    volumes: BTreeMap<(String, String), RecordedVolume>,
}

impl Foreign {
    /// Puts things of others on every host: a machine without a mark that has a name of ours, one with
    /// a copied mark, disks on top of our base images, disks that nobody has.
    pub fn plant(hosts: &Hosts) {
        hosts.each(|zone, world| {
            world.edit(|host| {
                let folder = host.pool.path.clone();
                let copied = instance(FLEET, zone, STAYS);
                if let Some(original) = host.domains.iter().find(|domain| domain.name == copied) {
                    let copy = copy_of(original);
                    host.domains.push(copy);
                }
                let volume = |name: String, backing: Option<String>| {
                    let yaml = serde_json::json!({"name": name, "format": "qcow2", "capacity": 1 << 30, "allocation": 1 << 20,
                        "backing": backing, "modified": "2026-01-01T00:00:00Z"});
                    serde_json::from_value::<RecordedVolume>(yaml).expect("a volume")
                };
                let other = host.pool.volumes.iter().find(|volume| {
                    BaseName::parse(&volume.name).is_some_and(|base| base.owner() == format!("{ENTRY}-other"))
                });
                let base = other.map(|base| format!("{folder}/{}", base.name));
                let named = ["squatter.qcow2", "copied.qcow2", "copied-seed.iso", "notes.qcow2", "egress-x-abcdefgh-01234567.qcow2"];
                host.pool.volumes.extend(named.map(|name| volume(name.to_owned(), None)));
                host.pool.volumes.push(volume("on-our-base.qcow2".to_owned(), base));
                for (name, disk) in [(instance(FLEET, zone, SQUATTED), "squatter.qcow2"), ("nas".to_owned(), "on-our-base.qcow2")] {
                    let yaml = serde_json::json!({"name": name, "state": "running", "disks": [{"path": format!("{folder}/{disk}")}]});
                    host.domains.push(serde_json::from_value(yaml).expect("a domain"));
                }
            });
        });
    }

    /// What of the hosts is not the fleet's: whatever is there and is neither its machine or a disk of
    /// one, nor a base image, a proof or a lock.
    pub fn on(files: Files, ours: impl Fn(&str, &str) -> bool) -> Self {
        let mut foreign = Self { domains: BTreeMap::new(), volumes: BTreeMap::new() };
        for (zone, file) in files {
            let at = |name: &str| (zone.clone(), name.to_owned());
            let domains = file.domains.into_iter().filter(|domain| !ours(&zone, &domain.name));
            foreign.domains.extend(domains.map(|domain| (at(&domain.name), domain)));
            let volumes = file.pool.volumes.into_iter().filter(|volume| !ours(&zone, &volume.name));
            foreign.volumes.extend(volumes.map(|volume| (at(&volume.name), volume)));
        }
        foreign
    }

    pub fn has(&self, zone: &str, name: &str) -> bool {
        let at = (zone.to_owned(), name.to_owned());
        self.domains.contains_key(&at) || self.volumes.contains_key(&at)
    }

    /// How many things there are.
    pub fn count(&self) -> usize {
        self.domains.len() + self.volumes.len()
    }

    /// Which of them are not as they were, byte for byte.
    pub fn touched(&self, files: Files) -> Vec<String> {
        let now = Self::on(files, |_, _| false);
        let domains = self.domains.iter().filter(|(at, was)| now.domains.get(at) != Some(was)).map(|(at, _)| at);
        let volumes = self.volumes.iter().filter(|(at, was)| now.volumes.get(at) != Some(was)).map(|(at, _)| at);
        domains.chain(volumes).map(|(zone, name)| format!("{zone}/{name}")).collect()
    }
}

/// A clone with a name, a UUID and disks of its own; its mark is the original's.
fn copy_of(original: &RecordedDomain) -> RecordedDomain {
    let uuid = original.uuid.expect("a UUID").to_string();
    let (name, short) = (&original.name, &uuid[..8]);
    let copy = "0b5c3d1e-7f2a-4c6d-8e9f-a1b2c3d4e5f6";
    let text = serde_json::to_string(original)
        .expect("JSON")
        .replace(&format!("{name}-{short}.qcow2"), "copied.qcow2")
        .replace(&format!("{name}-{short}-seed.iso"), "copied-seed.iso")
        .replace(&format!("<name>{name}</name>"), "<name>copy</name>")
        .replace(&format!("<uuid>{uuid}</uuid>"), &format!("<uuid>{copy}</uuid>"))
        .replace(&format!("\"name\":\"{name}\""), "\"name\":\"copy\"")
        .replace(&format!("\"uuid\":\"{uuid}\""), &format!("\"uuid\":\"{copy}\""));
    serde_json::from_str(&text).expect("a domain")
}
