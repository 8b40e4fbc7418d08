//! A fleet by hand for the tests of the report: every kind of line that a plan, an outcome and a
//! report can have, on four hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use super::document::{HostFigures, Memory, Report, ReportInput, RunInfo, RunResult, build};
use crate::apply::{ActionOutcome, Failure, ImageOutcome, Outcome, StageTime, StepResult};
use crate::plan::{
    Action, ActionId, ActionKind, Address, Desired, Expect, Fingerprint, Guard, Held, HostRef, HostSettings, HostState,
    HostSummary, HostTrouble, HostView, ImageAction, ImageNeed, Instance, Label, Leftover, LockHolder, MachineSpec,
    Make, Managed, Mark, MarkState, MarkUpdate, Mode, Network, Observed, Plan, Power, Proxy, ProxyKey, Reason, Refusal,
    Resolved, Standing, Store, Verdict,
};

pub(super) fn now() -> Timestamp {
    "2026-11-29T12:00:00Z".parse().expect("a time stamp")
}

pub(super) fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

pub(super) fn key(text: &str) -> ProxyKey {
    text.parse().expect("a proxy key")
}

pub(super) fn host(text: &str) -> HostRef {
    text.parse().expect("a host")
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) fn known(addresses: &[&str]) -> Address {
    Address::Known(addresses.iter().map(|address| ip(address)).collect())
}

pub(super) fn instance_name(key: &str) -> String {
    format!("egress-{}-k3v9q1xz", key.split('/').next_back().expect("a name"))
}

pub(super) fn uuid(key: &str) -> String {
    let digest = Fingerprint::of(1, [("key", key.as_bytes())]).hash;
    format!("{}-0000-4000-8000-000000000000", &digest[..8])
}

pub(super) fn image() -> ImageNeed {
    ImageNeed { key: "debian-13".to_owned(), id: "0123456789abcdef0123456789abcdef".to_owned() }
}

fn fingerprint(text: &str) -> Fingerprint {
    Fingerprint::of(1, [("user-data", text.as_bytes())])
}

// ---- plans

pub(super) fn plan() -> Plan {
    Plan {
        format: Plan::FORMAT.to_owned(),
        fleet: label("crawl-eu"),
        made_at: now(),
        recorded: false,
        hosts: BTreeMap::new(),
        images: Vec::new(),
        actions: Vec::new(),
        held: Vec::new(),
        unchanged: Vec::new(),
        notes: Vec::new(),
        refusals: Vec::new(),
    }
}

pub(super) fn label(text: &str) -> Label {
    text.parse().expect("a label")
}

pub(super) fn known_host() -> HostSummary {
    HostSummary::Known {
        software: "libvirt 11.6.0".to_owned(),
        store: "pool default".to_owned(),
        available_bytes: 242 << 30,
        ours: 3,
        others: 5,
        leftovers: Vec::new(),
        lock: None,
    }
}

pub(super) fn trouble() -> HostTrouble {
    HostTrouble {
        reason: Reason::Unreachable,
        message: "tcp: connection refused by 192.0.2.7:22".to_owned(),
        hint: Some("check the name, the firewall and that sshd runs".to_owned()),
    }
}

fn expect(key: &str) -> Expect {
    Expect {
        uuid: uuid(key),
        spec: fingerprint("old").hash,
        catalogue: fingerprint("cat").hash,
        protect: false,
        source: None,
    }
}

fn make() -> Make {
    Make { spec: fingerprint("new").hash, catalogue: fingerprint("cat").hash, image: image(), disk_bytes: 10 << 30 }
}

fn set() -> MarkUpdate {
    MarkUpdate { port: 3129, labels: "aa".to_owned(), protect: false, source: None }
}

pub(super) fn create(key: &str, place: &str) -> Action {
    let mut action =
        act(key, place, ActionKind::Create { make: make() }, "small (1 vCPU, 1024 MiB), debian-13, 10 GiB disk");
    action.details.push("debian-13 is not on this host and will be fetched".to_owned());
    action
}

