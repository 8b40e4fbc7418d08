//! The live [`Calls`]: one libvirt connection, over the C client library.
//!
//! It makes the calls that it is told to and decides nothing. Handles of domains and of the pool are
//! kept, so that a call on a domain that was listed, found or defined over this connection needs no
//! look-up.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Once;
use std::time::Duration;

use tokio::runtime::Handle;
use uuid::Uuid;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::{Error, clear_error_callback};
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;
use virt_sys as sys;

use super::bridge::Bridge;
use super::calls::{
    AddressSource, CallError, CallResult, Calls, Config, DiskStats, DomainRow, DomainStats, NicAddresses, PoolInfo,
    UndefineWith, Volume, Which, code, part,
};
use super::raw;
use super::storage_xml::{XmlError, parse_pool, parse_volume};

/// The fastest piece for libvirt's streams, measured; far below the most that a message may hold.
const UPLOAD_CHUNK: usize = 256 * 1024;
/// How long taking leave of the server may last before the connection is cut instead.
const LEAVE: Duration = Duration::from_millis(500);

/// One libvirt connection over a bridge. Dropping it takes leave of the server in the background,
/// for half a second at most, and never blocks.
pub struct Connection {
    open: Option<Open>,
    pool: String,
    bridge: Bridge,
    runtime: Handle,
}

/// Handles are dropped before the connection that they are of.
struct Open {
    domains: BTreeMap<Uuid, Domain>,
    pool: Option<StoragePool>,
    volumes: BTreeMap<String, StorageVol>,
    connect: Connect,
}

impl Connection {
    /// Opens the connection; blocks until the server answers or the bridge is killed.
    ///
    /// # Errors
    /// libvirt's own.
    pub fn open(bridge: Bridge, pool: String, runtime: Handle) -> CallResult<Self> {
        // By default the library prints every error to stderr.
        static QUIET: Once = Once::new();
        QUIET.call_once(clear_error_callback);
        let uri = uri(&bridge.path().to_string_lossy());
        let opened = Connect::open(Some(&uri)).map_err(|error| call_error(&error, false))?;
        Ok(Self {
            open: Some(Open { domains: BTreeMap::new(), pool: None, volumes: BTreeMap::new(), connect: opened }),
            pool,
            bridge,
            runtime,
        })
    }

    fn opened(&mut self) -> CallResult<&mut Open> {
        self.open.as_mut().ok_or_else(|| fault(code::INTERNAL_ERROR, "the connection is closed"))
    }

    /// Makes one call and tells its failure from the loss of the connection.
    fn call<T>(&mut self, call: impl FnOnce(&mut Open) -> Result<T, Error>) -> CallResult<T> {
        let killed = self.bridge.is_dead();
        let open = self.opened()?;
        call(open).map_err(|error| call_error(&error, killed || !open.connect.is_alive().unwrap_or(false)))
    }

    fn domain(&mut self, uuid: Uuid) -> CallResult<Domain> {
        if let Some(domain) = self.opened()?.domains.get(&uuid) {
            return Ok(domain.clone());
        }
        let domain = self.call(|open| open.connect.lookup_domain_by_uuid(uuid))?;
        self.opened()?.domains.insert(uuid, domain.clone());
        Ok(domain)
    }

    fn on_domain<T>(&mut self, uuid: Uuid, call: impl FnOnce(&Domain) -> Result<T, Error>) -> CallResult<T> {
        let domain = self.domain(uuid)?;
        self.call(|_| call(&domain))
    }

    /// Keeps a domain's handle and describes it by what the handle holds: no remote call.
    fn keep(&mut self, domain: Domain) -> CallResult<DomainRow> {
        let row = self.call(|_| {
            let uuid = domain.uuid()?;
            Ok(DomainRow { uuid, name: domain.name()?, active: domain.id().is_some() })
        })?;
        self.opened()?.domains.insert(row.uuid, domain);
        Ok(row)
    }

