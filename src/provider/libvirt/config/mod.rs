//! The provider's block of the config: read, checked against every bound, and plain afterwards.
//!
//! Reading asks no host and opens no file: key files are not needed to load, to validate or for
//! recorded hosts. Every problem is found in one go and has the position of its field.

pub mod address;
pub mod amount;
pub mod budgets;
pub mod host;
pub mod image;
pub mod machine;
pub mod outline;
pub mod raw;
pub mod vendor;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

pub use address::Address;
pub use amount::{GIB, Overcommit, PoolReserve};
pub use budgets::Budgets;
pub use host::{Access, Cpu, CpuMode, DomainType, Host, Ssh};
pub use image::{Algorithm, Digest, Firmware, Image, ImageFormat, ImageUrl};
pub use machine::MachineType;
pub use outline::{HostOutline, Outline, find_twins};
pub use raw::RawBlock;
pub use vendor::VendorData;

use crate::plan::Label;
use crate::provider::document::check::{lasting, parsed, within};
use crate::provider::document::{Findings, Folders, Located, Location};

/// An entry of this provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibvirtConfig {
    /// The entry's name.
    pub entry: Label,
    /// Private key; there whenever a host is reached over SSH. Read on every dial.
    pub ssh_key_file: Option<PathBuf>,
    /// OpenSSH known_hosts; there whenever a host is reached over SSH, unless any key is accepted.
    pub known_hosts_file: Option<PathBuf>,
    /// Any host key is accepted.
    pub insecure_ignore_host_key: bool,
    /// Capacity of each machine's disk in bytes.
    pub disk_bytes: u64,
    /// Space of a pool that is never planned away; hosts hold their own copy.
    pub pool_reserve: PoolReserve,
    /// How far thin disks may be planned beyond the space there is.
    pub disk_overcommit: Overcommit,
    /// Vendor-data that every machine gets.
    pub vendor_data: Option<VendorData>,
    /// Whether vendor-data installs the guest agent.
    pub install_guest_agent: bool,
    /// Base images by key.
    pub images: BTreeMap<Label, Image>,
    /// Whether `placement.image` may be a URL.
    pub allow_url_images: bool,
    /// Hosts that URL images may be fetched from, in lower case.
    pub image_hosts: BTreeSet<String>,
    /// A longer image is refused.
    pub max_image_bytes: u64,
    /// Sizes of machines by key.
    pub machine_types: BTreeMap<Label, MachineType>,
    /// How long a machine may go without an address.
    pub boot_deadline: Duration,
    /// Whether machines start with their host.
    pub autostart: bool,
    /// How long an ACPI shutdown may take; zero destroys at once.
    pub drain_timeout: Duration,
    /// Hosts by name.
    pub hosts: BTreeMap<Label, Host>,
    /// Budgets of calls.
    pub budgets: Budgets,
}

/// `Some(value)` of a field that fits, the default where none is given.
fn or<T: Copy>(field: Option<&Located<T>>, default: T) -> T {
    field.and_then(|field| field.value).unwrap_or(default)
}

