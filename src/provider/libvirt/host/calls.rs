//! The seam to a host: the calls that this provider makes to libvirt, and nothing else.
//!
//! One value of [`Calls`] is one libvirt connection. Its calls block and are made from a thread
//! that may block; a connection is never shared between threads, since client libraries before
//! 10.4 are not safe there. Two implementations exist, the live one and the recorded one, and one
//! decorator gives every call its span, its log line and its budget.
//!
//! Methods are thin: one remote call each unless it is said otherwise, no decisions, no retries.

use std::io::Read;
use std::net::IpAddr;

use jiff::Timestamp;
use uuid::Uuid;

/// What a call came to.
pub type CallResult<T> = Result<T, CallError>;

/// libvirt's error, or the loss of the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (libvirt error {code}/{domain})")]
pub struct CallError {
    /// libvirt's error number (`virErrorNumber`).
    pub code: i32,
    /// The part of libvirt that it comes from (`virErrorDomain`).
    pub domain: i32,
    /// libvirt's text.
    pub message: String,
    /// The connection is gone: what was asked may have happened all the same, and every later
    /// call on this connection fails.
    pub dead: bool,
    /// This program ended the call, because its budget ran out or the run was interrupted.
    pub ended: Option<Ended>,
}

/// Why this program ended a call itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The call's budget ran out.
    Budget,
    /// The run was interrupted.
    Cancelled,
}

/// Error numbers of libvirt that this provider knows by name (`virterror.h`).
pub mod code {
    #![allow(missing_docs, reason = "the names are libvirt's own, less their prefix VIR_ERR_")]
    pub const INTERNAL_ERROR: i32 = 1;
    pub const NO_SUPPORT: i32 = 3;
    pub const INVALID_ARG: i32 = 8;
    pub const OPERATION_FAILED: i32 = 9;
    pub const XML_ERROR: i32 = 27;
    pub const OPERATION_DENIED: i32 = 29;
    pub const XML_DETAIL: i32 = 35;
    pub const SYSTEM_ERROR: i32 = 38;
    pub const RPC: i32 = 39;
    pub const NO_DOMAIN: i32 = 42;
    pub const NO_NETWORK: i32 = 43;
    pub const AUTH_FAILED: i32 = 45;
    pub const NO_STORAGE_POOL: i32 = 49;
    pub const NO_STORAGE_VOL: i32 = 50;
    pub const OPERATION_INVALID: i32 = 55;
    pub const NO_INTERFACE: i32 = 57;
    pub const CONFIG_UNSUPPORTED: i32 = 67;
    pub const OPERATION_TIMEOUT: i32 = 68;
    pub const ARGUMENT_UNSUPPORTED: i32 = 74;
    pub const OPERATION_ABORTED: i32 = 78;
    pub const AUTH_CANCELLED: i32 = 79;
    pub const NO_DOMAIN_METADATA: i32 = 80;
    pub const OPERATION_UNSUPPORTED: i32 = 84;
    pub const AGENT_UNRESPONSIVE: i32 = 86;
    pub const RESOURCE_BUSY: i32 = 87;
    pub const ACCESS_DENIED: i32 = 88;
    pub const STORAGE_VOL_EXIST: i32 = 90;
    pub const CPU_INCOMPATIBLE: i32 = 91;
    pub const AUTH_UNAVAILABLE: i32 = 94;
    pub const AGENT_UNSYNCED: i32 = 97;
}

/// Parts of libvirt that errors come from (`virterror.h`), as far as this provider tells them apart.
pub mod part {
    #![allow(missing_docs, reason = "the names are libvirt's own, less their prefix VIR_FROM_")]
    pub const NONE: i32 = 0;
    pub const RPC: i32 = 7;
    pub const QEMU: i32 = 10;
    pub const REMOTE: i32 = 13;
    pub const STORAGE: i32 = 18;
    pub const DOMAIN: i32 = 20;
    pub const STREAMS: i32 = 38;
}

