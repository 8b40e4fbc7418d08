//! The decorator that gives every call its span, its log line and its budget.
//!
//! A call cannot be cancelled, so one that takes too long is ended by cutting its connection. A
//! watch, one task of the runtime a call, does that; it ends with the call, so nothing of it stays.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use uuid::Uuid;

use super::calls::{
    AddressSource, CallError, CallResult, Calls, Config, DomainRow, DomainStats, Ended, NicAddresses, PoolInfo,
    UndefineWith, Volume, Which, code, part,
};
use super::link::{Kill, Opened};
use crate::provider::error::clean;

/// An upload of at most this many bytes is a small one, a seed: it gets the shorter budget, and runs
/// to its end when the run is interrupted.
pub const SMALL_UPLOAD_MAX: u64 = 16 * 1024 * 1024;

/// How long calls may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// Any call that is not listed below. libvirt itself waits 30 s for a busy domain.
    pub ordinary: Duration,
    /// The start of a domain.
    pub start: Duration,
    /// An upload of at most [`SMALL_UPLOAD_MAX`] bytes.
    pub small_upload: Duration,
    /// Any other upload.
    pub upload: Duration,
    /// How long such an upload may go without a byte.
    pub upload_silence: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            ordinary: Duration::from_secs(45),
            start: Duration::from_secs(90),
            small_upload: Duration::from_mins(1),
            upload: Duration::from_mins(20),
            upload_silence: Duration::from_secs(30),
        }
    }
}

/// What every span and line of a connection says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// The provider entry.
    pub provider: String,
    /// The host.
    pub host: String,
    /// The pool that calls on volumes are about.
    pub pool: String,
}

/// A connection whose calls are traced, logged, counted, and ended when they take too long.
pub struct Traced {
    calls: Box<dyn Calls>,
    kill: Kill,
    labels: Labels,
    budgets: Budgets,
    cancelled: CancellationToken,
    count: Arc<AtomicU64>,
    runtime: Handle,
    names: BTreeMap<Uuid, String>,
    dead: bool,
    suspect: bool,
}

impl Traced {
    /// Decorates a connection. `cancelled` ends the upload of an image; `count` counts the calls.
    ///
    /// Must be made inside a tokio runtime with timers, which runs the watches.
    #[must_use]
    pub fn new(
        opened: Opened,
        labels: Labels,
        budgets: Budgets,
        cancelled: CancellationToken,
        count: Arc<AtomicU64>,
    ) -> Self {
        let Opened { calls, kill } = opened;
        Self {
            calls,
            kill,
            labels,
            budgets,
            cancelled,
            count,
            runtime: Handle::current(),
            names: BTreeMap::new(),
            dead: false,
            suspect: false,
        }
    }

    /// Whether a call came back with the connection gone; every later one would fail.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Whether that call may have changed something on the host all the same.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    fn ordinary<T>(
        &mut self,
        rpc: &'static str,
        about: About,
        call: impl FnOnce(&mut dyn Calls) -> CallResult<T>,
    ) -> CallResult<T> {
        let limit = Limit { total: self.budgets.ordinary, silence: None, cancelled: None };
        self.traced(rpc, about, limit, |calls, _| call(calls))
    }

    fn on_domain<T>(
        &mut self,
        rpc: &'static str,
        uuid: Uuid,
        call: impl FnOnce(&mut dyn Calls) -> CallResult<T>,
    ) -> CallResult<T> {
        let about = self.domain(uuid);
        self.ordinary(rpc, about, call)
    }

    fn domain(&self, uuid: Uuid) -> About {
        About { domain: Some(self.names.get(&uuid).cloned().unwrap_or_else(|| uuid.to_string())), ..About::default() }
    }

    fn of_pool(&self) -> About {
        About { pool: Some(self.labels.pool.clone()), ..About::default() }
    }

    fn of_volume(&self, name: &str) -> About {
        About { volume: Some(name.to_owned()), ..self.of_pool() }
    }

    fn traced<T>(
        &mut self,
        rpc: &'static str,
        about: About,
        limit: Limit,
        call: impl FnOnce(&mut dyn Calls, &Notify) -> CallResult<T>,
    ) -> CallResult<T> {
        let Labels { provider, host, .. } = self.labels.clone();
        let About { domain, pool, volume, length } = about;
        let span = tracing::info_span!(
            "libvirt.call",
            otel.name = format!("libvirt.{rpc}"),
            otel.kind = "client",
            otel.status_code = Empty,
            provider,
            host,
            rpc,
            domain,
            pool,
            volume,
            length,
        );
        let _entered = span.enter();
        self.count.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let watch = Watch::start(&self.runtime, Arc::clone(&self.kill), limit);
        let outcome = call(self.calls.as_mut(), &watch.moved);
        let ended = watch.finish();
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let outcome =
            outcome.map_err(|error| ended.map_or_else(|| error.clone(), |why| given_up(&error, why, started)));
        let offset = length.map(|_| 0_u64);
        match &outcome {
            Ok(_) => {
                tracing::debug!(provider, host, rpc, domain, pool, volume, offset, length, duration_ms, "libvirt call");
            }
            Err(error) => {
                if error.dead || error.ended.is_some() {
                    // A call on a connection that was dead before never got to the host.
                    self.suspect |= !self.dead && CHANGES.contains(&rpc);
                    self.dead = true;
                }
                span.record("otel.status_code", "ERROR");
                let (libvirt_code, libvirt_error, error) = (error.code, error.domain, clean(&error.message));
                tracing::debug!(
                    provider,
                    host,
                    rpc,
                    domain,
                    pool,
                    volume,
                    offset,
                    length,
                    duration_ms,
                    error,
                    libvirt_code,
                    libvirt_error,
                    "libvirt call"
                );
            }
        }
        outcome
    }

    fn learn(&mut self, rows: &[DomainRow]) {
        self.names.extend(rows.iter().map(|row| (row.uuid, row.name.clone())));
    }
}