pub(super) fn start(key: &str, place: &str) -> Action {
    act(
        key,
        place,
        ActionKind::Start { expect: expect(key), set: set() },
        "it is off (crashed), and its disks are there",
    )
}

pub(super) fn update(key: &str, place: &str) -> Action {
    act(
        key,
        place,
        ActionKind::Update { expect: expect(key), set: set() },
        "port changed (3128 → 3129), labels changed",
    )
}

pub(super) fn replace(key: &str, place: &str) -> Action {
    let removes = vec![format!("{}-4f1c9a2e.qcow2", instance_name(key))];
    let kind = ActionKind::Replace { expect: expect(key), removes, make: make(), forced: false, unfinished: false };
    let mut action = act(key, place, kind, "user-data changed (4f1c9a2e → 90ab77d1)");
    action.details.push(format!("{}, running for 3 days at 192.0.2.18", instance_name(key)));
    action
}

pub(super) fn delete(key: &str, place: &str) -> Action {
    let removes = vec![format!("{}-4f1c9a2e.qcow2", instance_name(key))];
    let kind = ActionKind::Delete { expect: expect(key), removes, forced: false };
    let mut action = act(key, place, kind, "no manifest wants it, 12 days old");
    action.details.push("removes overlay 1.4 GiB, seed, NVRAM".to_owned());
    action
}

fn act(proxy: &str, place: &str, kind: ActionKind, why: &str) -> Action {
    Action {
        id: ActionId(format!("{} {proxy} on {place}", kind.verb())),
        place: host(place),
        key: key(proxy),
        instance: instance_name(proxy),
        kind,
        why: why.to_owned(),
        details: Vec::new(),
        after: Vec::new(),
    }
}

pub(super) fn held(
    proxy: &str,
    place: &str,
    verdict: Verdict,
    reason: Reason,
    message: &str,
    hint: Option<&str>,
) -> Held {
    Held {
        place: Some(host(place)),
        key: Some(key(proxy)),
        instance: Some(instance_name(proxy)),
        verdict,
        reason,
        message: message.to_owned(),
        hint: hint.map(str::to_owned),
    }
}

pub(super) fn paused(proxy: &str, place: &str) -> Held {
    let hint = format!("free space on the pool, then: virsh -c qemu:///system resume {}", instance_name(proxy));
    let message = "the machine is paused after an I/O error; the pool was probably full";
    held(proxy, place, Verdict::Blocked, Reason::Paused, message, Some(&hint))
}