/// Domain states (`virDomainState`).
pub mod state {
    #![allow(missing_docs, reason = "the names are libvirt's own, less their prefix VIR_DOMAIN_")]
    pub const NOSTATE: i32 = 0;
    pub const RUNNING: i32 = 1;
    pub const BLOCKED: i32 = 2;
    pub const PAUSED: i32 = 3;
    pub const SHUTDOWN: i32 = 4;
    pub const SHUTOFF: i32 = 5;
    pub const CRASHED: i32 = 6;
    pub const PMSUSPENDED: i32 = 7;
}

/// A domain, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRow {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Whether it is active at the time of the listing.
    pub active: bool,
}

/// Which domains a listing asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those with a persistent configuration.
    Persistent,
    /// Those without, which vanish when they stop.
    Transient,
    /// Persistent ones that are off and whose memory is saved for the next start. The reason of the
    /// state does not tell: it is lost when the daemon starts anew.
    Saved,
}

/// Bulk figures of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainStats {
    /// Its UUID.
    pub uuid: Uuid,
    /// `virDomainState`.
    pub state: i32,
    /// The reason, a number whose meaning depends on the state.
    pub reason: i32,
    /// Its disks.
    pub disks: Vec<DiskStats>,
}

/// Bulk figures of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskStats {
    /// The path in the domain's configuration; a disk without one (a network disk, an empty
    /// drive) has none.
    pub path: Option<String>,
    /// Bytes that the guest sees.
    pub capacity: u64,
    /// Bytes that it takes on the host.
    pub allocation: u64,
}

/// Which of a domain's two configurations is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config {
    /// What runs. Fails with 55 when nothing does.
    Live,
    /// What will run the next time. Fails with 55 for a transient domain.
    Persistent,
}

/// The pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolInfo {
    /// Its UUID, which tells whether two entries mean the same pool of the same daemon.
    pub uuid: String,
    /// `dir`, `fs`, `logical`…
    pub kind: String,
    /// The folder.
    pub path: String,
    /// Whether it is running.
    pub active: bool,
    /// Bytes in all, as of the last refresh.
    pub capacity: u64,
    /// Free bytes, as of the last refresh; counts what the file system reserves for root.
    pub available: u64,
}

/// A volume, as its XML describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its file name.
    pub name: String,
    /// Its path on the host.
    pub path: String,
    /// `raw`, `qcow2`…
    pub format: String,
    /// Bytes that it holds for a reader: the virtual size of a qcow2 file, the length of a raw one.
    pub capacity: u64,
    /// Bytes that it takes on the host.
    pub allocation: u64,
    /// Length of the file in bytes, where the server tells it apart.
    pub physical: Option<u64>,
    /// When the file was last changed, by the host's clock.
    pub modified: Option<Timestamp>,
    /// Path of the file that it is an overlay of.
    pub backing: Option<String>,
    /// Permission bits.
    pub mode: Option<u32>,
}

/// Who is asked for a domain's addresses (`virDomainInterfaceAddressesSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSource {
    /// DHCP leases of libvirt's own networks.
    Lease,
    /// The agent in the guest.
    Agent,
    /// The host's neighbour table.
    Arp,
}

/// The addresses of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicAddresses {
    /// Lower-case MAC, as the source gives it.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// What is to be removed with a domain's configuration (`virDomainUndefineFlagsValues`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UndefineWith {
    /// The saved memory image.
    pub managed_save: bool,
    /// Metadata of snapshots.
    pub snapshots: bool,
    /// The NVRAM file.
    pub nvram: bool,
    /// Metadata of checkpoints.
    pub checkpoints: bool,
    /// TPM state; libvirt 8.9 and later only.
    pub tpm: bool,
}

/// The calls that this provider makes to a host.
pub trait Calls: Send {
    /// Version of the daemon: `major * 1,000,000 + minor * 1,000 + release`.
    fn libvirt_version(&mut self) -> CallResult<u64>;
    /// Version of the hypervisor, in the same form.
    fn hypervisor_version(&mut self) -> CallResult<u64>;
    /// The host's name.
    fn hostname(&mut self) -> CallResult<String>;
    /// XML of what the host can run for a kind of domain (`kvm`, `qemu`) on `x86_64` q35. Fails with 8
    /// or 67 when it cannot run that kind.
    fn domain_capabilities(&mut self, domain_type: &str) -> CallResult<String>;
    /// Whether the host has an interface of that name; `None` when its daemon cannot tell.
    fn interface_exists(&mut self, name: &str) -> CallResult<Option<bool>>;