impl LibvirtConfig {
    /// Reads the block of `entry`. The outline is there whatever is wrong, so that what refers to
    /// the entry can be checked in the same go; the config is there when nothing is.
    #[must_use]
    pub fn read(
        entry: &Label,
        block: &Located<RawBlock>,
        folders: &Folders,
        findings: &mut Findings,
    ) -> (Outline, Option<Self>) {
        let Some(raw) = block.get() else { return (Outline::default(), None) };
        let at = &block.at;
        let before = findings.errors();

        let install_guest_agent = or(raw.install_guest_agent.as_ref(), true);
        let gib = |bytes: u64| bytes.saturating_mul(GIB);
        let pool_reserve = or(raw.pool_reserve.as_ref(), PoolReserve::Usual);
        let day = Duration::from_hours(24);
        let images = read_images(raw, findings);
        let machine_types = read_machine_types(raw, at, findings);
        let mut outline = Outline {
            images: images.keys().cloned().collect(),
            machine_types: machine_types.keys().cloned().collect(),
            ..Outline::default()
        };
        let hosts = read_hosts(raw, at, pool_reserve, folders, &mut outline, findings);
        let (allow_url_images, image_hosts) = read_image_hosts(raw, findings);
        let ssh = raw
            .hosts
            .as_ref()
            .and_then(Located::get)
            .into_iter()
            .flatten()
            .filter_map(Located::get)
            .any(|host| host.recorded.is_none() && !or(host.local.as_ref(), false));
        let insecure_ignore_host_key = or(raw.insecure_ignore_host_key.as_ref(), false);
        let ssh_key_file = read_path(raw.ssh_key_file.as_ref(), folders, findings);
        let known_hosts_file = read_path(raw.known_hosts_file.as_ref(), folders, findings);
        let null = "this field is required for SSH hosts; a bare ~ is nothing in YAML, write a path";
        if ssh && raw.ssh_key_file.is_none() {
            findings.missing(at, "sshKeyFile", null);
        }
        if ssh && raw.known_hosts_file.is_none() && !insecure_ignore_host_key {
            findings.missing(at, "knownHostsFile", null);
        }
        if let Some(field) = &raw.insecure_ignore_host_key
            && insecure_ignore_host_key
        {
            findings.warning(
                &field.at,
                "any host key is accepted, so anybody on the way can be the host; give knownHostsFile instead",
            );
        }
        let drain = raw.drain.as_ref().and_then(Located::get).and_then(|drain| drain.timeout.as_ref());
        let config = Self {
            entry: entry.clone(),
            ssh_key_file,
            known_hosts_file,
            insecure_ignore_host_key,
            disk_bytes: gib(raw.disk_size_gb.as_ref().and_then(|f| within(f, 1..=65_536, findings)).unwrap_or(10)),
            pool_reserve,
            disk_overcommit: or(raw.disk_overcommit.as_ref(), Overcommit::default()),
            vendor_data: raw
                .vendor_data
                .as_ref()
                .and_then(|field| VendorData::read(field, install_guest_agent, findings)),
            install_guest_agent,
            images: images.into_iter().filter_map(|(key, image)| Some((key, image?))).collect(),
            allow_url_images,
            image_hosts,
            max_image_bytes: gib(raw.max_image_gib.as_ref().and_then(|f| within(f, 1..=4096, findings)).unwrap_or(20)),
            machine_types: machine_types.into_iter().filter_map(|(key, size)| Some((key, size?))).collect(),
            boot_deadline: raw
                .boot_deadline
                .as_ref()
                .and_then(|field| lasting(field, Duration::from_secs(10)..=day, findings))
                .unwrap_or(Duration::from_mins(15)),
            autostart: or(raw.autostart.as_ref(), false),
            drain_timeout: drain
                .and_then(|field| lasting(field, Duration::ZERO..=Duration::from_hours(1), findings))
                .unwrap_or(Duration::from_mins(1)),
            hosts: hosts.into_iter().filter_map(|(name, host)| Some((name, host?))).collect(),
            budgets: Budgets::read(raw.budgets.as_ref(), findings),
        };
        // A misfit of the raw block was reported by its reader, before this function's own errors.
        (outline, (findings.errors() == before).then_some(config))
    }

    /// The image that a manifest's `placement.image` means, and the key that it is known by.
    ///
    /// # Errors
    /// One sentence for people when there is none.
    pub fn image(&self, text: &str) -> Result<(String, Image), String> {
        if text.contains("://") {
            return self.url_image(text);
        }
        let found = text.parse::<Label>().ok().and_then(|key| self.images.get(&key).cloned());
        found.map(|image| (text.to_owned(), image)).ok_or_else(|| outline::unknown("image", text, self.images.keys()))
    }

    fn url_image(&self, text: &str) -> Result<(String, Image), String> {
        if !self.allow_url_images {
            return Err("an image may not be a URL here; name one of the config's, or set allowUrlImages".to_owned());
        }
        let url: ImageUrl = text.parse().map_err(|error: image::UrlError| error.to_string())?;
        if url.expose().scheme() != "https" {
            return Err("an image by URL has no checksum, so it has to be https".to_owned());
        }
        if !self.image_hosts.contains(url.host()) {
            return Err(format!("the host {} is not among imageHosts", url.host()));
        }
        let image = Image { url, digest: None, digest_url: None, format: ImageFormat::Qcow2, firmware: Firmware::Uefi };
        let key = format!("url-{}", image.id().chars().take(16).collect::<String>());
        Ok((key, image))
    }
}

