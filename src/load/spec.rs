//! `spec` of a manifest: checked against the rules of manifests and the names of the config.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use super::config::Entry;
use super::manifest::{RawEndpoint, RawMode, RawPlacement, RawSpec};
use super::network;
use super::user_data::{self, Reach, Secrets};
use crate::plan::{Label, MachineSpec};
use crate::provider::document::check::{REQUIRED, known, required, within};
use crate::provider::document::{Findings, Located, Location};
use crate::provider::libvirt::config::Outline;
use crate::provider::libvirt::config::outline::unknown;

/// What a spec came to.
pub(super) enum Checked {
    External { host: String, port: u16 },
    Managed(Box<Machine>),
}

/// A machine that is wanted, but for where it goes.
pub(super) struct Machine {
    pub entry: Label,
    /// `placement.zone`, as far as it is given and there.
    pub zone: Option<Label>,
    /// Where a problem of the zone is shown.
    pub zone_at: Location,
    pub port: u16,
    pub protect: bool,
    pub spec: MachineSpec,
    pub addresses: Vec<(IpAddr, Location)>,
    /// Where the field is that a provider may fail to resolve.
    pub fields: BTreeMap<&'static str, Location>,
}

/// What specs are checked against.
pub(super) struct Context<'a> {
    /// The config's entries; none when there is no config to check against.
    pub entries: Option<&'a BTreeMap<Label, Entry>>,
    /// Where Secrets are.
    pub secrets: Secrets<'a>,
}

/// What was met on the way, whether the spec is sound or not.
#[derive(Default)]
pub(super) struct Met {
    /// Files of user-data, links resolved.
    pub files: Vec<PathBuf>,
    /// How many manifests give a region.
    pub regions: usize,
}

/// Checks a spec. A problem of it is found once, however many members a set has.
pub(super) fn check(
    raw: &Located<RawSpec>,
    namespace: &str,
    context: &Context<'_>,
    reach: &Reach<'_>,
    met: &mut Met,
    findings: &mut Findings,
) -> Option<Checked> {
    let spec = raw.get()?;
    let mode = match &spec.mode {
        Some(field) => field.value?,
        None => RawMode::Managed,
    };
    match mode {
        RawMode::External => external(spec, &raw.at, findings),
        RawMode::Managed => managed(spec, &raw.at, namespace, context, reach, met, findings),
    }
}

fn external(spec: &RawSpec, at: &Location, findings: &mut Findings) -> Option<Checked> {
    let of_managed = [
        spec.provider.as_ref().map(|field| &field.at),
        spec.port.as_ref().map(|field| &field.at),
        spec.placement.as_ref().map(|field| &field.at),
        spec.cloud_init.as_ref().map(|field| &field.at),
        spec.cloud_init_from.as_ref().map(|field| &field.at),
        spec.network.as_ref().map(|field| &field.at),
        spec.protect.as_ref().map(|field| &field.at),
    ];
    for field in of_managed.into_iter().flatten() {
        findings.error(field, "an External proxy is no machine and has an endpoint alone; remove this field");
    }
    let message = "this field is required for an External proxy";
    let endpoint = required(spec.endpoint.as_ref(), at, "endpoint", message, findings)?;
    let (host, port) = endpoint_of(endpoint, findings)?;
    Some(Checked::External { host, port })
}

fn endpoint_of(raw: &Located<RawEndpoint>, findings: &mut Findings) -> Option<(String, u16)> {
    let at = &raw.at;
    let raw = raw.get()?;
    let host = required(raw.host.as_ref(), at, "host", REQUIRED, findings).and_then(|field| {
        let text = field.get()?;
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bare.parse::<IpAddr>().is_ok() {
            return Some(bare.to_owned());
        }
        if !text.is_empty() && text.len() <= 253 && text.chars().all(name) && !text.starts_with(['-', '.']) {
            return Some(text.to_ascii_lowercase());
        }
        findings.error(&field.at, "expected the name or address of a host, without scheme, user or port");
        None
    });
    let port = port(raw.port.as_ref(), at, findings);
    Some((host?, port?))
}

fn port(field: Option<&Located<i64>>, at: &Location, findings: &mut Findings) -> Option<u16> {
    let message = "this field is required: the TCP port that the proxy listens on";
    within(required(field, at, "port", message, findings)?, 1..=65_535, findings)
}

