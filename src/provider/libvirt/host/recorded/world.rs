//! The world of a recorded host: everything that its calls read and change, in memory.
//!
//! It draws nothing at random and reads no clock: the same calls in the same order come to the same
//! end. Its time is that of the recording, plus one second for each call that changes something.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::super::calls::{
    AddressSource, CallError, CallResult, Config, DomainRow, DomainStats, NicAddresses, UndefineWith, Which, code,
    part, state,
};
use super::config::{DomainConfig, derived_uuid};
use super::describe;
use super::domain::{Domain, Ground, no_firmware};
use super::error;
use super::fault::{Called, Effect, Faults, Rule};
use super::file::{RecordedAddresses, RecordedDomain, RecordedHost, RecordedInterface};
use super::pool::Pool;
use super::scalar::DomainState;
use super::xml::Element;

/// How far the host's clock advances with each call that changes something.
const TICK: SignedDuration = SignedDuration::from_secs(1);

/// The first libvirt that chooses firmware when a domain is defined; older ones do at start.
const FIRMWARE_AT_DEFINE: u64 = 9_002_000;

/// A recorded host as it is now.
#[derive(Debug, Clone)]
pub struct World {
    /// Facts of the host; its pool and domains are not kept here.
    facts: RecordedHost,
    now: Timestamp,
    pub(super) pool: Pool,
    domains: BTreeMap<Uuid, Domain>,
    faults: Faults,
}

impl World {
    /// The host as it was recorded.
    #[must_use]
    pub fn new(mut facts: RecordedHost) -> Self {
        let domains = std::mem::take(&mut facts.domains);
        let pool = std::mem::take(&mut facts.pool);
        let now = facts.recorded_at;
        let pool = Pool::new(pool, now, facts.hostname.as_deref().unwrap_or_default());
        let mut world = Self { facts, now, pool, domains: BTreeMap::new(), faults: Faults::default() };
        for domain in domains {
            world.put(&domain);
        }
        let machines = world.domains.keys().copied().collect::<Vec<_>>();
        for uuid in machines {
            world.give_addresses(uuid);
        }
        world
    }

    fn put(&mut self, recorded: &RecordedDomain) {
        let given = recorded.uuid.or_else(|| recorded.xml.as_ref().map(|xml| xml.0.uuid));
        let uuid = given.unwrap_or_else(|| derived_uuid(&["domain", &recorded.name]));
        let state = recorded.state.0;
        let active = recorded.active.unwrap_or(state != state::SHUTOFF);
        let configs = describe::configs(recorded, uuid, active);
        for disk in configs.persistent.iter().chain(&configs.live).flat_map(DomainConfig::disks) {
            for path in disk.path.iter().chain(&disk.chain) {
                // Nothing can be said of what is not in the pool, or of a pool that showed nothing.
                if self.pool.name_of(path).is_none() || !self.pool.is_active() {
                    self.pool.add_elsewhere(path);
                }
            }
        }
        let figures = recorded.disks.iter().filter_map(|disk| {
            let path = disk.path.clone()?;
            Some((path, (disk.capacity.0, disk.allocation.0)))
        });
        let domain = Domain {
            name: recorded.name.clone(),
            state,
            reason: recorded.reason.unwrap_or(i32::from(state == state::RUNNING)),
            persistent: configs.persistent,
            live: configs.live,
            autostart: recorded.autostart,
            nvram: recorded.nvram,
            managed_save: recorded.managed_save,
            snapshots: recorded.snapshots,
            checkpoints: recorded.checkpoints,
            ignores_shutdown: recorded.ignores_shutdown,
            addresses: recorded.addresses.clone(),
            assigned: Vec::new(),
            figures: figures.collect(),
        };
        // A domain that is neither persistent nor active is none.
        if domain.current().is_some() {
            self.domains.insert(uuid, domain);
        }
    }

    /// The host as a file has it, sorted and without secrets.
    #[must_use]
    pub fn to_file(&self) -> RecordedHost {
        let mut domains: Vec<_> = self.domains.iter().map(|(uuid, domain)| self.recorded(*uuid, domain)).collect();
        domains.sort_by(|a, b| a.name.cmp(&b.name));
        RecordedHost { recorded_at: self.now, pool: self.pool.to_file(), domains, ..self.facts.clone() }
    }