/// A plan with every kind of line.
pub(super) fn everything() -> Plan {
    let mut plan = plan();
    plan.hosts.insert(host("lab/h1"), known_host());
    let mut busy = known_host();
    if let HostSummary::Known { leftovers, lock, others, .. } = &mut busy {
        leftovers.push(Leftover { name: "egress-gone-aaaaaaaa-01020304.qcow2".to_owned(), bytes: Some(1 << 30) });
        leftovers.push(Leftover { name: "egress-gone-aaaaaaaa-01020304-seed.iso".to_owned(), bytes: None });
        *lock = Some(LockHolder {
            run: "7f3a21c9".to_owned(),
            until: Some(now() + SignedDuration::from_mins(5)),
            removal: None,
        });
        *others = 0;
    }
    plan.hosts.insert(host("lab/h2"), busy);
    plan.hosts.insert(host("lab/h3"), HostSummary::Unknown(trouble()));
    plan.hosts.insert(host("lab/h4"), known_host());
    plan.images.push(ImageAction { place: host("lab/h1"), image: image() });
    plan.actions = vec![
        replace("crawlers/crawl-2", "lab/h1"),
        create("crawlers/crawl-3", "lab/h1"),
        start("crawlers/crawl-4", "lab/h1"),
        update("crawlers/crawl-5", "lab/h1"),
        delete("crawlers/old-1", "lab/h1"),
    ];
    let waiting = |proxy, reason, message| held(proxy, "lab/h2", Verdict::Waiting, reason, message, None);
    plan.held = vec![
        waiting(
            "crawlers/young-1",
            Reason::TooYoung,
            "no manifest wants it; it is 2 minutes old and goes when it is 10 minutes old",
        ),
        held(
            "crawlers/kept-1",
            "lab/h2",
            Verdict::Kept,
            Reason::Protected,
            "no manifest wants it, and it is protected",
            Some("to have it deleted, apply its manifest once with protect: false"),
        ),
        paused("crawlers/crawl-9", "lab/h2"),
        held(
            "crawlers/crawl-8",
            "lab/h2",
            Verdict::Blocked,
            Reason::QuotaExceeded,
            "pool default on lab/h2 has room for 4.0 GiB more, and 10.0 GiB are needed",
            Some("free space in the pool, make it larger, or place the proxy on another host"),
        ),
        Held {
            key: None,
            ..held(
                "crawlers/copy",
                "lab/h2",
                Verdict::Blocked,
                Reason::CopiedMark,
                "its mark was written for another machine",
                Some("look at virsh -c qemu:///system dumpxml egress-copy-k3v9q1xz"),
            )
        },
        Held {
            place: None,
            instance: None,
            ..held(
                "crawlers/lost",
                "lab/h9",
                Verdict::Blocked,
                Reason::Unresolved,
                "the config has no host lab/h9",
                None,
            )
        },
    ];
    plan.unchanged = vec![key("crawlers/crawl-1"), key("crawlers/crawl-7")];
    plan.notes = vec![
        "crawlers/crawl-1: the config resolves debian-13 to something else now; nothing is replaced for it".to_owned(),
    ];
    plan
}

pub(super) fn refusal() -> Refusal {
    Refusal {
        guard: Guard::MaxDeletions,
        message: "7 machines would be deleted, and 5 may be (maxDeletions 20% of 12).".to_owned(),
        hint: "if that is meant, pass --max-deletions 7".to_owned(),
    }
}

// ---- outcomes

pub(super) fn done(seconds: f64) -> ActionOutcome {
    ActionOutcome {
        result: StepResult::Done,
        reason: None,
        message: None,
        seconds,
        stages: vec![StageTime { name: "define".to_owned(), seconds: 0.25 }],
        uuid: Some("00000000-0000-4000-8000-0000000000ff".to_owned()),
        ..ActionOutcome::skipped(Reason::AsWanted, "")
    }
}

pub(super) fn failed(class: &str, reason: Reason, message: &str) -> ActionOutcome {
    let failure = Failure { class: class.to_owned(), reason, message: message.to_owned() };
    ActionOutcome {
        result: StepResult::Failed,
        hint: Some("free space in the pool".to_owned()),
        failures: vec![failure],
        seconds: 12.5,
        ..ActionOutcome::skipped(reason, message)
    }
}

/// An outcome of [`everything`] with each kind of end.
pub(super) fn outcome() -> Outcome {
    let mut outcome = Outcome::default();
    outcome
        .images
        .push(ImageOutcome { action: ImageAction { place: host("lab/h1"), image: image() }, what: done(62.0) });
    let mut created = done(41.2);
    created.address = Some(known(&["192.0.2.31", "2001:db8::31"]));
    let mut update =
        failed("transient", Reason::Timeout, "write the mark of egress-crawl-5-k3v9q1xz: no answer within 45 s");
    update.failures.insert(
        0,
        Failure {
            class: "transient".to_owned(),
            reason: Reason::Unreachable,
            message: "the connection was lost".to_owned(),
        },
    );
    update.hint = None;
    let mut deleted = ActionOutcome::skipped(Reason::DependencyFailed, "another action on this host failed first");
    deleted.left_behind.push("data-disk.qcow2".to_owned());
    outcome.actions = BTreeMap::from([
        (
            "replace crawlers/crawl-2 on lab/h1".to_owned(),
            failed("quota", Reason::QuotaExceeded, "create the overlay x: No space left on device"),
        ),
        ("create crawlers/crawl-3 on lab/h1".to_owned(), created),
        ("start crawlers/crawl-4 on lab/h1".to_owned(), ActionOutcome { result: StepResult::AlreadyDone, ..done(0.1) }),
        ("update crawlers/crawl-5 on lab/h1".to_owned(), update),
        ("delete crawlers/old-1 on lab/h1".to_owned(), deleted),
    ]);
    outcome
}

