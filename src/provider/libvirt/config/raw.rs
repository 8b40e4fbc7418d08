//! The block as it is written. Every field is optional here; what is required, and which values
//! are allowed, is checked when the block becomes a [`super::LibvirtConfig`]. The doc comments are
//! the descriptions of the JSON Schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::amount::{Overcommit, PoolReserve};
use crate::provider::document::{DurationText, Located};

type Field<T> = Option<Located<T>>;

/// Machines on libvirt hosts that are reached over SSH.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Libvirt")]
pub struct RawBlock {
    /// Private key, OpenSSH or PEM. Required for SSH hosts. Relative to the config file; `~/` is expanded.
    pub ssh_key_file: Field<String>,
    /// OpenSSH known_hosts. Required for SSH hosts unless `insecureIgnoreHostKey`.
    pub known_hosts_file: Field<String>,
    /// Accept any host key. A warning on every run.
    pub insecure_ignore_host_key: Field<bool>,
    /// Capacity of each machine's disk in GiB; default 10.
    #[schemars(range(min = 1, max = 65_536))]
    pub disk_size_gb: Field<i64>,
    /// Space of a pool that is never planned away: `20GiB` or `6%`. Default: the larger of 5 GiB and 6 %.
    pub pool_reserve: Field<PoolReserve>,
    /// How far thin disks may be planned beyond the space there is; default 1.0.
    pub disk_overcommit: Field<Overcommit>,
    /// Cloud-config or script that every machine gets as vendor-data.
    pub vendor_data: Field<String>,
    /// Whether vendor-data installs and starts qemu-guest-agent; default true.
    pub install_guest_agent: Field<bool>,
    /// Base images by key.
    pub images: Field<BTreeMap<String, Located<RawImage>>>,
    /// Whether `placement.image` may be a URL; default false.
    pub allow_url_images: Field<bool>,
    /// Host names that URL images and their redirects may be fetched from.
    pub image_hosts: Field<Vec<Located<String>>>,
    /// The largest image in GiB; default 20.
    #[schemars(rename = "maxImageGiB", range(min = 1, max = 4_096))]
    #[serde(rename = "maxImageGiB")]
    pub max_image_gib: Field<i64>,
    /// Sizes of machines by key; at least one.
    #[schemars(required)]
    pub machine_types: Field<BTreeMap<String, Located<RawMachineType>>>,
    /// How long a machine may go without an address before it is failed; default 15m.
    pub boot_deadline: Field<DurationText>,
    /// Whether machines start with their host; default false.
    pub autostart: Field<bool>,
    /// How machines are stopped.
    pub drain: Field<RawDrain>,
    /// The hosts; at least one.
    #[schemars(required)]
    pub hosts: Field<Vec<Located<RawHost>>>,
    /// Budgets of calls.
    pub budgets: Field<RawBudgets>,
}

/// A base image.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LibvirtImage")]
pub struct RawImage {
    /// Where it is fetched from: https, or http with a digest.
    #[schemars(required)]
    pub url: Field<String>,
    /// `sha256:…` or `sha512:…`.
    pub checksum: Field<String>,
    /// The digest as 64 hex digits; the older spelling of `checksum`.
    pub sha256: Field<String>,
    /// A digest file such as SHA256SUMS, read when the image is fetched.
    pub checksum_url: Field<String>,
    /// Format of the file; default qcow2.
    pub format: Field<RawFormat>,
    /// Firmware that machines boot it with; default uefi.
    pub firmware: Field<RawFirmware>,
}

/// Format of an image file.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RawFormat {
    Qcow2,
    Raw,
}

/// Firmware of a machine.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RawFirmware {
    Uefi,
    Bios,
}

/// A size of machine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LibvirtMachineType")]
pub struct RawMachineType {
    /// Virtual CPUs.
    #[schemars(required, range(min = 1, max = 512))]
    pub vcpus: Field<i64>,
    /// Memory in MiB.
    #[schemars(required, rename = "memoryMiB", range(min = 64, max = 4_194_304))]
    #[serde(rename = "memoryMiB")]
    pub memory_mib: Field<i64>,
}

/// How machines are stopped.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LibvirtDrain")]
pub struct RawDrain {
    /// How long an ACPI shutdown may take before the machine is switched off; default 60s, 0 for at once.
    pub timeout: Field<DurationText>,
}

/// One host.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LibvirtHost")]
pub struct RawHost {
    /// The `placement.zone` of manifests.
    #[schemars(required)]
    pub name: Field<String>,
    /// Former names: marks that bear one are still of this host.
    pub aliases: Field<Vec<Located<String>>>,
    /// `host` or `host:port`, port 22; IPv6 in brackets. Required for SSH hosts.
    pub address: Field<String>,
    /// The name to look up in known_hosts, when it is not the address.
    pub host_key_alias: Field<String>,
    /// SSH user, a member of the host's `libvirt` group. Required for SSH hosts.
    pub user: Field<String>,
    /// Path of libvirt's socket on the host, when it is not one of the usual ones.
    pub socket: Field<String>,
    /// Use this machine's socket, without SSH.
    pub local: Field<bool>,
    /// Serve the host from this recorded host file, without SSH.
    pub recorded: Field<String>,
    /// A running `dir` or `fs` pool; default `default`.
    pub pool: Field<String>,
    /// Bridge of the machines' network card.
    #[schemars(required)]
    pub bridge: Field<String>,
    /// `kvm` (default), or `qemu` for software emulation.
    pub domain_type: Field<RawDomainType>,
    /// CPU of the machines; default host-passthrough for kvm, maximum for qemu.
    pub cpu: Field<RawCpu>,
    /// Nothing is wanted here any more: the host's machines are orphans.
    pub retired: Field<bool>,
    /// The most machines of this fleet.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_instances: Field<i64>,
    /// Space of this host's pool that is never planned away.
    pub pool_reserve: Field<PoolReserve>,
}

/// How the host runs machines.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RawDomainType {
    Kvm,
    Qemu,
}

/// CPU of the machines.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LibvirtCpu")]
pub struct RawCpu {
    /// How the CPU is chosen; `custom` when a model is given.
    pub mode: Field<RawCpuMode>,
    /// A model that libvirt knows.
    pub model: Field<String>,
    /// Features to take away.
    pub disable: Field<Vec<Located<String>>>,
}

/// How a CPU is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names are libvirt's own")]
pub enum RawCpuMode {
    HostPassthrough,
    HostModel,
    Maximum,
    Custom,
}

/// Budgets of calls; each has a default.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LibvirtBudgets")]
pub struct RawBudgets {
    /// TCP, SSH and libvirt handshakes together; default 10s.
    pub dial: Field<DurationText>,
    /// An ordinary call; default 45s.
    pub call: Field<DurationText>,
    /// Start of a machine; default 90s.
    pub start: Field<DurationText>,
    /// Upload of up to 16 MiB; default 60s.
    pub small_upload: Field<DurationText>,
    /// Download of an image; default 20m.
    pub image_download: Field<DurationText>,
    /// Upload of an image; default 20m.
    pub image_upload: Field<DurationText>,
    /// A transfer without a byte; default 30s.
    pub transfer_idle: Field<DurationText>,
    /// Until a started machine runs; default 15s.
    pub wait_running: Field<DurationText>,
    /// Between two SSH keepalives; default 7s.
    pub keepalive: Field<DurationText>,
}