    fn storage_pool(&mut self) -> CallResult<StoragePool> {
        if let Some(pool) = &self.opened()?.pool {
            return Ok(pool.clone());
        }
        let name = self.pool.clone();
        let pool = self.call(|open| open.connect.lookup_storage_pool_by_name(&name))?;
        self.opened()?.pool = Some(pool.clone());
        Ok(pool)
    }

    fn storage_volume(&mut self, name: &str) -> CallResult<StorageVol> {
        // The server looks a handle's volume up by its name at every call.
        if let Some(volume) = self.opened()?.volumes.get(name) {
            return Ok(volume.clone());
        }
        let pool = self.storage_pool()?;
        self.call(|_| pool.lookup_storage_vol_by_name(name))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let bridge = self.bridge.clone();
        // The library asks the server's leave and waits for the answer. Somewhere else, and with an
        // end: if the runtime is shutting down, the closure is dropped unrun, and the guard in it
        // cuts the connection before the library would wait.
        let leaving = Leaving { open: Some(open), bridge: bridge.clone() };
        if bridge.is_dead() {
            return drop(leaving);
        }
        bridge.leave();
        self.runtime.spawn(async move {
            tokio::select! {
                () = bridge.gone() => {}
                () = tokio::time::sleep(LEAVE) => bridge.kill(),
            }
        });
        self.runtime.spawn_blocking(move || leaving.take_leave());
    }
}

/// The URI of a socket. A blank is `%20` there; libvirt takes a plus sign for itself.
fn uri(socket: &str) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("socket", socket).finish();
    format!("qemu+unix:///system?{}", query.replace('+', "%20"))
}

struct Leaving {
    open: Option<Open>,
    bridge: Bridge,
}

impl Leaving {
    fn take_leave(mut self) {
        drop(self.open.take());
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.bridge.kill();
        drop(self.open.take());
    }
}

/// Whether an error of the library means that the connection is gone. `lost` is what the library or
/// the bridge knows of it. A modular daemon that cannot reach its neighbour reports a socket error
/// of the same kind as our own; that one says that it could not connect.
fn call_error(error: &Error, lost: bool) -> CallError {
    let (code, domain) = (raw_number(error.code().to_raw()), raw_number(error.domain().to_raw()));
    let own_socket = code == code::SYSTEM_ERROR && !error.message().starts_with("Failed to connect socket");
    CallError {
        code,
        domain,
        message: error.message().to_owned(),
        dead: domain == part::RPC && (lost || own_socket),
        ended: None,
    }
}

fn raw_number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A failure on this side, of libvirt's own numbering.
fn fault(code: i32, message: impl Into<String>) -> CallError {
    CallError { code, domain: part::NONE, message: message.into(), dead: false, ended: None }
}

fn xml_fault(error: &XmlError) -> CallError {
    fault(code::INTERNAL_ERROR, error.to_string())
}

/// The crate panics on a NUL byte in an optional text.
fn no_nul(texts: &[&str]) -> CallResult<()> {
    if texts.iter().any(|text| text.contains('\0')) {
        return Err(fault(code::INVALID_ARG, "a text with a NUL byte cannot be sent to libvirt"));
    }
    Ok(())
}

/// `Ok(None)` for one error number, which means that there is no such thing.
fn absent<T>(result: CallResult<T>, number: i32) -> CallResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code == number && !error.dead => Ok(None),
        Err(error) => Err(error),
    }
}

fn flags_of(configs: &[Config]) -> u32 {
    configs.iter().fold(0, |flags, config| {
        flags
            | match config {
                Config::Live => sys::VIR_DOMAIN_AFFECT_LIVE,
                Config::Persistent => sys::VIR_DOMAIN_AFFECT_CONFIG,
            }
    })
}

fn metadata_kind() -> CallResult<i32> {
    i32::try_from(sys::VIR_DOMAIN_METADATA_ELEMENT).map_err(|_| fault(code::INTERNAL_ERROR, "a flag out of range"))
}

