//! The provider: joins config, sessions and operations behind the trait that the executor knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::bases::Pool;
use super::blueprint::blueprint;
use super::check;
use super::config::{Access, Host, LibvirtConfig};
use super::create::Blueprint;
use super::host::calls::Calls;
use super::host::link::Purpose;
use super::host::traced::Budgets;
use super::image::{Downloads, Watch};
use super::image_cache::{self, Spooled};
use super::links::Links;
use super::lock::{self, NotAcquired};
use super::machine;
use super::naming::RunId;
use super::observe;
use super::prune;
use super::session::{Session, dial_failure, drop_on_thread, on_thread};
use super::simulated;
use super::site::Site;
use super::sources::ImageSources;
use super::work::Work;
use crate::plan::{Action, Address, HostRef, HostTrouble, HostView, ImageNeed, Label, Managed, Proxy, Reason};
use crate::provider::error::{Class, ProviderError};
use crate::provider::{
    CheckReport, Depth, Direction, Done, HostImage, LockAttempt, Progress, Provider, Prunable, Prunables, Pruned,
    StepContext, Transfer,
};

/// How long removing an unfinished image may take, a cancelled run included.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// What a run tells its libvirt entries.
pub struct RunContext {
    /// The ownership scope.
    pub fleet: Label,
    /// The run.
    pub run: RunId,
    /// The source of manifests, where there is one.
    pub source: Option<String>,
    /// Every place of the config.
    pub places: BTreeSet<HostRef>,
    /// Names of wanted instances, by place.
    pub wanted: BTreeMap<HostRef, BTreeSet<String>>,
    /// Images of manifests that are URLs.
    pub url_images: BTreeSet<String>,
    /// Ends image uploads.
    pub stop: CancellationToken,
    /// Whether a start is followed until the domain runs.
    pub wait_running: bool,
}

/// One entry of type libvirt.
pub struct LibvirtProvider {
    config: Arc<LibvirtConfig>,
    source: Option<String>,
    links: Arc<Links>,
    sessions: BTreeMap<Label, Arc<Session>>,
    images: ImageSources,
    downloads: Arc<Downloads>,
    pub(super) stop: CancellationToken,
    /// How long a start is followed; not at all when absent.
    running: Option<Duration>,
}

impl LibvirtProvider {
    /// Joins an entry's config with what the run says. Dials nothing.
    #[must_use]
    pub fn new(config: Arc<LibvirtConfig>, links: Arc<Links>, downloads: Arc<Downloads>, run: &RunContext) -> Self {
        let images = ImageSources::new(&config, &run.url_images);
        let sessions = config
            .hosts
            .iter()
            .map(|(name, host)| {
                let place = HostRef { entry: config.entry.clone(), host: name.clone() };
                let site = Site {
                    fleet: run.fleet.clone(),
                    aliases: host.aliases.clone(),
                    places: run.places.clone(),
                    image_ids: images.ids(),
                    run: run.run.clone(),
                    pool: host.pool.clone(),
                    reserve: host.pool_reserve,
                    wanted: run.wanted.get(&place).cloned().unwrap_or_default(),
                    place,
                };
                let session = Session::new(site, links.link(name, host), budgets(&config), config.budgets.dial);
                (name.clone(), Arc::new(session))
            })
            .collect();
        let running = run.wait_running.then_some(config.budgets.wait_running);
        Self { config, source: run.source.clone(), links, sessions, images, downloads, stop: run.stop.clone(), running }
    }

    fn session(&self, host: &Label) -> Result<&Arc<Session>, ProviderError> {
        self.sessions.get(host).ok_or_else(|| not_in_config(host))
    }

    fn host(&self, host: &Label) -> Result<&Host, ProviderError> {
        self.config.hosts.get(host).ok_or_else(|| not_in_config(host))
    }

