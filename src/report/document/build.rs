//! Puts the report together. Reads no clock: "now" is when the run ended.

use std::collections::BTreeMap;

use super::super::words;
use super::judge::Judge;
use super::missing;
use super::proxy::{ActionReport, HeldReport, OrphanReport, Phase, ProxyReport};
use super::{HostFacts, HostFigures, HostReport, ImageReport, LeftoverReport, Report, ReportInput, Summary};
use crate::apply::{ActionOutcome, StepResult};
use crate::plan::{
    Action, Held, HostRef, HostState, HostView, Instance, Mode, ProxyKey, Reason, Refusal, Standing, Verdict,
};

/// The report of a run. The same input gives the same report.
#[must_use]
pub fn build(input: &ReportInput<'_>) -> Report {
    let hosts: Vec<HostReport> = input.observed.hosts.iter().map(|(place, state)| host(input, place, state)).collect();
    let proxies: Vec<ProxyReport> =
        input.desired.proxies.values().map(|proxy| Judge::new(input, proxy).report()).collect();
    let orphans = orphans(input);
    let leftovers = leftovers(input);
    let images = images(input);
    let summary = summary(input, &hosts, &proxies, &orphans, leftovers.len());
    Report {
        schema: Report::SCHEMA.to_owned(),
        run: input.run.clone(),
        summary,
        guards: input.plan.refusals.iter().map(refusal).collect(),
        notes: input.plan.notes.iter().map(|note| words::line(note)).collect(),
        hosts,
        images,
        proxies,
        orphans,
        leftovers,
        missing_hosts: missing::hosts(input),
    }
}

fn refusal(refusal: &Refusal) -> Refusal {
    Refusal { guard: refusal.guard, message: words::line(&refusal.message), hint: words::line(&refusal.hint) }
}

fn host(input: &ReportInput<'_>, place: &HostRef, state: &HostState) -> HostReport {
    let figures = input.figures.get(place).copied().unwrap_or_default();
    let mut report = HostReport {
        host: place.clone(),
        reachable: true,
        reason: Reason::Reachable,
        message: None,
        hint: None,
        facts: None,
        lock: None,
        stopped: input.outcome.and_then(|outcome| outcome.stopped_hosts.get(place)).map(|why| words::line(why)),
        figures: HostFigures { observe_seconds: figures.observe_seconds.map(milliseconds), ..figures },
    };
    match state {
        HostState::Known(view) => {
            report.facts = Some(HostFacts {
                software: words::line(&view.software),
                store: words::line(&view.store.name),
                capacity_bytes: view.store.capacity,
                available_bytes: view.store.available,
                ours: view.instances.len(),
                others: view.others,
            });
            report.lock.clone_from(&view.lock);
        }
        HostState::Unknown(trouble) => {
            report.reachable = false;
            report.reason = trouble.reason;
            report.message = Some(words::line(&trouble.message));
            report.hint = trouble.hint.as_deref().map(words::line);
        }
    }
    report
}

fn orphans(input: &ReportInput<'_>) -> Vec<OrphanReport> {
    let mut orphans = Vec::new();
    for (place, view) in known(input) {
        for instance in view.instances.iter().filter(|instance| !serves(input, place, view, instance)) {
            orphans.push(orphan(input, place, instance));
        }
    }
    orphans.sort_by(|a, b| (&a.host, &a.key, &a.instance).cmp(&(&b.host, &b.key, &b.instance)));
    orphans
}

/// Whether a machine is the one of a desired proxy at this place.
fn serves(input: &ReportInput<'_>, place: &HostRef, view: &HostView, instance: &Instance) -> bool {
    let Some(key) = marked_key(instance) else { return false };
    let Some(Mode::Managed(managed)) = input.desired.proxies.get(key).map(|proxy| &proxy.mode) else { return false };
    managed.place == *place && machine_of(view, key).is_some_and(|found| found.uuid == instance.uuid)
}

fn marked_key(instance: &Instance) -> Option<&ProxyKey> {
    match &instance.standing {
        Standing::Ours(mark) => Some(&mark.proxy),
        Standing::Blocked { key, .. } => key.as_ref(),
    }
}

/// The machine of a proxy on a host: ours before one whose mark is in doubt.
pub(super) fn machine_of<'a>(view: &'a HostView, key: &ProxyKey) -> Option<&'a Instance> {
    let mut bearers: Vec<&Instance> =
        view.instances.iter().filter(|instance| marked_key(instance) == Some(key)).collect();
    bearers.sort_by_key(|instance| (instance.mark().is_none(), instance.name.as_str()));
    bearers.first().copied()
}

fn orphan(input: &ReportInput<'_>, place: &HostRef, instance: &Instance) -> OrphanReport {
    let of_it = |action: &&Action| action.place == *place && action.instance == instance.name;
    let action = input.plan.actions.iter().find(of_it).map(|action| action_report(input, action));
    let held = input
        .plan
        .held
        .iter()
        .find(|held| held.place.as_ref() == Some(place) && held.instance.as_deref() == Some(&instance.name));
    let phase = match (&action, held, &instance.standing) {
        (Some(_), _, _) => Phase::Deleting,
        (None, Some(Held { verdict: Verdict::Blocked, .. }), _) | (None, _, Standing::Blocked { .. }) => Phase::Blocked,
        (None, _, Standing::Ours(_)) => Phase::Pending,
    };
    OrphanReport {
        host: place.clone(),
        instance: words::line(&instance.name),
        uuid: words::line(&instance.uuid),
        key: marked_key(instance).cloned(),
        phase,
        created_at: instance.mark().map(|mark| mark.created_at),
        action,
        held: held.map(held_report),
    }
}