    /// Lists domains. Handles stay valid on this connection, so that later calls need no look-up.
    fn list_domains(&mut self, which: Which) -> CallResult<Vec<DomainRow>>;
    /// Bulk figures of all domains, inactive ones included.
    fn domain_stats(&mut self) -> CallResult<Vec<DomainStats>>;
    /// Looks a domain up by name; `None` when there is none.
    fn find_domain(&mut self, name: &str) -> CallResult<Option<DomainRow>>;
    /// Looks a domain up again by UUID, past any handle; `None` when there is none.
    fn domain_exists(&mut self, uuid: Uuid) -> CallResult<bool>;
    /// The element of namespace `uri` in a domain's metadata; `None` when it has none (80).
    fn metadata(&mut self, uuid: Uuid, config: Config, uri: &str) -> CallResult<Option<String>>;
    /// Writes the element of namespace `uri` into the named configurations, in one call.
    fn set_metadata(&mut self, uuid: Uuid, configs: &[Config], uri: &str, prefix: &str, xml: &str) -> CallResult<()>;
    /// A domain's XML.
    fn domain_xml(&mut self, uuid: Uuid, config: Config) -> CallResult<String>;
    /// State and reason.
    fn domain_state(&mut self, uuid: Uuid) -> CallResult<(i32, i32)>;
    /// Makes a persistent, inactive domain and returns it.
    fn define(&mut self, xml: &str) -> CallResult<DomainRow>;
    /// Starts an inactive domain.
    fn start(&mut self, uuid: Uuid) -> CallResult<()>;
    /// Asks the guest to power off by ACPI; returns at once.
    fn shutdown(&mut self, uuid: Uuid) -> CallResult<()>;
    /// Ends a domain at once. Fails with 55 when it is not active.
    fn destroy(&mut self, uuid: Uuid) -> CallResult<()>;
    /// Removes a domain's configuration.
    fn undefine(&mut self, uuid: Uuid, with: UndefineWith) -> CallResult<()>;
    /// Whether the host starts the domain with itself.
    fn set_autostart(&mut self, uuid: Uuid, on: bool) -> CallResult<()>;
    /// A domain's addresses from one source. The agent is asked with a response timeout of
    /// `agent_seconds`; one more call sets that.
    fn addresses(&mut self, uuid: Uuid, source: AddressSource, agent_seconds: i32) -> CallResult<Vec<NicAddresses>>;

    /// The pool of the host's configuration: a listing and its XML, two calls; one more for a pool that
    /// is not running.
    fn pool(&mut self) -> CallResult<PoolInfo>;
    /// Makes libvirt look at the pool's folder again.
    fn refresh_pool(&mut self) -> CallResult<()>;
    /// Names of all volumes of the pool. Handles stay valid on this connection.
    fn volume_names(&mut self) -> CallResult<Vec<String>>;
    /// A volume of the pool; `None` when it has none of that name (50). One call for a volume that was
    /// listed over this connection, else two.
    fn volume(&mut self, name: &str) -> CallResult<Option<Volume>>;
    /// Makes a volume from its XML; fails with 90 when one of that name is there.
    fn create_volume(&mut self, xml: &str) -> CallResult<()>;
    /// Removes a volume and its file. Fails with 50 when there is none.
    fn delete_volume(&mut self, name: &str) -> CallResult<()>;
    /// Streams `length` bytes of `from` into a volume; `sent` is told the bytes sent so far. A
    /// failure aborts the stream. The end says nothing about the last bytes: look at the length.
    fn upload(&mut self, name: &str, from: &mut dyn Read, length: u64, sent: &mut dyn FnMut(u64)) -> CallResult<()>;
}
