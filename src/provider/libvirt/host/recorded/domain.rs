//! A domain and what its calls do to it: live and persistent apart, and no call lenient.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use sha2::{Digest, Sha256};

use super::super::calls::{
    AddressSource, CallResult, Config, DiskStats, NicAddresses, UndefineWith, code, part, state,
};
use super::config::DomainConfig;
use super::error;
use super::file::RecordedAddresses;
use super::pool::Pool;

/// Reasons of the state shut off.
pub(super) mod off {
    pub(in super::super) const SHUTDOWN: i32 = 1;
    pub(in super::super) const DESTROYED: i32 = 2;
    pub(in super::super) const FAILED: i32 = 6;
}

/// Reasons of the state running.
pub(super) mod on {
    pub(in super::super) const BOOTED: i32 = 1;
    pub(in super::super) const RESTORED: i32 = 3;
}

/// A domain. At least one of its configurations is there.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) state: i32,
    pub(super) reason: i32,
    pub(super) persistent: Option<DomainConfig>,
    /// There while the domain is active.
    pub(super) live: Option<DomainConfig>,
    pub(super) autostart: bool,
    pub(super) nvram: bool,
    pub(super) managed_save: bool,
    pub(super) snapshots: u32,
    pub(super) checkpoints: u32,
    pub(super) ignores_shutdown: bool,
    /// What the file says its address sources answer.
    pub(super) addresses: Option<RecordedAddresses>,
    /// What its agent answers where the file does not say; there while it is active.
    pub(super) assigned: Vec<NicAddresses>,
    /// Capacity and allocation of disks that are not in the pool.
    pub(super) figures: BTreeMap<String, (u64, u64)>,
}

/// What of a host a start depends on.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub(super) domain_types: &'a [String],
    pub(super) interfaces: Option<&'a [String]>,
    pub(super) uefi: bool,
    pub(super) pool: &'a Pool,
}

impl Domain {
    /// A domain that was just defined.
    pub(super) fn defined(config: DomainConfig) -> Self {
        Self {
            name: config.name.clone(),
            state: state::SHUTOFF,
            reason: 0,
            persistent: Some(config),
            live: None,
            autostart: false,
            nvram: false,
            managed_save: false,
            snapshots: 0,
            checkpoints: 0,
            ignores_shutdown: false,
            addresses: None,
            assigned: Vec::new(),
            figures: BTreeMap::new(),
        }
    }

    /// Whether it is active.
    pub(super) fn is_active(&self) -> bool {
        self.live.is_some()
    }

    /// The configuration in force: the live one while active.
    pub(super) fn current(&self) -> Option<&DomainConfig> {
        self.live.as_ref().or(self.persistent.as_ref())
    }

    fn active(&self, domain: i32) -> CallResult<()> {
        if self.is_active() { Ok(()) } else { Err(error::invalid(domain, "domain is not running")) }
    }

    fn running(&self) -> CallResult<()> {
        let runs = self.is_active() && [state::RUNNING, state::BLOCKED].contains(&self.state);
        if runs { Ok(()) } else { Err(error::invalid(part::QEMU, "domain is not running")) }
    }

    fn persists(&self) -> CallResult<()> {
        if self.persistent.is_some() {
            return Ok(());
        }
        Err(error::invalid(part::DOMAIN, "transient domains do not have any persistent config"))
    }

    fn config_mut(&mut self, config: Config) -> CallResult<&mut DomainConfig> {
        match config {
            Config::Live => self.active(part::DOMAIN)?,
            Config::Persistent => self.persists()?,
        }
        let found = match config {
            Config::Live => self.live.as_mut(),
            Config::Persistent => self.persistent.as_mut(),
        };
        found.ok_or_else(|| error::internal(part::DOMAIN, "the domain has no configuration"))
    }

    /// The metadata element of a namespace.
    pub(super) fn metadata(&mut self, config: Config, uri: &str) -> CallResult<String> {
        self.config_mut(config)?.metadata.get(uri)
    }

    /// Writes an element into all the named configurations, or into none.
    pub(super) fn set_metadata(&mut self, configs: &[Config], uri: &str, prefix: &str, xml: &str) -> CallResult<()> {
        let mut changed = self.clone();
        for config in configs {
            changed.config_mut(*config)?.metadata.set(uri, prefix, xml)?;
        }
        *self = changed;
        Ok(())
    }

    /// The XML of a configuration. A transient domain gives its live one for the other, as measured.
    pub(super) fn xml(&self, config: Config) -> CallResult<String> {
        let found = match (config, &self.persistent) {
            (Config::Persistent, Some(persistent)) => Some(persistent.to_xml()),
            (Config::Live, _) | (Config::Persistent, None) => {
                self.live.as_ref().map(|live| live.to_live_xml(self.agent_is_there()))
            }
        };
        found.ok_or_else(|| error::invalid(part::DOMAIN, "domain is not running"))
    }

