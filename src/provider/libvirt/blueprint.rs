//! What a wanted machine is made from, by the config: pure, and the same for the digest in the plan
//! and for the machine itself.

use uuid::Uuid;

use super::config::{CpuMode, DomainType, Firmware, Host, LibvirtConfig};
use super::create::Blueprint;
use super::domain_xml::{self, DomainSpec};
use super::naming;
use super::seed::vendor;
use super::site::Site;
use crate::plan::{Make, Managed, Mark, MarkState, Proxy, Reason};
use crate::provider::error::{Class, ProviderError};

/// Makes the blueprint of a proxy's machine.
pub(super) fn blueprint(
    config: &LibvirtConfig,
    host: &Host,
    site: &Site,
    source: Option<&str>,
    proxy: &Proxy,
    managed: &Managed,
    make: &Make,
) -> Result<Blueprint, ProviderError> {
    let wrong = |text: String| {
        ProviderError::new(Class::Permanent, Reason::Unresolved, "resolve the manifest", proxy.key.to_string(), text)
    };
    let resolved = managed.resolved.as_ref().map_err(|problem| wrong(problem.clone()))?;
    let (_, image) = config.image(&managed.spec.image).map_err(wrong)?;
    let machine = managed.spec.machine_type.parse().ok().and_then(|key| config.machine_types.get(&key));
    let machine =
        machine.ok_or_else(|| wrong(format!("no machine type {} in the config", managed.spec.machine_type)))?;
    let vendor_data =
        vendor::compose(config.vendor_data.as_ref().map(|data| data.bytes.expose()), config.install_guest_agent)
            .map_err(|error| wrong(error.to_string()))?;
    let mark = Mark {
        fleet: site.fleet.to_string(),
        provider: site.place.entry.to_string(),
        host: site.place.host.to_string(),
        proxy: proxy.key.clone(),
        machine: String::new(),
        state: MarkState::Creating,
        spec: resolved.spec.clone(),
        catalogue: resolved.catalogue.clone(),
        addresses: managed
            .spec
            .network
            .iter()
            .flat_map(|network| &network.addresses)
            .map(ToString::to_string)
            .collect(),
        port: managed.port,
        labels: resolved.labels.clone(),
        protect: managed.protect,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        started_at: None,
        source: source.map(str::to_owned),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        uid: None,
    };
    let domain = DomainSpec {
        name: resolved.instance.clone(),
        uuid: Uuid::nil(),
        domain_type: match host.domain_type {
            DomainType::Kvm => domain_xml::DomainType::Kvm,
            DomainType::Qemu => domain_xml::DomainType::Qemu,
        },
        vcpus: machine.vcpus,
        memory_mib: machine.memory_mib,
        firmware: match image.firmware {
            Firmware::Uefi => domain_xml::Firmware::Uefi,
            Firmware::Bios => domain_xml::Firmware::Bios,
        },
        cpu: cpu(host),
        overlay: String::new(),
        seed: String::new(),
        bridge: host.bridge.clone(),
        mac: naming::mac_address(&resolved.instance),
        mark,
    };
    Ok(Blueprint {
        domain,
        make: make.clone(),
        user_data: managed.spec.user_data.clone(),
        vendor_data,
        network: managed.spec.network.clone(),
        hostname: proxy.key.name().to_owned(),
        autostart: config.autostart,
        running: Some(config.budgets.wait_running),
    })
}

fn cpu(host: &Host) -> domain_xml::Cpu {
    domain_xml::Cpu {
        mode: match host.cpu.mode {
            CpuMode::HostPassthrough => domain_xml::CpuMode::HostPassthrough,
            CpuMode::HostModel => domain_xml::CpuMode::HostModel,
            CpuMode::Maximum => domain_xml::CpuMode::Maximum,
            CpuMode::Custom => domain_xml::CpuMode::Custom(host.cpu.model.clone().unwrap_or_default()),
        },
        disable: host.cpu.disable.clone(),
    }
}