// ---- the fleet

pub(super) fn managed(proxy: &str, place: &str) -> Proxy {
    Proxy {
        key: key(proxy),
        origin: "fleet.yaml:1".to_owned(),
        labels: BTreeMap::from([("site".to_owned(), "prague".to_owned())]),
        mode: Mode::Managed(Box::new(Managed {
            place: host(place),
            port: 3128,
            protect: false,
            spec: MachineSpec {
                image: "debian-13".to_owned(),
                machine_type: "small".to_owned(),
                user_data: None,
                network: None,
            },
            resolved: Ok(Resolved {
                instance: instance_name(proxy),
                spec: fingerprint("new"),
                catalogue: fingerprint("cat"),
                image: image(),
                disk_bytes: 10 << 30,
                reserve_bytes: 10 << 30,
                labels: "aa".to_owned(),
                summary: "small (1 vCPU, 1024 MiB), debian-13, 10 GiB disk".to_owned(),
            }),
        })),
    }
}

pub(super) fn external(proxy: &str, endpoint: &str) -> Proxy {
    Proxy { mode: Mode::External { host: endpoint.to_owned(), port: 8080 }, ..managed(proxy, "lab/h1") }
}

pub(super) fn instance(proxy: &str, place: &str) -> Instance {
    let place = host(place);
    Instance {
        name: instance_name(proxy),
        uuid: uuid(proxy),
        standing: Standing::Ours(Box::new(Mark {
            fleet: "crawl-eu".to_owned(),
            provider: place.entry.to_string(),
            host: place.host.to_string(),
            proxy: key(proxy),
            machine: uuid(proxy),
            state: MarkState::Ready,
            spec: fingerprint("new"),
            catalogue: fingerprint("cat"),
            addresses: Vec::new(),
            port: 3128,
            labels: "aa".to_owned(),
            protect: false,
            created_at: ago(3 * 24 * 60),
            started_at: Some(ago(60)),
            source: None,
            tool: "0.1.0".to_owned(),
            uid: None,
        })),
        transient: false,
        disk_bytes: 10 << 30,
        power: Power::Running,
        missing_disks: Vec::new(),
        removes: Vec::new(),
        address: known(&["192.0.2.18"]),
    }
}

pub(super) fn mark(instance: &mut Instance) -> &mut Mark {
    match &mut instance.standing {
        Standing::Ours(mark) => mark,
        Standing::Blocked { .. } => panic!("the machine is not ours"),
    }
}

/// A fleet, what was seen of it, and what a report needs besides: start from [`Fleet::new`], change what
/// the test is about, then [`Fleet::report`].
pub(super) struct Fleet {
    pub run: RunInfo,
    pub desired: Desired,
    pub observed: Observed,
    pub plan: Plan,
    pub outcome: Option<Outcome>,
    pub addresses: BTreeMap<ProxyKey, Address>,
    pub figures: BTreeMap<HostRef, HostFigures>,
    pub boot_deadlines: BTreeMap<Label, SignedDuration>,
    pub generations: BTreeMap<ProxyKey, i64>,
    pub previous: Option<Report>,
}

