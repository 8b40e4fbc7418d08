//! Taking a host down into a file, through its calls alone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::super::calls::{
    AddressSource, CallError, CallResult, Calls, Config, DomainRow, DomainStats, Volume, Which, code, state,
};
use super::config::DomainConfig;
use super::describe::{self, MARK_NAMESPACE};
use super::file::{RecordedAddresses, RecordedDomain, RecordedHost, RecordedInterface, RecordedPool, RecordedVolume};
use super::scalar::{Bytes, DomainState, FileMode, Version};
use super::xml::Element;

/// How long the agent may take to answer, in seconds.
const AGENT_SECONDS: i32 = 5;

/// Takes a host down: its versions, pool, volumes and domains, `bridge` and what it can run of
/// `domain_types`. `now` becomes the host's time.
///
/// A domain that goes away meanwhile is left out. Whether a domain has snapshots, and whether the
/// host starts it with itself, no call tells: the file says no.
///
/// # Errors
/// With the first call that fails for another reason than that something is not there.
pub fn record(calls: &mut dyn Calls, bridge: &str, domain_types: &[&str], now: Timestamp) -> CallResult<RecordedHost> {
    let mut types = Vec::new();
    let mut uefi = false;
    for kind in domain_types {
        match calls.domain_capabilities(kind) {
            Ok(xml) => {
                types.push((*kind).to_owned());
                uefi |= offers_uefi(&xml);
            }
            Err(error) if [code::INVALID_ARG, code::CONFIG_UNSUPPORTED].contains(&error.code) => {}
            Err(error) => return Err(error),
        }
    }
    let there = calls.interface_exists(bridge)?;
    Ok(RecordedHost {
        recorded_at: now,
        hostname: Some(calls.hostname()?),
        libvirt: Version { number: calls.libvirt_version()? },
        hypervisor: Version { number: calls.hypervisor_version()? },
        domain_types: types,
        uefi,
        interfaces: there.map(|there| if there { vec![bridge.to_owned()] } else { Vec::new() }),
        pool: pool(calls)?,
        domains: domains(calls)?,
        ..RecordedHost::default()
    })
}

fn offers_uefi(capabilities: &str) -> bool {
    let Ok(tree) = Element::parse(capabilities) else { return false };
    let enums = tree.child("os").into_iter().flat_map(Element::elements);
    enums
        .filter(|element| element.attribute("name") == Some("firmware"))
        .flat_map(Element::elements)
        .any(|value| value.text() == "efi")
}

fn pool(calls: &mut dyn Calls) -> CallResult<RecordedPool> {
    let info = match calls.pool() {
        Ok(info) => info,
        Err(error) if error.code == code::NO_STORAGE_POOL => {
            return Ok(RecordedPool { missing: true, ..RecordedPool::default() });
        }
        Err(error) => return Err(error),
    };
    let mut volumes = Vec::new();
    if info.active {
        for name in calls.volume_names()? {
            volumes.extend(calls.volume(&name)?.map(volume));
        }
    }
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(RecordedPool {
        uuid: Some(info.uuid),
        kind: info.kind,
        path: info.path,
        active: info.active,
        capacity: Bytes(info.capacity),
        available: Some(Bytes(info.available)),
        volumes,
        ..RecordedPool::default()
    })
}

fn volume(volume: Volume) -> RecordedVolume {
    RecordedVolume {
        name: volume.name,
        format: volume.format,
        capacity: Bytes(volume.capacity),
        allocation: Bytes(volume.allocation),
        physical: volume.physical.map(Bytes),
        modified: volume.modified,
        backing: volume.backing,
        mode: volume.mode.map(FileMode),
        unseen: false,
    }
}

fn domains(calls: &mut dyn Calls) -> CallResult<Vec<RecordedDomain>> {
    let stats = calls.domain_stats()?.into_iter().map(|stats| (stats.uuid, stats)).collect::<BTreeMap<_, _>>();
    let saved: BTreeSet<Uuid> = calls.list_domains(Which::Saved)?.into_iter().map(|row| row.uuid).collect();
    let mut found = Vec::new();
    for which in [Which::Persistent, Which::Transient] {
        for row in calls.list_domains(which)? {
            match domain(calls, &row, which == Which::Persistent, stats.get(&row.uuid)) {
                Err(error) if error.code == code::NO_DOMAIN => {}
                domain => found.push(RecordedDomain { managed_save: saved.contains(&row.uuid), ..domain? }),
            }
        }
    }
    found.sort_by(|a: &RecordedDomain, b| a.name.cmp(&b.name));
    Ok(found)
}

fn domain(
    calls: &mut dyn Calls,
    row: &DomainRow,
    persistent: bool,
    figures: Option<&DomainStats>,
) -> CallResult<RecordedDomain> {
    let (state, reason) = calls.domain_state(row.uuid)?;
    let active = state != state::SHUTOFF;
    let persistent =
        if persistent { Some(DomainConfig::parse(&calls.domain_xml(row.uuid, Config::Persistent)?)?) } else { None };
    let live = match calls.domain_xml(row.uuid, Config::Live) {
        Ok(xml) => Some(DomainConfig::parse(&xml)?),
        Err(error) if error.code == code::OPERATION_INVALID => None,
        Err(error) => return Err(error),
    };
    let both = || persistent.iter().chain(&live);
    let ours = both().any(|config| config.metadata.has(MARK_NAMESPACE));
    let mut recorded = RecordedDomain {
        name: row.name.clone(),
        uuid: Some(row.uuid),
        state: DomainState(state),
        reason: Some(reason),
        active: (live.is_some() != active).then_some(live.is_some()),
        persistent: persistent.is_some(),
        // A file that is thought to be there costs a flag; one that is not, a failed delete.
        nvram: ours && both().any(DomainConfig::uefi),
        addresses: if ours && live.is_some() { Some(addresses(calls, row)?) } else { None },
        ..RecordedDomain::default()
    };
    describe::record(&mut recorded, persistent.as_ref(), live.as_ref(), |path| {
        let disks = figures.map(|figures| figures.disks.as_slice()).unwrap_or_default();
        let found = disks.iter().find(|disk| disk.path.as_deref() == Some(path));
        found.map(|disk| (disk.capacity, disk.allocation)).unwrap_or_default()
    });
    Ok(recorded)
}

fn addresses(calls: &mut dyn Calls, row: &DomainRow) -> CallResult<RecordedAddresses> {
    let mut ask = |source| match calls.addresses(row.uuid, source, AGENT_SECONDS) {
        Ok(nics) => {
            let nics = nics.into_iter().map(|nic| RecordedInterface { mac: nic.mac, addresses: nic.addresses });
            Ok(Some(nics.collect::<Vec<_>>()))
        }
        // A source that fails is normal life; a host that is gone is not.
        Err(CallError { dead: false, ended: None, .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let agent = ask(AddressSource::Agent)?;
    let filled = |nics: &Vec<RecordedInterface>| !nics.is_empty();
    Ok(RecordedAddresses {
        agent,
        lease: ask(AddressSource::Lease)?.filter(filled),
        arp: ask(AddressSource::Arp)?.filter(filled),
    })
}
