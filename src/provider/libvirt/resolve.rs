//! What a manifest's machine comes to under the config, without asking any host.
//!
//! Two fingerprints come of it. `spec` covers what the manifest says of the machine, `catalogue`
//! what the config resolves that to. Their tables are versioned: a mark is compared by the version
//! that wrote it, so a table never changes; a new one gets a new number.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::config::outline::unknown;
use super::config::{Cpu, GIB, Image, LibvirtConfig};
use super::naming::instance_name;
use crate::plan::{Fingerprint, HostRef, ImageNeed, Label, MachineSpec, Network, ProxyKey, Resolved};

/// Version of the table of fields that `spec` covers.
pub const SPEC_VERSION: u32 = 1;

/// Version of the table of fields that `catalogue` covers.
pub const CATALOGUE_VERSION: u32 = 1;

/// A field of a manifest that the config cannot resolve, and why, in one sentence for people. The
/// field is named as below `spec`: `placement.image`.
pub type Unresolved = (&'static str, String);

/// Resolves the machine of `key` at `place`.
///
/// # Errors
/// Every field that the config cannot resolve.
pub fn resolve(
    config: &LibvirtConfig,
    fleet: &Label,
    place: &HostRef,
    key: &ProxyKey,
    spec: &MachineSpec,
    labels: &BTreeMap<String, String>,
) -> Result<Resolved, Vec<Unresolved>> {
    let mut problems = Vec::new();
    let host = config.hosts.get(&place.host);
    if host.is_none() || place.entry != config.entry {
        problems.push(("placement.zone", unknown("zone", place.host.as_str(), config.hosts.keys())));
    }
    let size = spec.machine_type.parse::<Label>().ok().and_then(|key| config.machine_types.get(&key));
    if size.is_none() {
        let message = unknown("machine type", &spec.machine_type, config.machine_types.keys());
        problems.push(("placement.machineType", message));
    }
    let image = config.image(&spec.image);
    if let Err(message) = &image {
        problems.push(("placement.image", message.clone()));
    }
    let (Some(host), Some(size), Ok((image_key, image)), true) = (host, size, image, problems.is_empty()) else {
        return Err(problems);
    };

    let (vcpus, memory) = (size.vcpus.to_string(), size.memory_mib.to_string());
    let disk = config.disk_bytes.to_string();
    let (id, cpu) = (image.id(), normal_cpu(&host.cpu));
    let mut catalogue: Vec<(&str, &[u8])> = vec![
        ("image", id.as_bytes()),
        ("firmware", image.firmware.as_str().as_bytes()),
        ("vcpus", vcpus.as_bytes()),
        ("memory", memory.as_bytes()),
        ("disk", disk.as_bytes()),
        ("bridge", host.bridge.as_bytes()),
        ("cpu", cpu.as_bytes()),
        ("domain-type", host.domain_type.as_str().as_bytes()),
    ];
    if let Some(vendor) = &config.vendor_data {
        catalogue.push(("vendor-data", vendor.bytes.expose()));
    }
    let plural = if size.vcpus == 1 { "" } else { "s" };
    Ok(Resolved {
        instance: instance_name(fleet, place, key),
        spec: spec_fingerprint(spec, &image_key),
        catalogue: Fingerprint::of(CATALOGUE_VERSION, catalogue),
        image: ImageNeed { key: image_key.clone(), id: id.clone() },
        disk_bytes: config.disk_bytes,
        reserve_bytes: config.disk_overcommit.reserve(config.disk_bytes),
        labels: labels_digest(labels),
        summary: format!(
            "{} ({} vCPU{plural}, {} MiB), {image_key}, {} GiB disk",
            spec.machine_type,
            size.vcpus,
            size.memory_mib,
            config.disk_bytes / GIB
        ),
    })
}

fn spec_fingerprint(spec: &MachineSpec, image_key: &str) -> Fingerprint {
    let network = spec.network.as_ref().map(normal_network);
    let mut parts: Vec<(&str, &[u8])> =
        vec![("image", image_key.as_bytes()), ("machine-type", spec.machine_type.as_bytes())];
    if let Some(network) = &network {
        parts.push(("network", network.as_bytes()));
    }
    if let Some(data) = &spec.user_data {
        parts.push(("user-data", data.expose()));
    }
    Fingerprint::of(SPEC_VERSION, parts)
}

/// A network in one spelling, one value a line; no value can hold a line break. The order of
/// addresses and name servers means something and is kept.
fn normal_network(network: &Network) -> String {
    let addresses = network.addresses.iter().map(|address| format!("address {address}\n"));
    let gateway = network.gateway.iter().map(|gateway| format!("gateway {gateway}\n"));
    let nameservers = network.nameservers.iter().map(|server| format!("nameserver {server}\n"));
    addresses.chain(gateway).chain(nameservers).collect()
}

fn normal_cpu(cpu: &Cpu) -> String {
    let model = cpu.model.iter().map(|model| format!("model {model}\n"));
    let disable = cpu.disable.iter().map(|feature| format!("disable {feature}\n"));
    std::iter::once(format!("mode {}\n", cpu.mode.as_str())).chain(model).chain(disable).collect()
}

/// 16 hex digits over all labels, each key and value with its length.
fn labels_digest(labels: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for text in labels.iter().flat_map(|(key, value)| [key, value]) {
        hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(text);
    }
    hex::encode(hash.finalize()).chars().take(16).collect()
}

/// The image of `need` among those of the config, for a provider that is to fetch it; an image by
/// URL is found through the manifest that names it.
#[must_use]
pub fn image_of<'a>(
    config: &LibvirtConfig,
    need: &ImageNeed,
    named: impl IntoIterator<Item = &'a str>,
) -> Option<Image> {
    let configured = need.key.parse::<Label>().ok().and_then(|key| config.images.get(&key).cloned());
    let by_url = || named.into_iter().find_map(|text| config.image(text).ok().filter(|(key, _)| *key == need.key));
    configured.or_else(|| by_url().map(|(_, image)| image)).filter(|image| image.id() == need.id)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