impl Fleet {
    /// Nothing wanted, nothing there, one host `lab/h1` that answers.
    pub fn new() -> Self {
        let mut fleet = Self {
            run: RunInfo {
                id: "0c4e9b7d".to_owned(),
                command: "apply".to_owned(),
                fleet: label("crawl-eu"),
                tool: "0.1.0".to_owned(),
                started_at: ago(2),
                ended_at: now(),
                result: RunResult::Succeeded,
                exit_code: 0,
                recorded: false,
            },
            desired: Desired {
                namespaces: None,
                fleet: label("crawl-eu"),
                source: None,
                complete: true,
                proxies: BTreeMap::new(),
                hosts: BTreeMap::new(),
            },
            observed: Observed::default(),
            plan: plan(),
            outcome: None,
            addresses: BTreeMap::new(),
            figures: BTreeMap::new(),
            boot_deadlines: BTreeMap::new(),
            generations: BTreeMap::new(),
            previous: None,
        };
        fleet.view("lab/h1");
        fleet
    }

    /// A fleet of one machine that is as wanted.
    pub fn of_one() -> Self {
        let mut fleet = Self::new();
        fleet.want(managed("a/b", "lab/h1"));
        fleet.view("lab/h1").instances.push(instance("a/b", "lab/h1"));
        fleet.plan.unchanged.push(key("a/b"));
        fleet
    }

    pub fn want(&mut self, proxy: Proxy) {
        self.desired.proxies.insert(proxy.key.clone(), proxy);
    }

    pub fn network(&mut self, proxy: &str, address: &str) {
        let network =
            Network { addresses: vec![address.parse().expect("a net")], gateway: None, nameservers: Vec::new() };
        match &mut self.desired.proxies.get_mut(&key(proxy)).expect("wanted").mode {
            Mode::Managed(managed) => managed.spec.network = Some(network),
            Mode::External { .. } => panic!("an endpoint has no network"),
        }
    }

    /// The view of a host that answers, made when it is not there yet.
    pub fn view(&mut self, place: &str) -> &mut HostView {
        let settings = HostSettings {
            aliases: Vec::new(),
            retired: false,
            max_instances: None,
            recorded: false,
            console: "virsh -c qemu:///system".to_owned(),
        };
        self.desired.hosts.entry(host(place)).or_insert(settings);
        let state = self.observed.hosts.entry(host(place)).or_insert_with(|| {
            HostState::Known(Box::new(HostView {
                software: "libvirt 11.6.0".to_owned(),
                store: Store {
                    name: "pool default".to_owned(),
                    active: true,
                    capacity: 500 << 30,
                    available: 242 << 30,
                    ..Store::default()
                },
                strangers: BTreeSet::new(),
                ..HostView::default()
            }))
        });
        match state {
            HostState::Known(view) => view,
            HostState::Unknown(_) => panic!("{place} is unknown"),
        }
    }

    pub fn lose(&mut self, place: &str) {
        self.view(place);
        self.observed.hosts.insert(host(place), HostState::Unknown(trouble()));
    }

    pub fn machine(&mut self, proxy: &str) -> &mut Instance {
        let name = instance_name(proxy);
        let states = self.observed.hosts.values_mut();
        states
            .filter_map(|state| match state {
                HostState::Known(view) => Some(view),
                HostState::Unknown(_) => None,
            })
            .flat_map(|view| &mut view.instances)
            .find(|instance| instance.name == name)
            .expect("the machine is there")
    }

    /// Plans an action and, with an outcome, says what came of it.
    pub fn act(&mut self, action: Action, what: Option<ActionOutcome>) {
        if let Some(what) = what {
            self.outcome.get_or_insert_default().actions.insert(action.id.0.clone(), what);
        }
        self.plan.unchanged.retain(|unchanged| *unchanged != action.key);
        self.plan.actions.push(action);
    }

    pub fn report(&self) -> Report {
        let before = self.previous.clone().map(Memory::from);
        build(&ReportInput {
            run: &self.run,
            desired: &self.desired,
            observed: &self.observed,
            plan: &self.plan,
            outcome: self.outcome.as_ref(),
            addresses: &self.addresses,
            figures: &self.figures,
            boot_deadlines: &self.boot_deadlines,
            generations: &self.generations,
            before: before.as_ref(),
        })
    }
}