    /// Whether the agent in the guest has opened its channel.
    fn agent_is_there(&self) -> bool {
        match &self.addresses {
            Some(recorded) => recorded.agent.is_some(),
            None => !self.assigned.is_empty(),
        }
    }

    /// Starts it. What is missing on the host is found out here and not before.
    pub(super) fn start(&mut self, ground: &Ground<'_>) -> CallResult<()> {
        if self.is_active() {
            return Err(error::invalid(part::QEMU, "domain is already running"));
        }
        let Some(config) = self.persistent.clone() else {
            return Err(error::invalid(part::QEMU, "domain is not running"));
        };
        if let Err(refusal) = ground.carries(&config) {
            (self.state, self.reason) = (state::SHUTOFF, off::FAILED);
            return Err(refusal);
        }
        self.reason = if self.managed_save { on::RESTORED } else { on::BOOTED };
        self.state = state::RUNNING;
        self.managed_save = false;
        self.nvram |= config.uefi();
        self.figures.retain(|path, _| ground.pool.name_of(path).is_none());
        self.live = Some(config);
        Ok(())
    }

    /// Asks the guest to power off. The answer comes at once; whether the guest obeys is its own
    /// affair. True when the domain is gone with that.
    pub(super) fn shutdown(&mut self) -> CallResult<bool> {
        self.running()?;
        if self.ignores_shutdown {
            return Ok(false);
        }
        Ok(self.stop(off::SHUTDOWN))
    }

    /// Ends it. True when the domain is gone with that.
    pub(super) fn destroy(&mut self) -> CallResult<bool> {
        self.active(part::DOMAIN)?;
        Ok(self.stop(off::DESTROYED))
    }

    /// The live configuration ends here, and whatever was written to it alone.
    fn stop(&mut self, reason: i32) -> bool {
        self.live = None;
        self.assigned = Vec::new();
        (self.state, self.reason) = (state::SHUTOFF, reason);
        self.persistent.is_none()
    }

    /// Removes the persistent configuration. True when the domain is gone with that.
    pub(super) fn undefine(&mut self, with: UndefineWith, libvirt: u64) -> CallResult<bool> {
        if with.tpm && libvirt < TPM_SINCE {
            let what = "unsupported flags (0x20) in function qemuDomainUndefineFlags";
            return Err(error::other(code::INVALID_ARG, part::QEMU, what));
        }
        let refused = |what: String| Err(error::invalid(part::QEMU, what));
        if self.persistent.is_none() {
            return refused("cannot undefine transient domain".to_owned());
        }
        if !self.is_active() {
            for (count, allowed, what) in
                [(self.snapshots, with.snapshots, "snapshots"), (self.checkpoints, with.checkpoints, "checkpoints")]
            {
                if count > 0 && !allowed {
                    return refused(format!("cannot delete inactive domain with {count} {what}"));
                }
            }
        }
        if self.managed_save && !with.managed_save {
            return refused("Refusing to undefine while domain managed save image exists".to_owned());
        }
        if self.nvram && !with.nvram {
            return refused("cannot undefine domain with nvram".to_owned());
        }
        self.persistent = None;
        self.nvram = false;
        self.managed_save = false;
        self.autostart = false;
        Ok(!self.is_active())
    }

    /// Whether the host starts it with itself.
    pub(super) fn set_autostart(&mut self, on: bool) -> CallResult<()> {
        if self.persistent.is_none() {
            return Err(error::invalid(part::QEMU, "cannot set autostart for transient domain"));
        }
        self.autostart = on;
        Ok(())
    }

    /// Figures of its disks. An inactive domain's disk that is named by pool and volume has no path.
    ///
    /// Of a running domain, libvirt tells how far its guest has written since the start, not what the
    /// file takes (measured on 9.0: 0 after a start): that is known only where it was recorded.
    pub(super) fn disk_stats(&self, pool: &Pool) -> Vec<DiskStats> {
        let disks = self.current().map(DomainConfig::disks).unwrap_or_default();
        let figures = |path: &str| {
            let recorded = self.figures.get(path).copied().unwrap_or_default();
            match pool.file_at(path) {
                Some(file) if self.is_active() => (file.capacity(), recorded.1),
                Some(file) => (file.capacity(), file.allocation),
                None => recorded,
            }
        };
        disks
            .into_iter()
            .map(|disk| {
                let translated = disk.volume.filter(|(named, _)| self.is_active() && named == pool.name());
                let path = disk.path.or_else(|| translated.map(|(_, volume)| pool.path_of(&volume)));
                let (capacity, allocation) = path.as_deref().map(figures).unwrap_or_default();
                DiskStats { path, capacity, allocation }
            })
            .collect()
    }

    /// Gives each of its interfaces an address of `range` that is not `taken`.
    pub(super) fn assign(&mut self, range: Ipv4Net, taken: &BTreeSet<IpAddr>) {
        let macs = self.live.iter().flat_map(DomainConfig::nics).map(|nic| nic.mac);
        self.assigned = derived(macs, range, taken);
    }

