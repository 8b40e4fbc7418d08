//! One connection to a recorded host: [`Calls`] on a world that several connections share.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::super::calls::{
    AddressSource, CallError, CallResult, Calls, Config, DomainRow, DomainStats, NicAddresses, PoolInfo, UndefineWith,
    Volume, Which, code, part,
};
use super::error;
use super::fault::{Called, Effect, Point};
use super::upload::{CHUNK, Upload, excess};
use super::world::World;

/// Whether a connection lives; shared with whoever may end it.
#[derive(Debug, Default)]
pub(super) struct Line {
    dead: Mutex<bool>,
    ended: Condvar,
}

impl Line {
    /// Ends the connection. May be called any number of times.
    pub(super) fn kill(&self) {
        *self.dead.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.notify_all();
    }

    fn is_dead(&self) -> bool {
        *self.dead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_end(&self) {
        let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        while !*dead {
            dead = self.ended.wait(dead).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    world: Arc<Mutex<World>>,
    line: Arc<Line>,
}

/// What befalls a call while it is under way and once it is done.
#[derive(Default)]
struct Fate {
    cut: bool,
    lost_tail: u64,
    points: Vec<Point>,
    /// At how many bytes of an upload the connection dies.
    cut_at: Option<u64>,
    /// What runs at how many bytes of an upload.
    during: Vec<(u64, Point)>,
}

impl Fate {
    /// An upload has come this far.
    fn reach(&mut self, bytes: u64, line: &Line) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.during).into_iter().partition(|(at, _)| *at <= bytes);
        self.during = later;
        for (_, point) in due {
            point();
        }
        if self.cut_at.is_some_and(|at| at <= bytes) {
            line.kill();
        }
    }
}

/// Locks the world. A test that failed while it held the lock must not hide its own failure behind
/// those of other threads.
pub(super) fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(super) fn new(world: Arc<Mutex<World>>, line: Arc<Line>) -> Self {
        Self { world, line }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Notes a call and lets happen what is to happen before it.
    fn enter(&self, call: &'static str, object: &str, changes: bool) -> CallResult<Fate> {
        if self.line.is_dead() {
            return Err(error::closed());
        }
        let effects = self.world().note(Called { call, object: object.to_owned(), changes });
        let mut fate = Fate::default();
        for effect in effects {
            match effect {
                Effect::Refuse(refusal) => {
                    if refusal.dead {
                        self.line.kill();
                    }
                    return Err(refusal);
                }
                Effect::CutBefore => self.line.kill(),
                Effect::CutAfter => fate.cut = true,
                Effect::Hang => self.line.wait_for_end(),
                Effect::Before(point) => point(),
                Effect::After(point) => fate.points.push(point),
                Effect::LoseTail(bytes) => fate.lost_tail = bytes,
                Effect::CutUpload(bytes) => fate.cut_at = Some(bytes),
                Effect::DuringUpload(bytes, point) => fate.during.push((bytes, point)),
            }
        }
        self.in_time()?;
        Ok(fate)
    }

    /// The connection may have been ended while the call was under way.
    fn in_time(&self) -> CallResult<()> {
        if self.line.is_dead() { Err(error::cut()) } else { Ok(()) }
    }

    fn leave<T>(&self, fate: Fate, answer: CallResult<T>) -> CallResult<T> {
        for point in fate.points {
            point();
        }
        if fate.cut {
            self.line.kill();
        }
        self.in_time()?;
        answer
    }

    fn read<T>(
        &self,
        call: &'static str,
        object: &str,
        act: impl FnOnce(&mut World) -> CallResult<T>,
    ) -> CallResult<T> {
        let fate = self.enter(call, object, false)?;
        let answer = act(&mut self.world());
        self.leave(fate, answer)
    }

    fn change<T>(
        &self,
        call: &'static str,
        object: &str,
        act: impl FnOnce(&mut World) -> CallResult<T>,
    ) -> CallResult<T> {
        let fate = self.enter(call, object, true)?;
        let answer = act(&mut self.world());
        self.leave(fate, answer)
    }

    fn name_of(&self, uuid: Uuid) -> String {
        self.world().name_of(uuid)
    }

    /// Streams piece by piece; the world is free between two, so that others may interfere.
    fn stream(
        &self,
        upload: &mut Upload,
        from: &mut dyn Read,
        length: u64,
        sent: &mut dyn FnMut(u64),
        fate: &mut Fate,
    ) -> CallResult<()> {
        let mut total = 0_u64;
        let mut piece = next_piece(from)?;
        while !piece.is_empty() {
            let following = next_piece(from)?;
            self.in_time()?;
            let room = length.saturating_sub(total);
            let fits = piece.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let announced = piece.get(..fits).unwrap_or(&piece);
            let mut world = self.world();
            let now = world.now();
            upload.write(&mut world.pool, announced, following.is_empty(), now)?;
            drop(world);
            total = total.saturating_add(u64::try_from(fits).unwrap_or(u64::MAX));
            sent(total);
            fate.reach(total, &self.line);
            if fits < piece.len() {
                return Err(excess());
            }
            piece = following;
        }
        self.in_time()
    }
}

/// Reads a full piece, a shorter one only at the end.
fn next_piece(from: &mut dyn Read) -> CallResult<Vec<u8>> {
    let mut piece = Vec::new();
    let limit = u64::try_from(CHUNK).unwrap_or(u64::MAX);
    from.take(limit).read_to_end(&mut piece).map_err(|source| CallError {
        code: code::SYSTEM_ERROR,
        domain: part::NONE,
        message: format!("cannot read what is to be uploaded: {source}"),
        dead: false,
        ended: None,
    })?;
    Ok(piece)
}

impl Calls for Connection {
    fn libvirt_version(&mut self) -> CallResult<u64> {
        self.read("libvirt_version", "", |world| Ok(world.facts().libvirt.number))
    }