    async fn upload(
        &self,
        session: &Arc<Session>,
        need: &ImageNeed,
        spooled: Spooled,
        context: &StepContext,
    ) -> Result<(), ProviderError> {
        let connection = session
            .open(Purpose::Upload, &context.cancel, self.config.budgets.dial)
            .await
            .map_err(|error| dial_failure(&error))?;
        let (site, need_there, tell) = (session.site.clone(), need.clone(), Arc::clone(&context.tell));
        let nonce: String = Uuid::new_v4().simple().to_string().chars().take(12).collect();
        let fence = session.fence.clone();
        let (result, connection) = on_thread(connection, move |calls| {
            fence.check(calls)?;
            let total = Some(spooled.bytes);
            let mut sent = |done: u64| {
                let (image, place) = (need_there.key.clone(), Some(site.place.clone()));
                tell(Progress::Transfer(Transfer { direction: Direction::Upload, image, place, done, total }));
            };
            Ok(image_cache::put(calls, &fence, &site.place.entry, &need_there, &spooled, &nonce, &mut sent))
        })
        .await?;
        // The connection goes before anything is cleaned up, so that nothing writes any more. A lost answer
        // on it does not keep the lock: what it may still do concerns a file of a fresh name, which nobody
        // uses without a proof.
        drop_on_thread(connection).await;
        let Err((failure, unfinished)) = result? else { return Ok(()) };
        if let Some(base) = unfinished {
            // Its own token: an interrupted run cleans up all the same.
            let clean_up = CancellationToken::new();
            let removal = session.with(&clean_up, move |calls| image_cache::discard(calls, &base));
            match tokio::time::timeout(CLEAN_UP, removal).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(host = %session.site.place, %error, "an unfinished image was left behind; it has no proof and is never used");
                }
                Err(_) => {
                    tracing::warn!(host = %session.site.place, "an unfinished image was left behind, for the host did not answer in time; it is never used");
                }
            }
        }
        Err(failure)
    }
}

/// Passes the progress of a download on.
struct Told {
    tell: Arc<dyn Fn(Progress) + Send + Sync>,
    image: String,
}

impl Watch for Told {
    fn progress(&self, done: u64, total: Option<u64>) {
        let image = self.image.clone();
        (self.tell)(Progress::Transfer(Transfer { direction: Direction::Download, image, place: None, done, total }));
    }

    fn attempt_failed(&self, attempt: u32, error: &ProviderError) {
        tracing::warn!(image = %self.image, attempt, %error, "a download is tried again");
    }
}

pub(super) fn budgets(config: &LibvirtConfig) -> Budgets {
    Budgets {
        ordinary: config.budgets.call,
        start: config.budgets.start,
        small_upload: config.budgets.small_upload,
        upload: config.budgets.image_upload,
        upload_silence: config.budgets.transfer_idle,
    }
}

fn not_in_config(host: &Label) -> ProviderError {
    let why = "it is not in the config";
    ProviderError::new(Class::Permanent, Reason::Unresolved, "find the host", host.to_string(), why)
}

#[async_trait]
impl Provider for LibvirtProvider {
    fn entry(&self) -> &Label {
        &self.config.entry
    }

    fn hosts(&self) -> Vec<Label> {
        self.sessions.keys().cloned().collect()
    }

    async fn reach(&self, host: &Label) -> Result<(), HostTrouble> {
        let session = self.session(host).map_err(observe::unknown)?;
        session
            .with(&self.stop, |calls| {
                calls
                    .libvirt_version()
                    .map(drop)
                    .map_err(|error| super::classify::classify("ask for the version", "", &error))
            })
            .await
            .map_err(observe::unknown)
    }

    async fn lock(&self, host: &Label) -> Result<LockAttempt, HostTrouble> {
        let session = self.session(host).map_err(observe::unknown)?;
        let site = session.site.clone();
        let acquired = session.with_lock(move |calls| Ok(lock::acquire(calls, &site))).await;
        match acquired.map_err(observe::unknown)? {
            Ok((attempt, held)) => {
                session.fence.set(held);
                Ok(attempt)
            }
            Err(not_acquired) => {
                let NotAcquired { failure, left } = *not_acquired;
                // Over another link, or it would hold every run up until it runs out. One whose making
                // got no answer may be made later still.
                if let Some(left) = left.filter(|_| !session.is_suspect())
                    && let Err(error) = session.with_lock(move |calls| lock::withdraw(calls, &left)).await
                {
                    tracing::warn!(host = %session.site.place, %error, "a lock of this run is left to run out by itself");
                }
                Err(observe::unknown(failure))
            }
        }
    }

