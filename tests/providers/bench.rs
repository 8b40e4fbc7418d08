//! A fleet on a host, and what a run does with it: look, plan, act. All of it through the trait.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use egress_plan::load::{Loaded, ProviderConfig, Sources, load};
use egress_plan::plan::{
    Action, ActionKind, Bound, Desired, HostRef, HostState, HostView, Instance, Label, Mode, Observed, Plan, Policy,
    lint, plan,
};
use egress_plan::provider::libvirt::config::LibvirtConfig;
use egress_plan::provider::libvirt::image::{Downloads, Limits};
use egress_plan::provider::libvirt::naming::RunId;
use egress_plan::provider::libvirt::{LibvirtProvider, Links, RunContext};
use egress_plan::provider::{Depth, Done, LockAttempt, Provider, ProviderError, StepContext};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::ground::{Ground, HOST};

/// The fleet of a trial.
pub struct Bench {
    pub links: Arc<Links>,
    ground: Arc<dyn Ground>,
    runtime: Runtime,
    folder: TempDir,
    loaded: Loaded,
    config: Arc<LibvirtConfig>,
    provider: Arc<dyn Provider>,
    host: Label,
}

/// A manifest of a proxy on the host.
pub fn manifest(name: &str, port: u16, user_data: &str) -> String {
    format!(
        "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: {name}}}\nspec:\n  provider: lab\n  \
         port: {port}\n  placement: {{zone: h1, machineType: tiny, image: blank}}\n  \
         cloudInit: \"#cloud-config\\n# {user_data}\\n\"\n"
    )
}

fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

fn read(folder: &Path) -> Loaded {
    let sources =
        Sources { filenames: vec![folder.join("manifests")], config: folder.join("config.yaml"), ..Sources::default() };
    load(&sources, &mut std::io::empty()).unwrap_or_else(|problems| panic!("{:?}", problems.as_slice()))
}

impl Bench {
    /// A fleet of its own, in which nothing is wanted yet.
    pub fn new(ground: Arc<dyn Ground>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let fleet = format!("conformance-{}", &random()[..8]);
        fs::create_dir(folder.path().join("manifests")).expect("a folder");
        fs::write(folder.path().join("config.yaml"), ground.config(&fleet)).expect("a file");
        fs::write(folder.path().join("manifests/wanted.yaml"), "apiVersion: v1\nkind: List\nitems: []\n")
            .expect("a file");
        ground.prepare(folder.path());
        let loaded = read(folder.path());
        let ProviderConfig::Libvirt(config) = &loaded.providers[0];
        let config = Arc::new((**config).clone());
        let links = Arc::new(Links::new(Arc::clone(&config)).unwrap_or_else(|error| panic!("{error}")));
        let host = HOST.parse::<HostRef>().expect("a host").host;
        let provider = provider(&config, &links, &loaded.desired);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { links, ground, runtime: runtime.expect("a runtime"), folder, loaded, config, provider, host }
    }

    /// Runs a trial between two sweeps, the last one also when it fails.
    pub fn swept(mut self, trial: fn(&mut Self)) {
        self.sweep();
        let result = catch_unwind(AssertUnwindSafe(|| trial(&mut self)));
        self.sweep();
        self.runtime.block_on(self.provider.close());
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    }

    /// Deletes every machine of the fleet, whatever its state.
    fn sweep(&mut self) {
        self.want(&[]);
        self.lock();
        let policy = Policy { destroy: true, ..policy() };
        for action in self.plan_by(&policy).actions {
            self.act(&action).unwrap_or_else(|error| panic!("{}: {error}", action.id.0));
        }
        self.unlock();
    }

    /// Another run of the same fleet on the same host, by another process as it were.
    pub fn another_run(&self) -> Arc<dyn Provider> {
        provider(&self.config, &self.links, &self.loaded.desired)
    }