impl Calls for Connection {
    fn libvirt_version(&mut self) -> CallResult<u64> {
        self.call(|open| open.connect.lib_version()).map(u64::from)
    }

    fn hypervisor_version(&mut self) -> CallResult<u64> {
        self.call(|open| open.connect.hyp_version()).map(u64::from)
    }

    fn hostname(&mut self) -> CallResult<String> {
        self.call(|open| open.connect.hostname())
    }

    fn domain_capabilities(&mut self, domain_type: &str) -> CallResult<String> {
        no_nul(&[domain_type])?;
        self.call(|open| open.connect.domain_capabilities(None, Some("x86_64"), Some("q35"), Some(domain_type), 0))
    }

    fn interface_exists(&mut self, name: &str) -> CallResult<Option<bool>> {
        match self.call(|open| open.connect.lookup_interface_by_name(name)) {
            Ok(_) => Ok(Some(true)),
            Err(error) if error.code == code::NO_INTERFACE => Ok(Some(false)),
            // The driver is a package of its own, and in a modular daemon a service of its own.
            Err(error) if !error.dead && (error.code == code::NO_SUPPORT || error.domain == part::RPC) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list_domains(&mut self, which: Which) -> CallResult<Vec<DomainRow>> {
        let flags = match which {
            Which::Persistent => sys::VIR_CONNECT_LIST_DOMAINS_PERSISTENT,
            Which::Transient => sys::VIR_CONNECT_LIST_DOMAINS_TRANSIENT,
            Which::Saved => sys::VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE,
        };
        let domains = self.call(|open| open.connect.list_all_domains(flags))?;
        domains.into_iter().map(|domain| self.keep(domain)).collect()
    }

    fn domain_stats(&mut self) -> CallResult<Vec<DomainStats>> {
        let figures = self.call(|open| raw::all_figures(&open.connect))?;
        Ok(figures.iter().map(stats).collect())
    }

    fn find_domain(&mut self, name: &str) -> CallResult<Option<DomainRow>> {
        match absent(self.call(|open| open.connect.lookup_domain_by_name(name)), code::NO_DOMAIN)? {
            Some(domain) => self.keep(domain).map(Some),
            None => Ok(None),
        }
    }

    fn domain_exists(&mut self, uuid: Uuid) -> CallResult<bool> {
        self.opened()?.domains.remove(&uuid);
        absent(self.domain(uuid), code::NO_DOMAIN).map(|found| found.is_some())
    }

    fn metadata(&mut self, uuid: Uuid, config: Config, uri: &str) -> CallResult<Option<String>> {
        no_nul(&[uri])?;
        let (kind, flags) = (metadata_kind()?, flags_of(&[config]));
        absent(self.on_domain(uuid, |domain| domain.metadata(kind, Some(uri), flags)), code::NO_DOMAIN_METADATA)
    }

    fn set_metadata(&mut self, uuid: Uuid, configs: &[Config], uri: &str, prefix: &str, xml: &str) -> CallResult<()> {
        no_nul(&[uri, prefix, xml])?;
        if configs.is_empty() {
            // Flags of 0 mean whichever configuration is current, which nobody here ever means.
            return Err(fault(code::INVALID_ARG, "no configuration was named to write metadata to"));
        }
        let (kind, flags) = (metadata_kind()?, flags_of(configs));
        self.on_domain(uuid, |domain| domain.set_metadata(kind, Some(xml), Some(prefix), Some(uri), flags))
    }

    fn domain_xml(&mut self, uuid: Uuid, config: Config) -> CallResult<String> {
        match config {
            Config::Persistent => self.on_domain(uuid, |domain| domain.xml_desc(sys::VIR_DOMAIN_XML_INACTIVE)),
            Config::Live => {
                let xml = self.on_domain(uuid, |domain| domain.xml_desc(0))?;
                // For a domain that does not run this is its persistent configuration; only the
                // live one has the number that the hypervisor gave it.
                let root = xml.split_once('>').map_or("", |(root, _)| root);
                if root.contains(" id=") {
                    Ok(xml)
                } else {
                    Err(fault(code::OPERATION_INVALID, "Requested operation is not valid: domain is not running"))
                }
            }
        }
    }

    fn domain_state(&mut self, uuid: Uuid) -> CallResult<(i32, i32)> {
        self.on_domain(uuid, raw::domain_state)
    }

    fn define(&mut self, xml: &str) -> CallResult<DomainRow> {
        let domain = self.call(|open| open.connect.define_domain_xml(xml))?;
        self.keep(domain)
    }

    fn start(&mut self, uuid: Uuid) -> CallResult<()> {
        self.on_domain(uuid, Domain::create)
    }

    fn shutdown(&mut self, uuid: Uuid) -> CallResult<()> {
        self.on_domain(uuid, |domain| domain.shutdown_flags(sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN))
    }

    fn destroy(&mut self, uuid: Uuid) -> CallResult<()> {
        self.on_domain(uuid, Domain::destroy)
    }

    fn undefine(&mut self, uuid: Uuid, with: UndefineWith) -> CallResult<()> {
        let flags = [
            (with.managed_save, sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE),
            (with.snapshots, sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA),
            (with.nvram, sys::VIR_DOMAIN_UNDEFINE_NVRAM),
            (with.checkpoints, sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA),
            (with.tpm, sys::VIR_DOMAIN_UNDEFINE_TPM),
        ];
        let flags = flags.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
        self.on_domain(uuid, |domain| domain.undefine_flags(flags))?;
        self.opened()?.domains.remove(&uuid);
        Ok(())
    }

    fn set_autostart(&mut self, uuid: Uuid, on: bool) -> CallResult<()> {
        self.on_domain(uuid, |domain| domain.set_autostart(on))
    }

    fn addresses(&mut self, uuid: Uuid, source: AddressSource, agent_seconds: i32) -> CallResult<Vec<NicAddresses>> {
        let source = match source {
            AddressSource::Lease => sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
            AddressSource::Arp => sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
            AddressSource::Agent => {
                // Without one the daemon waits for the agent for ever.
                self.on_domain(uuid, |domain| raw::set_agent_timeout(domain, agent_seconds))?;
                sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT
            }
        };
        let interfaces = self.on_domain(uuid, |domain| raw::interface_addresses(domain, source))?;
        Ok(interfaces.into_iter().filter_map(nic).collect())
    }

    fn pool(&mut self) -> CallResult<PoolInfo> {
        self.opened()?.pool = None;
        let running =
            self.call(|open| open.connect.list_all_storage_pools(sys::VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE))?;
        let running = running.into_iter().find(|pool| pool.name().is_ok_and(|name| name == self.pool));
        let active = running.is_some();
        self.opened()?.pool = running;
        let pool = self.storage_pool()?;
        let xml = self.call(|_| pool.xml_desc(0))?;
        let described = parse_pool(&xml).map_err(|error| xml_fault(&error))?;
        Ok(PoolInfo { active, ..described })
    }

    fn refresh_pool(&mut self) -> CallResult<()> {
        let pool = self.storage_pool()?;
        self.call(|_| pool.refresh(0))
    }

    fn volume_names(&mut self) -> CallResult<Vec<String>> {
        let pool = self.storage_pool()?;
        let listed = self.call(|_| {
            let named = |volume: StorageVol| Ok((volume.name()?, volume));
            pool.list_all_volumes(0)?.into_iter().map(named).collect::<Result<BTreeMap<_, _>, Error>>()
        })?;
        let names = listed.keys().cloned().collect();
        self.opened()?.volumes = listed;
        Ok(names)
    }

    fn volume(&mut self, name: &str) -> CallResult<Option<Volume>> {
        let Some(handle) = absent(self.storage_volume(name), code::NO_STORAGE_VOL)? else { return Ok(None) };
        // A file that was removed behind libvirt's back is found out by the calls that look at it.
        let Some(xml) = absent(self.call(|_| handle.xml_desc(0)), code::NO_STORAGE_VOL)? else { return Ok(None) };
        parse_volume(&xml).map(Some).map_err(|error| xml_fault(&error))
    }

    fn create_volume(&mut self, xml: &str) -> CallResult<()> {
        let pool = self.storage_pool()?;
        self.call(|_| StorageVol::create_xml(&pool, xml, 0)).map(drop)
    }

    fn delete_volume(&mut self, name: &str) -> CallResult<()> {
        let volume = self.storage_volume(name)?;
        self.call(|_| volume.delete(0))
    }

    fn upload(&mut self, name: &str, from: &mut dyn Read, length: u64, sent: &mut dyn FnMut(u64)) -> CallResult<()> {
        let volume = self.storage_volume(name)?;
        let stream = Abort(Some(self.call(|open| Stream::new(&open.connect, 0))?));
        self.call(|_| stream.start(&volume, length))?;
        let mut chunk = vec![0_u8; UPLOAD_CHUNK];
        let mut done = 0_u64;
        while done < length {
            let rest = usize::try_from(length - done).unwrap_or(usize::MAX).min(UPLOAD_CHUNK);
            let (piece, _) = chunk.split_at_mut(rest);
            let count = from.read(piece).map_err(|error| fault(0, format!("the source cannot be read: {error}")))?;
            if count == 0 {
                return Err(fault(0, format!("the source ended after {done} of {length} bytes")));
            }
            let mut left = piece.get(..count).unwrap_or_default();
            while !left.is_empty() {
                let taken = self.call(|_| stream.send(left))?;
                left = left.get(taken..).unwrap_or_default();
                done = done.saturating_add(u64::try_from(taken).unwrap_or(0));
                sent(done);
            }
        }
        self.call(|_| stream.finish())
    }
}

/// A stream that is aborted when it is dropped unfinished: else the server would keep its end, and
/// the file open, for as long as the connection lasts.
struct Abort(Option<Stream>);

impl Abort {
    fn start(&self, volume: &StorageVol, length: u64) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |stream| volume.upload(stream, 0, length, 0))
    }