/// An action of the plan with what came of it.
pub(super) fn action_report(input: &ReportInput<'_>, action: &Action) -> ActionReport {
    let outcome = input.outcome.map(|outcome| {
        outcome
            .actions
            .get(&action.id.0)
            .cloned()
            .unwrap_or_else(|| ActionOutcome::skipped(Reason::Interrupted, "the run ended before it"))
    });
    let outcome = outcome.map(tidy);
    let last = outcome.as_ref().and_then(|outcome| outcome.failures.last());
    ActionReport {
        id: action.id.0.clone(),
        verb: action.kind.verb().to_owned(),
        why: words::line(&action.why),
        outcome: outcome.as_ref().map(|outcome| outcome.result),
        reason: outcome.as_ref().and_then(|outcome| outcome.reason.or(last.map(|failure| failure.reason))),
        class: last.map(|failure| failure.class.clone()),
        message: outcome
            .as_ref()
            .and_then(|outcome| outcome.message.clone().or_else(|| last.map(|failure| failure.message.clone()))),
        hint: outcome.as_ref().and_then(|outcome| outcome.hint.clone()),
        seconds: outcome.as_ref().map(|outcome| outcome.seconds),
        failures: outcome.as_ref().map(|outcome| outcome.failures.clone()).unwrap_or_default(),
        stages: outcome.as_ref().map(|outcome| outcome.stages.clone()).unwrap_or_default(),
        left_behind: outcome.map(|outcome| outcome.left_behind).unwrap_or_default(),
    }
}

/// An outcome with its texts cleaned and its times in whole milliseconds.
fn tidy(mut outcome: ActionOutcome) -> ActionOutcome {
    outcome.message = outcome.message.map(|text| words::line(&text));
    outcome.hint = outcome.hint.map(|text| words::line(&text));
    outcome.seconds = milliseconds(outcome.seconds);
    for failure in &mut outcome.failures {
        failure.message = words::line(&failure.message);
    }
    for stage in &mut outcome.stages {
        stage.seconds = milliseconds(stage.seconds);
    }
    for left in &mut outcome.left_behind {
        *left = words::line(left);
    }
    outcome
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

pub(super) fn held_report(held: &Held) -> HeldReport {
    HeldReport {
        verdict: held.verdict,
        reason: held.reason,
        message: words::line(&held.message),
        hint: held.hint.as_deref().map(words::line),
    }
}

pub(super) fn known<'a>(input: &ReportInput<'a>) -> impl Iterator<Item = (&'a HostRef, &'a HostView)> + use<'a> {
    input.observed.hosts.iter().filter_map(|(place, state)| match state {
        HostState::Known(view) => Some((place, &**view)),
        HostState::Unknown(_) => None,
    })
}

fn leftovers(input: &ReportInput<'_>) -> Vec<LeftoverReport> {
    let mut leftovers: Vec<LeftoverReport> = known(input)
        .flat_map(|(place, view)| {
            view.leftovers.iter().map(|leftover| LeftoverReport {
                host: place.clone(),
                name: words::line(&leftover.name),
                bytes: leftover.bytes,
            })
        })
        .collect();
    leftovers.sort_by(|a, b| (&a.host, &a.name).cmp(&(&b.host, &b.name)));
    leftovers
}

fn images(input: &ReportInput<'_>) -> Vec<ImageReport> {
    let Some(outcome) = input.outcome else { return Vec::new() };
    let mut images: Vec<ImageReport> = outcome
        .images
        .iter()
        .map(|image| ImageReport {
            host: image.action.place.clone(),
            image: image.action.image.clone(),
            outcome: tidy(image.what.clone()),
        })
        .collect();
    images.sort_by(|a, b| (&a.host, &a.image).cmp(&(&b.host, &b.image)));
    images
}

fn summary(
    input: &ReportInput<'_>,
    hosts: &[HostReport],
    proxies: &[ProxyReport],
    orphans: &[OrphanReport],
    leftovers: usize,
) -> Summary {
    let mut phases: BTreeMap<Phase, usize> = BTreeMap::new();
    for proxy in proxies {
        *phases.entry(proxy.phase).or_default() += 1;
    }
    let mut summary = Summary {
        hosts: hosts.len(),
        unknown_hosts: hosts.iter().filter(|host| !host.reachable).count(),
        desired: proxies.len(),
        usable: proxies.iter().filter(|proxy| proxy.usable).count(),
        phases,
        planned: input.plan.counts(),
        unchanged: input.plan.unchanged.len(),
        orphans: orphans.iter().filter(|orphan| !orphan.is_gone()).count(),
        leftovers,
        ..Summary::default()
    };
    if let Some(outcome) = input.outcome {
        for action in &input.plan.actions {
            match outcome.actions.get(&action.id.0).map(|what| what.result) {
                Some(StepResult::Done | StepResult::AlreadyDone) => summary.done += 1,
                Some(StepResult::Failed) => summary.failed += 1,
                Some(StepResult::Changed | StepResult::Skipped) | None => summary.skipped += 1,
            }
        }
    }
    summary
}