fn managed(
    spec: &RawSpec,
    at: &Location,
    namespace: &str,
    context: &Context<'_>,
    reach: &Reach<'_>,
    met: &mut Met,
    findings: &mut Findings,
) -> Option<Checked> {
    let before = findings.errors();
    if let Some(field) = &spec.endpoint {
        findings
            .error(&field.at, "a Managed proxy listens where its machine is; remove this field, or set mode: External");
    }
    let entry = provider(spec, at, context, findings);
    let outline = entry.as_ref().and_then(|(_, entry)| entry.map(|entry| &entry.outline));
    let port = port(spec.port.as_ref(), at, findings);
    let placement = required(spec.placement.as_ref(), at, "placement", REQUIRED, findings);
    let placement = placement.and_then(|field| Some((field.get()?, &field.at)));
    let (mut zone, mut zone_at, mut names, mut fields) = (None, at.field("placement.zone"), None, BTreeMap::new());
    if let Some((placement, at)) = placement {
        met.regions += usize::from(placement.region.is_some());
        zone_at = placement.zone.as_ref().map_or_else(|| at.field("zone"), |field| field.at.clone());
        zone = placement.zone.as_ref().and_then(|field| host(field, outline, findings));
        fields.insert("placement.zone", zone_at.clone());
        names = machine(placement, at, entry.as_ref().and_then(|(_, entry)| *entry), &mut fields, findings);
    }
    let network = spec.network.as_ref().map(|raw| network::check(raw, findings));
    let data = user_data::read(spec, namespace, reach, findings);
    met.files.extend(data.file);
    let config = entry.as_ref().and_then(|(_, entry)| entry.and_then(|entry| entry.config.as_ref()));
    if let (Some(config), Some((data, at))) = (config, &data.data)
        && config.install_guest_agent
        && user_data::switches_vendor_data_off(data)
    {
        findings.warning(
            at,
            "this user-data switches vendor-data off, which is to install the guest agent; \
             install qemu-guest-agent in the user-data, or set installGuestAgent: false",
        );
    }
    if findings.errors() > before {
        return None;
    }
    let (machine_type, image) = names?;
    let (network, addresses) = match network {
        Some(checked) => checked.map(|checked| (Some(checked.network), checked.places))?,
        None => (None, Vec::new()),
    };
    Some(Checked::Managed(Box::new(Machine {
        entry: entry?.0,
        zone,
        zone_at,
        port: port?,
        protect: spec.protect.as_ref().and_then(|field| field.value).unwrap_or(false),
        spec: MachineSpec { image, machine_type, user_data: data.data.map(|(data, _)| data), network },
        addresses,
        fields,
    })))
}

/// The provider entry: its name, and what the config says of it, where there is a config.
fn provider<'a>(
    spec: &RawSpec,
    at: &Location,
    context: &Context<'a>,
    findings: &mut Findings,
) -> Option<(Label, Option<&'a Entry>)> {
    let message = "this field is required: the name of a provider entry";
    let field = required(spec.provider.as_ref(), at, "provider", message, findings)?;
    let text = field.get()?;
    let name = text.parse::<Label>();
    let Some(entries) = context.entries else {
        return match name {
            Ok(name) => Some((name, None)),
            Err(error) => {
                findings.error(&field.at, error.to_string());
                None
            }
        };
    };
    let found = name.ok().and_then(|name| Some((entries.get(&name)?, name)));
    if found.is_none() {
        findings.error(&field.at, unknown("provider", text, entries.keys()));
    }
    found.map(|(entry, name)| (name, Some(entry)))
}

/// A host of the entry by name. Without an outline there is nothing to check against.
pub(super) fn host(field: &Located<String>, outline: Option<&Outline>, findings: &mut Findings) -> Option<Label> {
    let text = field.get()?;
    let Some(outline) = outline else { return text.parse().ok() };
    let host = outline.hosts.iter().find(|host| host.name.as_str() == text);
    if host.is_none() {
        findings.error(&field.at, unknown("zone", text, outline.hosts.iter().map(|host| &host.name)));
    }
    if host.is_some_and(|host| host.retired) {
        let message = format!("the zone {text} is retired: nothing is made there, and what is there goes");
        findings.warning(&field.at, message);
    }
    host.map(|host| host.name.clone())
}

/// The zone where a manifest gives none: the entry's only host.
pub(super) fn only_host(outline: &Outline, at: &Location, findings: &mut Findings) -> Option<Label> {
    match outline.hosts.as_slice() {
        [host] => Some(host.name.clone()),
        [] => None,
        hosts => {
            let names = known(hosts.iter().map(|host| &host.name));
            findings.error(at, format!("this field is required, since the provider has several hosts; {names}"));
            None
        }
    }
}

fn machine(
    placement: &RawPlacement,
    at: &Location,
    entry: Option<&Entry>,
    fields: &mut BTreeMap<&'static str, Location>,
    findings: &mut Findings,
) -> Option<(String, String)> {
    let mut name = |field: Option<&Located<String>>, short: &str, long: &'static str, findings: &mut Findings| {
        let field = required(field, at, short, REQUIRED, findings)?;
        fields.insert(long, field.at.clone());
        field.get().map(|text| (text.clone(), field.at.clone()))
    };
    let machine_type = name(placement.machine_type.as_ref(), "machineType", "placement.machineType", findings);
    let image = name(placement.image.as_ref(), "image", "placement.image", findings);
    if let Some(entry) = entry {
        let outline = &entry.outline;
        if let Some((text, at)) = &machine_type
            && !outline.machine_types.iter().any(|key| key.as_str() == text)
        {
            findings.error(at, unknown("machine type", text, &outline.machine_types));
        }
        if let Some((text, at)) = &image {
            let url = text.contains("://");
            if url && let Some(Err(message)) = entry.config.as_ref().map(|config| config.image(text)) {
                findings.error(at, message);
            }
            if !url && !outline.images.iter().any(|key| key.as_str() == text) {
                findings.error(at, unknown("image", text, &outline.images));
            }
        }
    }
    Some((machine_type?.0, image?.0))
}