    async fn renew(&self, host: &Label) -> Result<(), ProviderError> {
        let session = self.session(host)?;
        let (site, fence) = (session.site.clone(), session.fence.clone());
        session.with_lock(move |calls| lock::renew(calls, &site, &fence)).await
    }

    async fn unlock(&self, host: &Label) {
        let Ok(session) = self.session(host) else { return };
        let Some(held) = session.fence.held() else { return };
        session.fence.set(None);
        if session.is_suspect() {
            tracing::warn!(host = %session.site.place, "an answer was lost, so the lock of this host is left to run out by itself");
            return;
        }
        let release = |held: lock::Held| session.with_lock(move |calls| lock::release(calls, &held));
        // A connection that died while it was idle says nothing about the host (L3), and giving a lock
        // back twice does no harm. A host that was dialled for it and did not answer has had its chance.
        let was_idle = session.has_idle();
        let given_back = match release(held.clone()).await {
            Err(error) if was_idle && error.class == Class::Transient => release(held).await,
            given_back => given_back,
        };
        if let Err(error) = given_back {
            tracing::warn!(host = %session.site.place, %error, "the lock could not be given back; it runs out by itself");
        }
    }

    async fn observe(&self, host: &Label, depth: Depth) -> Result<HostView, HostTrouble> {
        let session = self.session(host).map_err(observe::unknown)?;
        let begun = Instant::now();
        let looked = self.judge(session, depth == Depth::Locked).await;
        // Later looks find another value there, and leave it.
        let _ = session.looked.set(begun.elapsed());
        let mut view = looked?;
        if depth == Depth::Locked && view.instances.iter().any(|machine| !machine.missing_disks.is_empty()) {
            // The folder may have been away for a moment when libvirt looked at it the last time, or be away
            // since: the host is judged anew by what is there now.
            self.refresh(session).await?;
            view = self.judge(session, false).await?;
        }
        if depth == Depth::Locked && session.fence.held().is_some() {
            // Whoever holds the lock is this run; what others left is what a dead run left.
            view.lock = None;
        } else if depth == Depth::Locked {
            // The pool was stopped when the lock was to be made in it.
            view.store.active = false;
        }
        self.confirm_missing_disks(session, &mut view).await?;
        if depth == Depth::Addresses {
            self.read_addresses(session, &mut view).await;
        }
        Ok(view)
    }

    async fn ensure_image(&self, host: &Label, need: &ImageNeed, context: &StepContext) -> Result<Done, ProviderError> {
        let session = self.session(host)?;
        let (fence, wanted) = (session.fence.clone(), need.clone());
        let find = move |calls: &mut dyn Calls| {
            fence.check(calls)?;
            image_cache::find(calls, &wanted)
        };
        if session.with(&context.cancel, find).await?.is_some() {
            return Ok(Done { already: true, ..Done::default() });
        }
        let begun = Instant::now();
        (context.tell)(Progress::Stage("download"));
        let source = self.images.source(need)?;
        let watch = Told { tell: Arc::clone(&context.tell), image: need.key.clone() };
        // Whichever made the file keeps it until the upload is over.
        let (spooled, _kept): (Spooled, Box<dyn Send + Sync>) = match &self.host(host)?.access {
            Access::Recorded(_) => {
                let (spooled, path) = simulated::image(&source)?;
                (spooled, Box::new(path))
            }
            Access::Ssh(_) | Access::Local { .. } => {
                let fetched = self.downloads.fetch(&source, &watch, &context.cancel).await?;
                let spooled = Spooled {
                    path: fetched.path.clone(),
                    bytes: fetched.bytes,
                    sha256: fetched.sha256.clone(),
                    format: source.format,
                };
                (spooled, Box::new(fetched))
            }
        };
        let downloaded = begun.elapsed();
        (context.tell)(Progress::Stage("upload"));
        let (bytes, reserve, wanted) = (spooled.bytes, session.site.reserve, need.clone());
        session.with(&context.cancel, move |calls| image_cache::check_space(calls, &wanted, bytes, reserve)).await?;
        let begun = Instant::now();
        self.upload(session, need, spooled, context).await?;
        Ok(Done { stages: vec![("download", downloaded), ("upload", begun.elapsed())], ..Done::default() })
    }