    fn hypervisor_version(&mut self) -> CallResult<u64> {
        self.read("hypervisor_version", "", |world| Ok(world.facts().hypervisor.number))
    }

    fn hostname(&mut self) -> CallResult<String> {
        self.read("hostname", "", |world| Ok(world.facts().hostname.clone().unwrap_or_default()))
    }

    fn domain_capabilities(&mut self, domain_type: &str) -> CallResult<String> {
        self.read("domain_capabilities", domain_type, |world| world.domain_capabilities(domain_type))
    }

    fn interface_exists(&mut self, name: &str) -> CallResult<Option<bool>> {
        self.read("interface_exists", name, |world| {
            let known = world.facts().interfaces.as_ref();
            Ok(known.map(|known| known.iter().any(|interface| interface == name)))
        })
    }

    fn list_domains(&mut self, which: Which) -> CallResult<Vec<DomainRow>> {
        self.read("list_domains", "", |world| Ok(world.list(which)))
    }

    fn domain_stats(&mut self) -> CallResult<Vec<DomainStats>> {
        self.read("domain_stats", "", |world| Ok(world.stats()))
    }

    fn find_domain(&mut self, name: &str) -> CallResult<Option<DomainRow>> {
        self.read("find_domain", name, |world| Ok(world.find(name)))
    }

    fn domain_exists(&mut self, uuid: Uuid) -> CallResult<bool> {
        self.read("domain_exists", &self.name_of(uuid), |world| Ok(world.exists(uuid)))
    }

    fn metadata(&mut self, uuid: Uuid, config: Config, uri: &str) -> CallResult<Option<String>> {
        self.read("metadata", &self.name_of(uuid), |world| match world.metadata(uuid, config, uri) {
            Ok(element) => Ok(Some(element)),
            Err(error) if error.code == code::NO_DOMAIN_METADATA => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn set_metadata(&mut self, uuid: Uuid, configs: &[Config], uri: &str, prefix: &str, xml: &str) -> CallResult<()> {
        self.change("set_metadata", &self.name_of(uuid), |world| world.set_metadata(uuid, configs, uri, prefix, xml))
    }

    fn domain_xml(&mut self, uuid: Uuid, config: Config) -> CallResult<String> {
        self.read("domain_xml", &self.name_of(uuid), |world| world.xml(uuid, config))
    }

    fn domain_state(&mut self, uuid: Uuid) -> CallResult<(i32, i32)> {
        self.read("domain_state", &self.name_of(uuid), |world| world.state(uuid))
    }

    fn define(&mut self, xml: &str) -> CallResult<DomainRow> {
        let name = super::config::DomainConfig::parse(xml).map(|config| config.name).unwrap_or_default();
        self.change("define", &name, |world| world.define(xml))
    }

    fn start(&mut self, uuid: Uuid) -> CallResult<()> {
        self.change("start", &self.name_of(uuid), |world| world.start(uuid))
    }

    fn shutdown(&mut self, uuid: Uuid) -> CallResult<()> {
        self.change("shutdown", &self.name_of(uuid), |world| world.shutdown(uuid))
    }

    fn destroy(&mut self, uuid: Uuid) -> CallResult<()> {
        self.change("destroy", &self.name_of(uuid), |world| world.destroy(uuid))
    }

    fn undefine(&mut self, uuid: Uuid, with: UndefineWith) -> CallResult<()> {
        self.change("undefine", &self.name_of(uuid), |world| world.undefine(uuid, with))
    }

    fn set_autostart(&mut self, uuid: Uuid, on: bool) -> CallResult<()> {
        self.change("set_autostart", &self.name_of(uuid), |world| world.set_autostart(uuid, on))
    }

    fn addresses(&mut self, uuid: Uuid, source: AddressSource, _agent_seconds: i32) -> CallResult<Vec<NicAddresses>> {
        self.read("addresses", &self.name_of(uuid), |world| world.addresses(uuid, source))
    }

    fn pool(&mut self) -> CallResult<PoolInfo> {
        self.read("pool", "", |world| world.pool.info())
    }

    fn refresh_pool(&mut self) -> CallResult<()> {
        // It changes what libvirt knows, but nothing on the host: the clock stands.
        self.read("refresh_pool", "", |world| world.pool.refresh())
    }

    fn volume_names(&mut self) -> CallResult<Vec<String>> {
        self.read("volume_names", "", |world| world.pool.names())
    }

    fn volume(&mut self, name: &str) -> CallResult<Option<Volume>> {
        self.read("volume", name, |world| world.pool.volume(name))
    }

    fn create_volume(&mut self, xml: &str) -> CallResult<()> {
        let name = super::volume_xml::VolumeXml::parse(xml).map(|volume| volume.name).unwrap_or_default();
        self.change("create_volume", &name, |world| {
            let now = world.now();
            world.pool.create(xml, now)
        })
    }

    fn delete_volume(&mut self, name: &str) -> CallResult<()> {
        self.change("delete_volume", name, |world| world.pool.delete(name))
    }

    fn upload(&mut self, name: &str, from: &mut dyn Read, length: u64, sent: &mut dyn FnMut(u64)) -> CallResult<()> {
        let mut fate = self.enter("upload", name, true)?;
        let begun = Upload::begin(&self.world().pool, name);
        let answer = begun.and_then(|mut upload| {
            let answer = self.stream(&mut upload, from, length, sent, &mut fate);
            let mut world = self.world();
            let lost = if answer.is_ok() { fate.lost_tail.max(world.pool.lost_tail()) } else { 0 };
            upload.end(&mut world.pool, lost);
            answer
        });
        self.leave(fate, answer)
    }
}