    fn recorded(&self, uuid: Uuid, domain: &Domain) -> RecordedDomain {
        let told = (domain.state != state::SHUTOFF) == domain.is_active();
        let assigned = domain
            .assigned
            .iter()
            .map(|nic| RecordedInterface { mac: nic.mac.clone(), addresses: nic.addresses.clone() });
        let assigned = assigned.collect::<Vec<_>>();
        let agent = || RecordedAddresses { agent: Some(assigned.clone()), ..RecordedAddresses::default() };
        let mut recorded = RecordedDomain {
            name: domain.name.clone(),
            uuid: Some(uuid),
            state: DomainState(domain.state),
            reason: Some(domain.reason),
            active: (!told).then_some(domain.is_active()),
            persistent: domain.persistent.is_some(),
            autostart: domain.autostart,
            nvram: domain.nvram,
            managed_save: domain.managed_save,
            snapshots: domain.snapshots,
            checkpoints: domain.checkpoints,
            ignores_shutdown: domain.ignores_shutdown,
            addresses: domain.addresses.clone().or_else(|| (!assigned.is_empty()).then(agent)),
            ..RecordedDomain::default()
        };
        let figures = domain.disk_stats(&self.pool);
        describe::record(&mut recorded, domain.persistent.as_ref(), domain.live.as_ref(), |path| {
            let found = figures.iter().find(|disk| disk.path.as_deref() == Some(path));
            found.map(|disk| (disk.capacity, disk.allocation)).unwrap_or_default()
        });
        recorded
    }

    /// Changes the host as somebody else would, past this program: `change` gets it as a file has it.
    /// Rules and the log of calls stay.
    pub fn edit(&mut self, change: impl FnOnce(&mut RecordedHost)) {
        let mut file = self.to_file();
        change(&mut file);
        let faults = std::mem::take(&mut self.faults);
        let contents = std::mem::take(&mut self.pool.files).into_iter().map(|(name, file)| (name, file.content));
        let contents = contents.collect::<BTreeMap<_, _>>();
        *self = Self::new(file);
        self.faults = faults;
        for (name, content) in contents {
            if let Some(file) = self.pool.files.get_mut(&name) {
                file.content = content;
            }
        }
    }

    /// The file of a volume goes, and libvirt does not know.
    pub fn lose_file(&mut self, name: &str) {
        if let Some(file) = self.pool.files.remove(name) {
            self.pool.free = self.pool.free.saturating_add(file.allocation);
        }
    }

    /// Sets a fault.
    pub fn fail(&mut self, rule: Rule) {
        self.faults.add(rule);
    }

    /// Lifts all faults.
    pub fn heal(&mut self) {
        self.faults.clear();
    }

    /// All calls that were made on any connection, in order.
    #[must_use]
    pub fn calls(&self) -> &[Called] {
        self.faults.log()
    }

    /// How many connections were asked for, refused ones included.
    #[must_use]
    pub fn opens(&self) -> u64 {
        self.faults.opens()
    }

    /// Notes that a connection is asked for and tells what befalls that.
    pub(super) fn note_open(&mut self) -> Vec<Effect> {
        self.faults.note_open()
    }

    /// The first bytes that were uploaded into a volume's file, at most 4 MiB of them; nothing is
    /// known of files that were there before.
    #[must_use]
    pub fn content(&self, volume: &str) -> Option<&[u8]> {
        self.pool.files.get(volume).map(|file| file.content.as_slice())
    }