/// The calls that change something on a host.
const CHANGES: [&str; 10] = [
    "set_metadata",
    "define",
    "start",
    "shutdown",
    "destroy",
    "undefine",
    "set_autostart",
    "create_volume",
    "delete_volume",
    "upload",
];

/// What a call is about, as far as it is about anything.
#[derive(Default)]
struct About {
    domain: Option<String>,
    pool: Option<String>,
    volume: Option<String>,
    length: Option<u64>,
}

struct Limit {
    total: Duration,
    silence: Option<Duration>,
    cancelled: Option<CancellationToken>,
}

const RUNNING: u8 = 0;
const DONE: u8 = 1;
const BUDGET: u8 = 2;
const CANCELLED: u8 = 3;

/// Watches one call, and ends its connection when it has to.
struct Watch {
    state: Arc<AtomicU8>,
    moved: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Watch {
    fn start(runtime: &Handle, kill: Kill, limit: Limit) -> Self {
        let (state, moved) = (Arc::new(AtomicU8::new(RUNNING)), Arc::new(Notify::new()));
        let (shared, heard) = (Arc::clone(&state), Arc::clone(&moved));
        let task = runtime.spawn(async move {
            let why = tokio::select! {
                () = tokio::time::sleep(limit.total) => BUDGET,
                () = silent(&heard, limit.silence) => BUDGET,
                () = cancelled(limit.cancelled) => CANCELLED,
            };
            // Whoever changes the state first decides: a call that is done is not ended any more.
            if shared.compare_exchange(RUNNING, why, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                kill();
            }
        });
        Self { state, moved, task }
    }

    /// The call has returned; says whether it was ended.
    fn finish(self) -> Option<Ended> {
        match self.state.compare_exchange(RUNNING, DONE, Ordering::AcqRel, Ordering::Acquire) {
            Err(BUDGET) => Some(Ended::Budget),
            Err(CANCELLED) => Some(Ended::Cancelled),
            _ => None,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // After a call that panicked as well. A watch that is about to cut the connection is let be.
        if self.state.load(Ordering::Acquire) <= DONE {
            self.task.abort();
        }
    }
}

async fn silent(moved: &Notify, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    while tokio::time::timeout(limit, moved.notified()).await.is_ok() {}
}

async fn cancelled(token: Option<CancellationToken>) {
    match token {
        Some(token) => token.cancelled_owned().await,
        None => std::future::pending().await,
    }
}

fn given_up(error: &CallError, why: Ended, started: Instant) -> CallError {
    let message = match why {
        Ended::Budget => format!("given up after {} s without an end", started.elapsed().as_secs()),
        Ended::Cancelled => "given up, since the run was interrupted".to_owned(),
    };
    CallError { message, dead: true, ended: Some(why), ..error.clone() }
}

impl Calls for Traced {
    fn libvirt_version(&mut self) -> CallResult<u64> {
        self.ordinary("libvirt_version", About::default(), |calls| calls.libvirt_version())
    }

    fn hypervisor_version(&mut self) -> CallResult<u64> {
        self.ordinary("hypervisor_version", About::default(), |calls| calls.hypervisor_version())
    }

    fn hostname(&mut self) -> CallResult<String> {
        self.ordinary("hostname", About::default(), |calls| calls.hostname())
    }

    fn domain_capabilities(&mut self, domain_type: &str) -> CallResult<String> {
        self.ordinary("domain_capabilities", About::default(), |calls| calls.domain_capabilities(domain_type))
    }

    fn interface_exists(&mut self, name: &str) -> CallResult<Option<bool>> {
        self.ordinary("interface_exists", About::default(), |calls| calls.interface_exists(name))
    }

    fn list_domains(&mut self, which: Which) -> CallResult<Vec<DomainRow>> {
        let rows = self.ordinary("list_domains", About::default(), |calls| calls.list_domains(which))?;
        self.learn(&rows);
        Ok(rows)
    }

    fn domain_stats(&mut self) -> CallResult<Vec<DomainStats>> {
        self.ordinary("domain_stats", About::default(), |calls| calls.domain_stats())
    }

    fn find_domain(&mut self, name: &str) -> CallResult<Option<DomainRow>> {
        let about = About { domain: Some(name.to_owned()), ..About::default() };
        let row = self.ordinary("find_domain", about, |calls| calls.find_domain(name))?;
        self.learn(row.as_slice());
        Ok(row)
    }

    fn domain_exists(&mut self, uuid: Uuid) -> CallResult<bool> {
        self.on_domain("domain_exists", uuid, |calls| calls.domain_exists(uuid))
    }

    fn metadata(&mut self, uuid: Uuid, config: Config, uri: &str) -> CallResult<Option<String>> {
        self.on_domain("metadata", uuid, |calls| calls.metadata(uuid, config, uri))
    }

    fn set_metadata(&mut self, uuid: Uuid, configs: &[Config], uri: &str, prefix: &str, xml: &str) -> CallResult<()> {
        self.on_domain("set_metadata", uuid, |calls| calls.set_metadata(uuid, configs, uri, prefix, xml))
    }

    fn domain_xml(&mut self, uuid: Uuid, config: Config) -> CallResult<String> {
        self.on_domain("domain_xml", uuid, |calls| calls.domain_xml(uuid, config))
    }

    fn domain_state(&mut self, uuid: Uuid) -> CallResult<(i32, i32)> {
        self.on_domain("domain_state", uuid, |calls| calls.domain_state(uuid))
    }

    fn define(&mut self, xml: &str) -> CallResult<DomainRow> {
        let row = self.ordinary("define", About::default(), |calls| calls.define(xml))?;
        self.learn(std::slice::from_ref(&row));
        Ok(row)
    }

    fn start(&mut self, uuid: Uuid) -> CallResult<()> {
        let limit = Limit { total: self.budgets.start, silence: None, cancelled: None };
        let about = self.domain(uuid);
        self.traced("start", about, limit, |calls, _| calls.start(uuid))
    }

    fn shutdown(&mut self, uuid: Uuid) -> CallResult<()> {
        self.on_domain("shutdown", uuid, |calls| calls.shutdown(uuid))
    }

    fn destroy(&mut self, uuid: Uuid) -> CallResult<()> {
        self.on_domain("destroy", uuid, |calls| calls.destroy(uuid))
    }

    fn undefine(&mut self, uuid: Uuid, with: UndefineWith) -> CallResult<()> {
        self.on_domain("undefine", uuid, |calls| calls.undefine(uuid, with))
    }

    fn set_autostart(&mut self, uuid: Uuid, on: bool) -> CallResult<()> {
        self.on_domain("set_autostart", uuid, |calls| calls.set_autostart(uuid, on))
    }

    fn addresses(&mut self, uuid: Uuid, source: AddressSource, agent_seconds: i32) -> CallResult<Vec<NicAddresses>> {
        self.on_domain("addresses", uuid, |calls| calls.addresses(uuid, source, agent_seconds))
    }

    fn pool(&mut self) -> CallResult<PoolInfo> {
        self.ordinary("pool", self.of_pool(), |calls| calls.pool())
    }

    fn refresh_pool(&mut self) -> CallResult<()> {
        self.ordinary("refresh_pool", self.of_pool(), |calls| calls.refresh_pool())
    }

    fn volume_names(&mut self) -> CallResult<Vec<String>> {
        self.ordinary("volume_names", self.of_pool(), |calls| calls.volume_names())
    }

    fn volume(&mut self, name: &str) -> CallResult<Option<Volume>> {
        self.ordinary("volume", self.of_volume(name), |calls| calls.volume(name))
    }

    fn create_volume(&mut self, xml: &str) -> CallResult<()> {
        self.ordinary("create_volume", self.of_pool(), |calls| calls.create_volume(xml))
    }

    fn delete_volume(&mut self, name: &str) -> CallResult<()> {
        self.ordinary("delete_volume", self.of_volume(name), |calls| calls.delete_volume(name))
    }

    fn upload(&mut self, name: &str, from: &mut dyn Read, length: u64, sent: &mut dyn FnMut(u64)) -> CallResult<()> {
        let limit = if length <= SMALL_UPLOAD_MAX {
            Limit { total: self.budgets.small_upload, silence: None, cancelled: None }
        } else if self.cancelled.is_cancelled() {
            let message = "not begun, since the run was interrupted".to_owned();
            let (code, domain) = (code::OPERATION_ABORTED, part::NONE);
            return Err(CallError { code, domain, message, dead: false, ended: Some(Ended::Cancelled) });
        } else {
            let (total, silence) = (self.budgets.upload, Some(self.budgets.upload_silence));
            Limit { total, silence, cancelled: Some(self.cancelled.clone()) }
        };
        let about = About { length: Some(length), ..self.of_volume(name) };
        self.traced("upload", about, limit, |calls, moved| {
            calls.upload(name, from, length, &mut |bytes| {
                moved.notify_one();
                sent(bytes);
            })
        })
    }
}

#[cfg(test)]
mod tests;