    /// The provider of this run.
    pub fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    /// The host's name.
    pub fn host(&self) -> &Label {
        &self.host
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// From now on, these manifests are wanted and nothing else.
    pub fn want(&mut self, manifests: &[String]) {
        let text = match manifests {
            [] => "apiVersion: v1\nkind: List\nitems: []\n".to_owned(),
            some => some.join("---\n"),
        };
        fs::write(self.folder.path().join("manifests/wanted.yaml"), text).expect("a file");
        self.loaded = read(self.folder.path());
    }

    /// Takes the lock, which must be free.
    pub fn lock(&self) {
        let taken = self.wait(self.provider.lock(&self.host)).unwrap_or_else(|trouble| panic!("{trouble:?}"));
        assert_eq!(taken, LockAttempt::Acquired);
    }

    pub fn unlock(&self) {
        self.wait(self.provider.unlock(&self.host));
    }

    /// Looks as a run under its lock does.
    pub fn look(&self) -> HostView {
        self.wait(self.provider.observe(&self.host, Depth::Locked)).unwrap_or_else(|trouble| panic!("{trouble:?}"))
    }

    /// The only machine of the fleet.
    pub fn machine(&self) -> Instance {
        let mut instances = self.look().instances;
        assert_eq!(instances.len(), 1, "{instances:?}");
        instances.remove(0)
    }

    pub fn plan(&self) -> Plan {
        self.plan_by(&policy())
    }

    /// The plan for what is wanted and seen, which must keep all promises of a plan.
    fn plan_by(&self, policy: &Policy) -> Plan {
        let place: HostRef = HOST.parse().expect("a host");
        let observed = Observed { hosts: BTreeMap::from([(place, HostState::Known(Box::new(self.look())))]) };
        let desired = &self.loaded.desired;
        let made = plan(desired, &observed, policy, jiff::Timestamp::now());
        let broken = lint::lint(&made, desired, &observed, policy);
        assert!(broken.is_empty(), "{broken:?}");
        made
    }

    /// The only action of the plan, which must be of this kind.
    pub fn planned(&self, verb: &str) -> Action {
        let plan = self.plan();
        let verbs: Vec<&str> = plan.actions.iter().map(|action| action.kind.verb()).collect();
        assert_eq!(verbs, [verb], "{plan:#?}");
        plan.actions[0].clone()
    }

    /// Does an action, and brings the image that it needs.
    pub fn act(&self, action: &Action) -> Result<Done, ProviderError> {
        let context = StepContext { cancel: CancellationToken::new(), tell: Arc::new(|_| ()) };
        if let Some(make) = action.kind.make() {
            self.wait(self.provider.ensure_image(&self.host, &make.image, &context))?;
        }
        let wanted = match &action.kind {
            ActionKind::Delete { .. } => None,
            _ => self.loaded.desired.proxies.get(&action.key),
        };
        let wanted = wanted.and_then(|proxy| match &proxy.mode {
            Mode::Managed(managed) => Some((proxy, &**managed)),
            Mode::External { .. } => None,
        });
        self.wait(self.provider.act(action, wanted, &context))
    }

    /// Does an action that must succeed.
    pub fn done(&self, action: &Action) -> Done {
        self.act(action).unwrap_or_else(|error| panic!("{}: {error}", action.id.0))
    }

    /// Makes the machine of this manifest, under the lock that it takes.
    pub fn with_machine(&mut self, manifest: String) -> Instance {
        self.want(&[manifest]);
        self.lock();
        self.done(&self.planned("create"));
        self.machine()
    }

    /// Demands that nothing is left to do.
    pub fn settled(&self) {
        let plan = self.plan();
        assert!(!plan.has_changes() && !plan.is_incomplete(), "{plan:#?}");
    }

    pub fn files(&self, machine: &str) -> Vec<String> {
        self.ground.files(self, machine)
    }

    pub fn switch_off(&self, machine: &str) {
        self.ground.switch_off(self, machine);
    }

    pub fn pause(&self, machine: &str) {
        self.ground.pause(self, machine);
    }

    pub fn save(&self, machine: &str) {
        self.ground.save(self, machine);
    }

    pub fn squat(&self, machine: &str) {
        self.ground.squat(self, machine);
    }

    pub fn told(&self, machine: &str) -> String {
        self.ground.told(self, machine)
    }

    pub fn evict(&self, machine: &str) {
        self.ground.evict(self, machine);
    }

    pub fn remove_file(&self, file: &str) {
        self.ground.remove_file(self, file);
    }
}

/// Orphans may go at once.
fn policy() -> Policy {
    Policy {
        min_age: jiff::SignedDuration::ZERO,
        max_deletions: Bound::Percent(100),
        allow_empty: true,
        ..Policy::default()
    }
}

fn provider(config: &Arc<LibvirtConfig>, links: &Arc<Links>, desired: &Desired) -> Arc<dyn Provider> {
    let place: HostRef = HOST.parse().expect("a host");
    let run = RunContext {
        fleet: desired.fleet.clone(),
        run: RunId::parse(&random()[..16]).expect("a run's id"),
        source: None,
        places: BTreeSet::from([place]),
        wanted: BTreeMap::new(),
        url_images: BTreeSet::new(),
        stop: CancellationToken::new(),
        wait_running: true,
    };
    let limits = Limits { total: Duration::from_mins(1), ..Limits::default() };
    let downloads = Arc::new(Downloads::new(None, 1, limits));
    Arc::new(LibvirtProvider::new(Arc::clone(config), Arc::clone(links), downloads, &run))
}