    fn send(&self, piece: &[u8]) -> Result<usize, Error> {
        let sent = self.0.as_ref().map_or(Ok(-1), |stream| stream.send(piece))?;
        // Negative numbers are no errors to the crate: would block, and a hole. Neither comes of a
        // blocking stream, and taking one for progress would be the worst answer.
        usize::try_from(sent).ok().filter(|sent| *sent > 0).ok_or_else(Error::last_error)
    }

    fn finish(mut self) -> Result<(), Error> {
        self.0.take().map_or(Ok(()), Stream::finish)
    }
}

impl Drop for Abort {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            // It failed already, and that failure is the one to tell.
            let _ = stream.abort();
        }
    }
}

fn stats(figures: &raw::Figures) -> DomainStats {
    let number = |name: &str| figures.numbers.get(name).copied();
    let small = |name: &str| number(name).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
    let disks = (0..number("block.count").unwrap_or(0)).map(|index| DiskStats {
        path: figures.texts.get(&format!("block.{index}.path")).cloned(),
        capacity: number(&format!("block.{index}.capacity")).unwrap_or(0),
        // QEMU counts a running disk's allocation from its start; the file's length tells of the rest.
        allocation: number(&format!("block.{index}.allocation"))
            .max(number(&format!("block.{index}.physical")))
            .unwrap_or(0),
    });
    DomainStats {
        uuid: figures.uuid,
        state: small("state.state"),
        reason: small("state.reason"),
        disks: disks.collect(),
    }
}

fn nic((mac, addresses): raw::Interface) -> Option<NicAddresses> {
    // An agent may give a scope with a link-local address; the address is what comes before it.
    let parse = |text: &String| text.split('%').next()?.parse().ok();
    Some(NicAddresses { mac: mac?.to_lowercase(), addresses: addresses.iter().filter_map(parse).collect() })
}