    async fn act(
        &self,
        action: &Action,
        proxy: Option<(&Proxy, &Managed)>,
        context: &StepContext,
    ) -> Result<Done, ProviderError> {
        let session = self.session(&action.place.host)?;
        let host = self.host(&action.place.host)?;
        let plan = match action.kind.make() {
            Some(make) => {
                let (proxy, managed) = proxy.ok_or_else(|| {
                    machine::changed(Reason::Changed, &action.instance, "the proxy is not wanted any more")
                })?;
                Some(Blueprint {
                    running: self.running,
                    ..blueprint(&self.config, host, &session.site, self.source.as_deref(), proxy, managed, make)?
                })
            }
            None => None,
        };
        let work = Work {
            site: session.site.clone(),
            fence: session.fence.clone(),
            instance: action.instance.clone(),
            kind: action.kind.clone(),
            blueprint: plan,
            drain: self.config.drain_timeout,
            running: self.running,
            context: context.clone(),
        };
        session.with(&context.cancel, move |calls| work.run(calls)).await
    }

    async fn address(&self, host: &Label, uuid: &str) -> Address {
        match self.session(host) {
            Ok(session) => self.address_of(session, uuid).await,
            Err(failure) => Address::Unknown(failure.to_string()),
        }
    }

    async fn check(&self, host: &Label, budget: Duration) -> CheckReport {
        match (self.session(host), self.host(host)) {
            (Ok(session), Ok(settings)) => {
                // A connection of its own, so that a check never disturbs real work (L9).
                let link = self.links.link(host, settings);
                check::check(&self.config, settings, &session.site, link, budgets(&self.config), budget).await
            }
            (Err(failure), _) | (_, Err(failure)) => {
                check::failed(HostRef { entry: self.config.entry.clone(), host: host.clone() }, failure)
            }
        }
    }

    async fn images(&self, host: &Label) -> Result<Vec<HostImage>, HostTrouble> {
        let session = self.session(host).map_err(observe::unknown)?;
        let name = session.site.pool.clone();
        let pool = session.with(&self.stop, move |calls| Pool::read(calls, &name)).await.map_err(observe::unknown)?;
        Ok(pool.images(&self.config.entry, jiff::Timestamp::now()))
    }

    async fn prunables(
        &self,
        host: &Label,
        needed: &BTreeSet<String>,
        leftovers: bool,
    ) -> Result<Prunables, HostTrouble> {
        let session = self.session(host).map_err(observe::unknown)?;
        let (name, fence, needed) = (session.site.pool.clone(), session.fence.clone(), needed.clone());
        session
            .with(&self.stop, move |calls| {
                // Somebody may have made an overlay by hand, of which libvirt has not heard yet.
                observe::refresh_pool(calls, &name)?;
                let pool = Pool::read(calls, &name)?;
                let now = lock::clock(calls, &fence)?;
                Ok(prune::prunables(&pool, &needed, leftovers, now))
            })
            .await
            .map_err(observe::unknown)
    }

    async fn prune(&self, host: &Label, item: &Prunable, cancel: &CancellationToken) -> Result<Pruned, ProviderError> {
        let session = self.session(host)?;
        let (name, fence, item) = (session.site.pool.clone(), session.fence.clone(), item.clone());
        session.with(cancel, move |calls| prune::remove(calls, &name, &fence, &item)).await
    }

    fn calls(&self, host: &Label) -> u64 {
        self.sessions.get(host).map_or(0, |session| session.call_count())
    }

    fn looked_for(&self, host: &Label) -> Option<Duration> {
        self.sessions.get(host)?.looked.get().copied()
    }

    async fn close(&self) {
        futures::future::join_all(self.sessions.values().map(|session| session.close())).await;
    }
}