    /// Its addresses from one source.
    pub(super) fn addresses(&self, source: AddressSource) -> CallResult<Vec<NicAddresses>> {
        self.active(part::DOMAIN)?;
        if source == AddressSource::Agent {
            self.running()?;
            if !self.current().is_some_and(DomainConfig::agent_channel) {
                let what = "argument unsupported: QEMU guest agent is not configured";
                return Err(error::other(code::ARGUMENT_UNSUPPORTED, part::QEMU, what));
            }
        }
        let answer = match (&self.addresses, source) {
            (Some(recorded), AddressSource::Agent) => recorded.agent.as_ref(),
            (Some(recorded), AddressSource::Lease) => recorded.lease.as_ref(),
            (Some(recorded), AddressSource::Arp) => recorded.arp.as_ref(),
            (None, AddressSource::Agent) => return Ok(self.assigned.clone()),
            (None, _) => None,
        };
        match answer {
            Some(nics) => Ok(nics
                .iter()
                .map(|nic| NicAddresses { mac: nic.mac.clone(), addresses: nic.addresses.clone() })
                .collect()),
            None if source == AddressSource::Agent => {
                let what = "Guest agent is not responding: QEMU guest agent is not connected";
                Err(error::other(code::AGENT_UNRESPONSIVE, part::QEMU, what))
            }
            None => Ok(Vec::new()),
        }
    }
}

/// The first libvirt that knows a flag for TPM state.
const TPM_SINCE: u64 = 8_009_000;

impl Ground<'_> {
    /// Whether the host can run that kind of domain at all.
    pub(super) fn runs(&self, config: &DomainConfig) -> CallResult<()> {
        let known = self.domain_types.iter().any(|kind| kind == config.domain_type());
        if known { Ok(()) } else { Err(config.refuse_type()) }
    }

    fn carries(&self, config: &DomainConfig) -> CallResult<()> {
        self.runs(config)?;
        if config.uefi() && !self.uefi {
            return Err(no_firmware());
        }
        for disk in config.disks() {
            if let Some(path) = &disk.path {
                self.has_chain(path)?;
            }
        }
        let bridges = config.nics().into_iter().filter_map(|nic| nic.bridge);
        let known = |bridge: &String| self.interfaces.is_none_or(|known| known.contains(bridge));
        match bridges.into_iter().find(|bridge| !known(bridge)) {
            Some(bridge) => {
                Err(error::system(part::NONE, format!("Cannot get interface MTU on '{bridge}': No such device")))
            }
            None => Ok(()),
        }
    }

    /// Whether a disk's file is there, and every file that it is an overlay of.
    fn has_chain(&self, path: &str) -> CallResult<()> {
        if !self.pool.exists(path) {
            let what = format!("Cannot access storage file '{path}': No such file or directory");
            return Err(error::system(part::STORAGE, what));
        }
        let mut above = path.to_owned();
        let mut seen = BTreeSet::new();
        while let Some(below) = self.pool.file_at(&above).and_then(|file| file.probed.backing.clone()) {
            if !self.pool.exists(&below) {
                let what = format!(
                    "Cannot access backing file '{below}' of storage file '{above}': No such file or directory"
                );
                return Err(error::system(part::STORAGE, what));
            }
            if !seen.insert(below.clone()) {
                let what = format!("backing store for {path} is self-referential");
                return Err(error::internal(part::STORAGE, what));
            }
            above = below;
        }
        Ok(())
    }
}

/// 9: no firmware of the kind that is asked for.
pub(super) fn no_firmware() -> super::super::calls::CallError {
    let what = "operation failed: Unable to find any firmware to satisfy 'efi'";
    error::other(code::OPERATION_FAILED, part::QEMU, what)
}

/// One address a MAC, the same for the same MAC unless another machine has it. First and last of the
/// range are not given out, nor the one after the first, which is the router's.
fn derived(macs: impl Iterator<Item = String>, range: Ipv4Net, taken: &BTreeSet<IpAddr>) -> Vec<NicAddresses> {
    let size = u32::MAX.checked_shr(u32::from(range.prefix_len())).unwrap_or(0).saturating_sub(2);
    let mut taken = taken.clone();
    let first = u32::from(range.network()).saturating_add(2);
    macs.map(|mac| {
        let digest = Sha256::digest(&mac);
        let drawn = digest.iter().take(4).fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
        let candidates = (0..size).map(|step| {
            let offset = (u64::from(drawn) + u64::from(step)) % u64::from(size);
            IpAddr::V4(Ipv4Addr::from(first.saturating_add(u32::try_from(offset).unwrap_or(0))))
        });
        let mut free = candidates.filter(|address| !taken.contains(address));
        let addresses: Vec<IpAddr> = free.next().into_iter().collect();
        drop(free);
        taken.extend(&addresses);
        NicAddresses { mac, addresses }
    })
    .collect()
}
