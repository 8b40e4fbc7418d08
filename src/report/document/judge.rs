//! Judges one desired proxy: what its machine is after the run, which address it has, and what
//! phase and conditions follow.
//!
//! Two rules hold throughout. What could not be read is not thereby gone: a host that did not answer
//! and an address that nobody could give change nothing that was known (L10). And an action counts
//! for what it came to, not for what it was meant to do.

use std::net::IpAddr;

use jiff::Timestamp;

use super::super::words;
use super::build::{action_report, held_report, machine_of};
use super::finding::{Finding, failed, not_there, outdated, stopped};
use super::proxy::{
    ActionReport, AddressState, Condition, ConditionStatus, ConditionType, HeldReport, Phase, ProxyMode, ProxyReport,
};
use super::{BOOT_DEADLINE, Remembered, ReportInput};
use crate::apply::StepResult;
use crate::plan::{
    Action, ActionKind, Address, HostState, HostTrouble, Instance, Managed, MarkState, Mode, Power, Proxy, Reason,
    Standing, Verdict,
};
use crate::provider::sorted_addresses;

pub(super) struct Judge<'a> {
    input: &'a ReportInput<'a>,
    proxy: &'a Proxy,
    before: Option<&'a Remembered>,
}

/// What is known of a managed proxy's machine after the run.
enum Machine<'a> {
    /// Its host could not be observed.
    HostUnknown(Option<&'a HostTrouble>),
    /// There is none.
    Absent,
    /// It is as it was seen before the run.
    Seen(&'a Instance),
    /// This run made or started it; the host's look at it, for one that was only started.
    Made(Option<&'a Instance>),
    /// An action on it failed, so that nobody knows what is there.
    Doubtful,
}

impl<'a> Judge<'a> {
    pub(super) fn new(input: &'a ReportInput<'a>, proxy: &'a Proxy) -> Self {
        let before = input.before.and_then(|before| before.proxies.get(&proxy.key));
        Self { input, proxy, before: before.filter(|before| !gone(input, proxy, before)) }
    }

    pub(super) fn report(&self) -> ProxyReport {
        match &self.proxy.mode {
            Mode::External { host, port } => self.external(host, *port),
            Mode::Managed(managed) => self.managed(managed),
        }
    }

    fn external(&self, host: &str, port: u16) -> ProxyReport {
        let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let finding =
            Finding::new(Phase::Running, ConditionStatus::True, Reason::AsWanted, "an endpoint of the manifest");
        ProxyReport {
            mode: ProxyMode::External,
            ip: address,
            addresses: address.into_iter().collect(),
            address_state: AddressState::Configured,
            endpoint: Some(words::line(host)),
            usable: words::authority(host, port).is_some(),
            ..self.skeleton(port, &finding)
        }
    }

    /// What every report of a proxy has alike; the rest is empty.
    fn skeleton(&self, port: u16, finding: &Finding) -> ProxyReport {
        ProxyReport {
            key: self.proxy.key.clone(),
            mode: ProxyMode::Managed,
            labels: self.proxy.labels.iter().map(|(name, value)| (words::line(name), words::line(value))).collect(),
            host: None,
            instance: None,
            uuid: None,
            spec_digest: None,
            phase: finding.phase,
            message: Some(words::line(&finding.message)).filter(|message| !message.is_empty()),
            hint: finding.hint.as_deref().map(words::line),
            ip: None,
            addresses: Vec::new(),
            address_state: AddressState::Unknown,
            endpoint: None,
            port,
            usable: false,
            created_at: None,
            started_at: None,
            conditions: vec![
                self.condition(ConditionType::Provisioned, finding.status, finding.reason, &finding.message),
                self.condition(
                    ConditionType::Healthy,
                    ConditionStatus::Unknown,
                    Reason::NotProbed,
                    "nobody has looked from outside yet",
                ),
            ],
            action: None,
            held: None,
        }
    }

    fn condition(&self, kind: ConditionType, status: ConditionStatus, reason: Reason, message: &str) -> Condition {
        let before = self.before.and_then(|proxy| proxy.condition(kind)).filter(|before| before.status == status);
        Condition {
            kind,
            status,
            reason,
            message: words::line(message),
            last_transition_time: before.map_or(self.input.run.ended_at, |before| before.last_transition_time),
            observed_generation: self.input.generations.get(&self.proxy.key).copied(),
        }
    }

    fn managed(&self, managed: &'a Managed) -> ProxyReport {
        let seen = self.seen(managed);
        let planned = self.planned(managed);
        let action = planned.map(|action| action_report(self.input, action));
        let held = self.held(managed, seen.as_ref().ok().copied().flatten());
        let machine = Machine::after(managed, seen, action.as_ref());
        let asked = self.asked(planned, &machine);
        let (address_state, addresses) = self.addresses(managed, &machine, asked, planned, action.as_ref());
        let finding = self.finding(managed, &machine, address_state, action.as_ref(), held.as_ref());
        let mark = machine.instance().and_then(Instance::mark);
        let began = self.began(planned, action.as_ref());
        ProxyReport {
            host: Some(managed.place.clone()),
            instance: machine
                .instance()
                .map(|instance| words::line(&instance.name))
                .or_else(|| managed.resolved.as_ref().ok().map(|resolved| resolved.instance.clone())),
            uuid: self.uuid(&machine, planned),
            spec_digest: managed.resolved.as_ref().ok().map(|resolved| resolved.spec.hash.clone()),
            ip: addresses.first().copied(),
            usable: !addresses.is_empty() && self.may_serve(&machine, asked),
            addresses,
            address_state,
            created_at: mark.map(|mark| mark.created_at).or(began),
            started_at: began.or(mark.and_then(|mark| mark.started_at)),
            action,
            held,
            ..self.skeleton(managed.port, &finding)
        }
    }

    /// The machine as it was seen, or the trouble with its host.
    fn seen(&self, managed: &Managed) -> Result<Option<&'a Instance>, Option<&'a HostTrouble>> {
        match self.input.observed.hosts.get(&managed.place) {
            Some(HostState::Known(view)) => Ok(machine_of(view, &self.proxy.key)),
            Some(HostState::Unknown(trouble)) => Err(Some(trouble)),
            None => Err(None),
        }
    }

    fn planned(&self, managed: &Managed) -> Option<&'a Action> {
        self.input.plan.actions.iter().find(|action| {
            action.key == self.proxy.key
                && action.place == managed.place
                && !matches!(action.kind, ActionKind::Delete { .. })
        })
    }

    fn held(&self, managed: &Managed, seen: Option<&Instance>) -> Option<HeldReport> {
        let name = seen
            .map(|instance| instance.name.as_str())
            .or_else(|| managed.resolved.as_ref().ok().map(|resolved| resolved.instance.as_str()));
        self.input
            .plan
            .held
            .iter()
            .find(|held| {
                held.key.as_ref() == Some(&self.proxy.key)
                    && held.place.as_ref().is_none_or(|place| *place == managed.place)
                    && (held.instance.is_none() || name.is_none() || held.instance.as_deref() == name)
            })
            .map(held_report)
    }

    /// What was asked of the machine's address, the newest answer first.
    fn asked(&self, planned: Option<&Action>, machine: &Machine<'a>) -> &'a Address {
        let outcome = planned
            .zip(self.input.outcome)
            .and_then(|(action, outcome)| outcome.actions.get(&action.id.0))
            .and_then(|what| what.address.as_ref());
        let seen = match machine {
            Machine::Seen(instance) => Some(&instance.address),
            _ => None,
        };
        self.input.addresses.get(&self.proxy.key).or(outcome).or(seen).unwrap_or(&Address::NotAsked)
    }

    fn addresses(
        &self,
        managed: &Managed,
        machine: &Machine<'_>,
        asked: &Address,
        planned: Option<&Action>,
        action: Option<&ActionReport>,
    ) -> (AddressState, Vec<IpAddr>) {
        // A manifest that was edited meanwhile says nothing of the machine that is there.
        if let (Machine::HostUnknown(_), Some(before)) = (machine, self.before)
            && !before.addresses.is_empty()
        {
            return (AddressState::Stale, before.addresses.clone());
        }
        match machine {
            Machine::Absent => return (AddressState::Pending, Vec::new()),
            Machine::Seen(instance) if instance.power != Power::Running => return (AddressState::Pending, Vec::new()),
            Machine::Doubtful if !matches!(asked, Address::Known(known) if !known.is_empty()) => {
                return (AddressState::Unknown, Vec::new());
            }
            _ => {}
        }
        // Its mark says which addresses the machine was made with; else they are the manifest's, unless it
        // is still to be replaced.
        let outdated = matches!(planned.map(|action| &action.kind), Some(ActionKind::Replace { .. }))
            && !action.is_some_and(ActionReport::succeeded);
        let marked = match machine {
            Machine::Seen(instance) => instance.mark().map(|mark| mark.addresses.as_slice()).unwrap_or_default(),
            _ => &[],
        };
        let marked: Vec<IpAddr> = marked
            .iter()
            .filter_map(|address| address.trim().parse::<ipnet::IpNet>().ok())
            .map(|it| it.addr())
            .collect();
        let fixed: Vec<IpAddr> = match &managed.spec.network {
            _ if !marked.is_empty() => marked,
            Some(network) if !outdated => network.addresses.iter().map(ipnet::IpNet::addr).collect(),
            _ => Vec::new(),
        };
        match asked {
            Address::Known(known) if !known.is_empty() => (AddressState::Known, sorted_addresses(known.clone())),
            Address::Known(_) | Address::NotAsked | Address::Unknown(_) if !fixed.is_empty() => {
                (AddressState::Configured, sorted_addresses(fixed))
            }
            Address::Known(_) if !self.ran_before(machine) => (AddressState::Pending, Vec::new()),
            // A machine that had an address does not lose it because its agent restarts (L10).
            Address::Known(_) | Address::NotAsked | Address::Unknown(_) => {
                match (self.same_machine_before(machine, planned), asked) {
                    (Some(before), _) if !before.addresses.is_empty() => {
                        (AddressState::Stale, before.addresses.clone())
                    }
                    (_, Address::Known(_)) => (AddressState::Pending, Vec::new()),
                    _ => (AddressState::Unknown, Vec::new()),
                }
            }
        }
    }

    /// Whether what is remembered was so while the machine ran as it runs now.
    fn ran_before(&self, machine: &Machine<'_>) -> bool {
        let Machine::Seen(instance) = machine else { return false };
        let started = instance.mark().map(|mark| mark.started_at.unwrap_or(mark.created_at));
        started.zip(self.before.and_then(|before| before.at)).is_some_and(|(started, at)| started <= at)
    }

    /// What is remembered, unless it tells of another machine.
    fn same_machine_before(&self, machine: &Machine<'_>, planned: Option<&Action>) -> Option<&'a Remembered> {
        let now = self.uuid(machine, planned);
        self.before.filter(|before| match (&before.uuid, &now) {
            (Some(before), Some(now)) => before.eq_ignore_ascii_case(now),
            _ => !matches!(machine, Machine::Made(None)),
        })
    }

    fn uuid(&self, machine: &Machine<'_>, planned: Option<&Action>) -> Option<String> {
        let outcome = planned
            .zip(self.input.outcome)
            .and_then(|(action, outcome)| outcome.actions.get(&action.id.0))
            .and_then(|what| what.uuid.clone());
        match machine {
            Machine::HostUnknown(_) => self.before.and_then(|before| before.uuid.clone()),
            Machine::Absent => None,
            Machine::Seen(instance) => Some(words::line(&instance.uuid)),
            Machine::Made(seen) => outcome.or_else(|| seen.map(|instance| instance.uuid.clone())),
            Machine::Doubtful => outcome,
        }
    }

    /// When this run made or started the machine: the end of the run, as near as the report knows.
    fn began(&self, planned: Option<&Action>, action: Option<&ActionReport>) -> Option<Timestamp> {
        let starts = !matches!(planned.map(|action| &action.kind), None | Some(ActionKind::Update { .. }));
        let done = action.is_some_and(|action| action.outcome == Some(StepResult::Done));
        (starts && done).then_some(self.input.run.ended_at)
    }

    /// Whether clients may be sent to the machine, given that it has an address.
    fn may_serve(&self, machine: &Machine<'_>, asked: &Address) -> bool {
        let before = self.before.is_some_and(|before| before.usable);
        match machine {
            Machine::HostUnknown(_) => before,
            Machine::Absent => false,
            Machine::Made(_) => true,
            Machine::Doubtful => matches!(asked, Address::Known(known) if !known.is_empty()),
            Machine::Seen(instance) => match &instance.standing {
                Standing::Ours(mark) => instance.power == Power::Running && mark.state == MarkState::Ready,
                // A mark in doubt does not take a machine out of rotation that was in it (L10).
                Standing::Blocked { .. } => {
                    instance.power == Power::Running
                        && before
                        && self.before.and_then(|before| before.uuid.as_deref()) == Some(instance.uuid.as_str())
                }
            },
        }
    }

    fn finding(
        &self,
        managed: &Managed,
        machine: &Machine<'_>,
        address: AddressState,
        action: Option<&ActionReport>,
        held: Option<&HeldReport>,
    ) -> Finding {
        let found = self.by_machine(managed, machine, address, action, held);
        if let Err(problem) = &managed.resolved {
            let message = held.map_or_else(|| problem.clone(), |held| held.message.clone());
            let hint = held.and_then(|held| held.hint.clone());
            let reason = if found.status == ConditionStatus::True { found.reason } else { Reason::Unresolved };
            return Finding { phase: Phase::Blocked, reason, message, hint, ..found };
        }
        match held {
            // A machine that runs on while something about it is blocked stays provisioned.
            Some(held) if held.verdict == Verdict::Blocked && !matches!(machine, Machine::HostUnknown(_)) => {
                let blocked =
                    Finding { phase: Phase::Blocked, message: held.message.clone(), hint: held.hint.clone(), ..found };
                if blocked.status == ConditionStatus::True {
                    blocked
                } else {
                    Finding { reason: held.reason, ..blocked }
                }
            }
            _ => found,
        }
    }

    fn by_machine(
        &self,
        managed: &Managed,
        machine: &Machine<'_>,
        address: AddressState,
        action: Option<&ActionReport>,
        held: Option<&HeldReport>,
    ) -> Finding {
        match machine {
            Machine::HostUnknown(trouble) => {
                let message = trouble.map_or_else(
                    || format!("{} was not looked at", managed.place),
                    |trouble| format!("{} could not be observed: {}", managed.place, trouble.message),
                );
                Finding::new(Phase::Unknown, ConditionStatus::Unknown, Reason::HostUnknown, message)
                    .hint(trouble.and_then(|trouble| trouble.hint.clone()))
            }
            Machine::Absent => not_there("no machine is there", action, held),
            Machine::Made(_) => self.running(managed, machine, address, None),
            Machine::Doubtful => failed(action),
            Machine::Seen(instance) => match (&instance.standing, &instance.power) {
                (Standing::Blocked { reason, message, .. }, _) => {
                    Finding::new(Phase::Blocked, ConditionStatus::Unknown, *reason, message.clone())
                }
                (Standing::Ours(mark), _) if matches!(mark.state, MarkState::Draining | MarkState::Deleting) => {
                    let message = "the machine is being deleted";
                    Finding::new(Phase::Deleting, ConditionStatus::False, Reason::InTransition, message)
                }
                (Standing::Ours(mark), Power::Running) if mark.state == MarkState::Ready => {
                    self.running(managed, machine, address, action)
                }
                (Standing::Ours(_), Power::Running) => not_there("the machine is not finished", action, held),
                (Standing::Ours(_), power) => stopped(power, action, held),
            },
        }
    }

    /// A machine that runs.
    fn running(
        &self,
        managed: &Managed,
        machine: &Machine<'_>,
        address: AddressState,
        action: Option<&ActionReport>,
    ) -> Finding {
        match address {
            AddressState::Known | AddressState::Configured | AddressState::Stale => {
                let message = match address {
                    AddressState::Stale => "running; its address could not be read and is the last one known",
                    AddressState::Configured => "running; its address is the manifest's, since nobody could give it",
                    _ => "running",
                };
                Finding::new(Phase::Running, ConditionStatus::True, outdated(action), message)
            }
            AddressState::Pending => self.booting(managed, machine),
            AddressState::Unknown => {
                let message = "running; its address could not be read, which says nothing about the machine";
                let kept = self
                    .same_machine_before(machine, None)
                    .and_then(|before| before.condition(ConditionType::Provisioned))
                    .filter(|before| before.status == ConditionStatus::True);
                match kept {
                    Some(before) => Finding::new(Phase::Running, before.status, before.reason, message),
                    None => Finding::new(Phase::Running, ConditionStatus::Unknown, Reason::AddressUnknown, message),
                }
            }
        }
    }

    /// A machine that runs and has no address yet: that is a matter of time, up to the deadline (L14).
    fn booting(&self, managed: &Managed, machine: &Machine<'_>) -> Finding {
        let instance = machine.instance();
        let mark = instance.and_then(Instance::mark);
        let since = match (machine, mark) {
            (Machine::Seen(_), Some(mark)) => mark.started_at.unwrap_or(mark.created_at),
            _ => self.input.run.ended_at,
        };
        let deadline = self.input.boot_deadlines.get(&managed.place.entry).copied().unwrap_or(BOOT_DEADLINE);
        let now = self.input.run.ended_at;
        if now.duration_since(since) <= deadline {
            let message = format!("the machine runs and has no address yet; started {} ago", words::age(since, now));
            return Finding::new(Phase::Provisioning, ConditionStatus::False, Reason::InTransition, message);
        }
        let console =
            self.input.desired.hosts.get(&managed.place).map_or("virsh -c qemu:///system", |host| &host.console);
        let name = instance.map(|instance| instance.name.as_str()).unwrap_or_default();
        let message =
            format!("the machine runs and has had no address since it was started {} ago", words::age(since, now));
        let hint = format!(
            "check that DHCP answers on the bridge and that the machine reaches the internet to install the guest agent; \
             look inside with {console} console {name}, then cloud-init status --long and \
             /var/log/cloud-init-output.log"
        );
        Finding::new(Phase::Failed, ConditionStatus::False, Reason::BootDeadlineExceeded, message).hint(Some(hint))
    }
}

/// Whether what is remembered is of a machine on another host, which answers and has it no more: the
/// proxy moved, and its new host alone may be silent.
fn gone(input: &ReportInput<'_>, proxy: &Proxy, before: &Remembered) -> bool {
    let (Mode::Managed(managed), Some(host)) = (&proxy.mode, &before.host) else { return false };
    let Some(HostState::Known(view)) = input.observed.hosts.get(host) else { return false };
    let runs = |instance: &Instance| {
        before.uuid.as_deref() == Some(instance.uuid.as_str()) && instance.power == Power::Running
    };
    *host != managed.place && !view.instances.iter().any(runs)
}

impl<'a> Machine<'a> {
    /// What is there after the run: as it was seen, but for what an action came to.
    fn after(
        managed: &Managed,
        seen: Result<Option<&'a Instance>, Option<&'a HostTrouble>>,
        action: Option<&ActionReport>,
    ) -> Self {
        let seen = match seen {
            Ok(seen) => seen,
            Err(trouble) => return Self::HostUnknown(trouble),
        };
        let verb = action.map(|action| action.verb.as_str());
        match action.and_then(|action| action.outcome) {
            Some(StepResult::Done | StepResult::AlreadyDone) if verb == Some("start") => Self::Made(seen),
            Some(StepResult::Done | StepResult::AlreadyDone) if verb != Some("update") => Self::Made(None),
            Some(StepResult::Failed) if verb != Some("update") && managed.resolved.is_ok() => Self::Doubtful,
            _ => seen.map_or(Self::Absent, Self::Seen),
        }
    }

    fn instance(&self) -> Option<&'a Instance> {
        match self {
            Self::Seen(instance) => Some(instance),
            Self::Made(instance) => *instance,
            Self::HostUnknown(_) | Self::Absent | Self::Doubtful => None,
        }
    }
}