    /// The host's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves the host's clock.
    pub fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.saturating_add(time).unwrap_or(self.now);
    }

    /// Facts of the host.
    pub(super) fn facts(&self) -> &RecordedHost {
        &self.facts
    }

    /// Notes a call and tells what befalls it.
    pub(super) fn note(&mut self, called: Called) -> Vec<Effect> {
        if called.changes {
            self.pass(TICK);
        }
        self.faults.note(called)
    }

    /// A domain's name, for the log; its UUID when there is none.
    pub(super) fn name_of(&self, uuid: Uuid) -> String {
        self.domains.get(&uuid).map_or_else(|| uuid.to_string(), |domain| domain.name.clone())
    }

    fn domain(&mut self, uuid: Uuid) -> CallResult<&mut Domain> {
        self.domains.get_mut(&uuid).ok_or_else(|| no_domain(uuid))
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            domain_types: &self.facts.domain_types,
            interfaces: self.facts.interfaces.as_deref(),
            uefi: self.facts.uefi,
            pool: &self.pool,
        }
    }

    fn give_addresses(&mut self, uuid: Uuid) {
        let others = self.domains.iter().filter(|(other, _)| **other != uuid);
        let taken: BTreeSet<IpAddr> =
            others.flat_map(|(_, domain)| &domain.assigned).flat_map(|nic| nic.addresses.iter().copied()).collect();
        let range = self.facts.guest_range;
        if let Some(domain) = self.domains.get_mut(&uuid).filter(|domain| domain.addresses.is_none())
            && domain.live.as_ref().is_some_and(DomainConfig::agent_channel)
        {
            domain.assign(range, &taken);
        }
    }

    /// What the host can run, as XML.
    pub(super) fn domain_capabilities(&self, domain_type: &str) -> CallResult<String> {
        if !self.facts.domain_types.iter().any(|kind| kind == domain_type) {
            let what = format!(
                "invalid argument: Emulator '/usr/bin/qemu-system-x86_64' does not support virt type '{domain_type}'"
            );
            return Err(error::other(code::INVALID_ARG, part::QEMU, what));
        }
        let mut firmware = Element::new("enum", &[("name", "firmware")]);
        if self.facts.uefi {
            firmware = firmware.with(Element::with_text("value", "efi"));
        }
        let mode = |name: &str, supported: bool| {
            Element::new("mode", &[("name", name), ("supported", if supported { "yes" } else { "no" })])
        };
        let cpu = Element::new("cpu", &[])
            .with(mode("host-passthrough", domain_type == "kvm"))
            .with(mode("maximum", true))
            .with(mode("host-model", true));
        let tree = Element::new("domainCapabilities", &[])
            .with(Element::with_text("path", "/usr/bin/qemu-system-x86_64"))
            .with(Element::with_text("domain", domain_type))
            .with(Element::with_text("machine", "pc-q35-7.2"))
            .with(Element::with_text("arch", "x86_64"))
            .with(Element::new("vcpu", &[("max", "288")]))
            .with(Element::new("os", &[("supported", "yes")]).with(firmware))
            .with(cpu);
        Ok(tree.write())
    }

    /// The domains of a kind, in the order of their UUIDs.
    pub(super) fn list(&self, which: Which) -> Vec<DomainRow> {
        let wanted = |domain: &Domain| match which {
            Which::Persistent => domain.persistent.is_some(),
            Which::Transient => domain.persistent.is_none(),
            Which::Saved => domain.managed_save,
        };
        self.domains.iter().filter(|(_, domain)| wanted(domain)).map(|(uuid, domain)| row(*uuid, domain)).collect()
    }

    /// Bulk figures.
    pub(super) fn stats(&self) -> Vec<DomainStats> {
        let of = |(uuid, domain): (&Uuid, &Domain)| DomainStats {
            uuid: *uuid,
            state: domain.state,
            reason: domain.reason,
            disks: domain.disk_stats(&self.pool),
        };
        self.domains.iter().map(of).collect()
    }

    /// A domain by name.
    pub(super) fn find(&self, name: &str) -> Option<DomainRow> {
        self.domains.iter().find(|(_, domain)| domain.name == name).map(|(uuid, domain)| row(*uuid, domain))
    }

    /// Whether there is a domain of that UUID.
    pub(super) fn exists(&self, uuid: Uuid) -> bool {
        self.domains.contains_key(&uuid)
    }

    /// The metadata element of a namespace.
    pub(super) fn metadata(&mut self, uuid: Uuid, config: Config, uri: &str) -> CallResult<String> {
        self.domain(uuid)?.metadata(config, uri)
    }

    /// Writes an element of metadata.
    pub(super) fn set_metadata(
        &mut self,
        uuid: Uuid,
        configs: &[Config],
        uri: &str,
        prefix: &str,
        xml: &str,
    ) -> CallResult<()> {
        self.domain(uuid)?.set_metadata(configs, uri, prefix, xml)
    }

    /// A domain's XML.
    pub(super) fn xml(&mut self, uuid: Uuid, config: Config) -> CallResult<String> {
        self.domain(uuid)?.xml(config)
    }

    /// State and reason.
    pub(super) fn state(&mut self, uuid: Uuid) -> CallResult<(i32, i32)> {
        let domain = self.domain(uuid)?;
        Ok((domain.state, domain.reason))
    }

    /// Makes a domain, or replaces the persistent configuration of the one with that name and UUID,
    /// whoever made it and whether it runs or not.
    pub(super) fn define(&mut self, xml: &str) -> CallResult<DomainRow> {
        let config = DomainConfig::parse(xml)?;
        self.ground().runs(&config)?;
        if self.facts.libvirt.number >= FIRMWARE_AT_DEFINE && config.uefi() && !self.facts.uefi {
            return Err(no_firmware());
        }
        let (name, uuid) = (config.name.clone(), config.uuid);
        if let Some(other) = self.find(&name).filter(|other| other.uuid != uuid) {
            return Err(taken(&format!("domain '{name}' already exists with uuid {}", other.uuid)));
        }
        if let Some(other) = self.domains.get(&uuid).filter(|other| other.name != name) {
            return Err(taken(&format!("domain '{}' is already defined with uuid {uuid}", other.name)));
        }
        let domain = self.domains.entry(uuid).or_insert_with(|| Domain::defined(config.clone()));
        domain.persistent = Some(config);
        Ok(row(uuid, domain))
    }

    /// Starts a domain.
    pub(super) fn start(&mut self, uuid: Uuid) -> CallResult<()> {
        // Taken out meanwhile: what a start looks at is the rest of the host.
        let Some(mut domain) = self.domains.remove(&uuid) else { return Err(no_domain(uuid)) };
        let started = domain.start(&self.ground());
        self.domains.insert(uuid, domain);
        if started.is_ok() {
            self.give_addresses(uuid);
        }
        started
    }

    /// Asks a guest to power off.
    pub(super) fn shutdown(&mut self, uuid: Uuid) -> CallResult<()> {
        let gone = self.domain(uuid)?.shutdown()?;
        self.drop_if(gone, uuid);
        Ok(())
    }

    /// Ends a domain.
    pub(super) fn destroy(&mut self, uuid: Uuid) -> CallResult<()> {
        let gone = self.domain(uuid)?.destroy()?;
        self.drop_if(gone, uuid);
        Ok(())
    }

    /// Removes a domain's persistent configuration.
    pub(super) fn undefine(&mut self, uuid: Uuid, with: UndefineWith) -> CallResult<()> {
        let libvirt = self.facts.libvirt.number;
        let gone = self.domain(uuid)?.undefine(with, libvirt)?;
        self.drop_if(gone, uuid);
        Ok(())
    }

    fn drop_if(&mut self, gone: bool, uuid: Uuid) {
        if gone {
            self.domains.remove(&uuid);
        }
    }

    /// Sets whether the host starts a domain with itself.
    pub(super) fn set_autostart(&mut self, uuid: Uuid, on: bool) -> CallResult<()> {
        self.domain(uuid)?.set_autostart(on)
    }

    /// A domain's addresses.
    pub(super) fn addresses(&mut self, uuid: Uuid, source: AddressSource) -> CallResult<Vec<NicAddresses>> {
        self.domain(uuid)?.addresses(source)
    }
}

fn row(uuid: Uuid, domain: &Domain) -> DomainRow {
    DomainRow { uuid, name: domain.name.clone(), active: domain.is_active() }
}

/// 42: no domain of that UUID.
fn no_domain(uuid: Uuid) -> CallError {
    error::other(code::NO_DOMAIN, part::QEMU, format!("Domain not found: no domain with matching uuid '{uuid}'"))
}

/// 9: name or UUID belong to another domain.
fn taken(what: &str) -> CallError {
    error::other(code::OPERATION_FAILED, part::DOMAIN, format!("operation failed: {what}"))
}