fn read_path(field: Option<&Located<String>>, folders: &Folders, findings: &mut Findings) -> Option<PathBuf> {
    let field = field?;
    match folders.resolve(field.get()?) {
        Ok(path) => Some(path),
        Err(error) => {
            findings.error(&field.at, error.to_string());
            None
        }
    }
}

/// Keys as labels, what fits and what does not: a key that is there is known, whatever is wrong with it.
fn read_images(raw: &RawBlock, findings: &mut Findings) -> BTreeMap<Label, Option<Image>> {
    let mut images = BTreeMap::new();
    for (key, image) in raw.images.as_ref().and_then(Located::get).into_iter().flatten() {
        let read = Image::read(image, findings);
        match key.parse() {
            Ok(key) => drop(images.insert(key, read)),
            Err(error) => findings.error(&image.at, error_of_key(&error)),
        }
    }
    images
}

fn read_machine_types(raw: &RawBlock, at: &Location, findings: &mut Findings) -> BTreeMap<Label, Option<MachineType>> {
    let mut types = BTreeMap::new();
    let given = raw.machine_types.as_ref();
    for (key, size) in given.and_then(Located::get).into_iter().flatten() {
        let read = MachineType::read(size, findings);
        match key.parse() {
            Ok(key) => drop(types.insert(key, read)),
            Err(error) => findings.error(&size.at, error_of_key(&error)),
        }
    }
    if given.is_none_or(|given| given.get().is_some_and(BTreeMap::is_empty)) {
        findings.missing(at, "machineTypes", "at least one machine type is required");
    }
    types
}

fn error_of_key(error: &crate::plan::NameError) -> String {
    format!("this key is no name: {error}")
}

fn read_hosts(
    raw: &RawBlock,
    at: &Location,
    reserve: PoolReserve,
    folders: &Folders,
    outline: &mut Outline,
    findings: &mut Findings,
) -> BTreeMap<Label, Option<Host>> {
    let given = raw.hosts.as_ref();
    let items = given.and_then(Located::get).map(Vec::as_slice).unwrap_or_default();
    if given.is_none_or(|given| given.get().is_some_and(Vec::is_empty)) {
        findings.missing(at, "hosts", "at least one host is required");
    }
    let mut hosts: BTreeMap<Label, Option<Host>> = BTreeMap::new();
    let mut names: BTreeMap<Label, Location> = BTreeMap::new();
    for item in items {
        let host = Host::read(item, reserve, folders, findings);
        let Some(raw) = item.get() else { continue };
        let Some(field) = &raw.name else {
            findings.missing(&item.at, "name", "this field is required: manifests call it placement.zone");
            continue;
        };
        let Some(name) = parsed::<Label>(field, findings) else { continue };
        let aliases = raw.aliases.as_ref().and_then(Located::get).map(Vec::as_slice).unwrap_or_default();
        let aliases = aliases.iter().filter_map(|alias| Some((alias.get()?.parse().ok()?, &alias.at)));
        for (taken, place) in std::iter::once((name.clone(), &field.at)).chain(aliases) {
            if let Some(first) = names.get(&taken) {
                findings.error(
                    place,
                    format!(
                        "{taken} is taken, first on line {}; names and aliases of hosts are unique",
                        first.position.line
                    ),
                );
            } else {
                names.insert(taken, place.clone());
            }
        }
        outline.hosts.push(HostOutline {
            name: name.clone(),
            at: item.at.clone(),
            retired: or(raw.retired.as_ref(), false),
            identity: host.as_ref().map(Host::identity),
        });
        hosts.entry(name).or_insert(host);
    }
    hosts
}

fn read_image_hosts(raw: &RawBlock, findings: &mut Findings) -> (bool, BTreeSet<String>) {
    let allowed = or(raw.allow_url_images.as_ref(), false);
    let mut hosts = BTreeSet::new();
    for field in raw.image_hosts.as_ref().and_then(Located::get).into_iter().flatten() {
        match field.get().map(|text| (text, url::Host::parse(text))) {
            Some((_, Ok(host))) => drop(hosts.insert(host.to_string())),
            Some((_, Err(_))) => findings.error(&field.at, "expected the name of a host, without scheme, port or path"),
            None => {}
        }
    }
    if let Some(field) = &raw.allow_url_images
        && allowed
        && hosts.is_empty()
    {
        findings.error(&field.at, "URL images need imageHosts, the hosts that they may be fetched from");
    }
    (allowed, hosts)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
