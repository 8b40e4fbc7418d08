//! The fleet as it is now, as a table.

use jiff::Timestamp;

use super::document::{AddressState, ConditionType, Phase, ProxyReport, Report};
use super::table::{NONE, render};
use super::words;
use crate::plan::Reason;

/// One line a proxy, by key, then hosts that did not answer and machines that nobody wants. Ages are
/// those at the end of the run that the report is of.
#[must_use]
pub fn table(report: &Report) -> String {
    let now = report.run.ended_at;
    if report.proxies.is_empty() {
        return "No proxies are wanted.\n".to_owned() + &closing(report);
    }
    let header = ["NAMESPACE/NAME", "PROVIDER/HOST", "PHASE", "ADDRESS", "PORT", "AGE", "REASON"];
    let rows = report.proxies.iter().map(|proxy| row(proxy, now));
    render(&header, rows) + &closing(report)
}

fn row(proxy: &ProxyReport, now: Timestamp) -> Vec<String> {
    let host = proxy.host.as_ref().map_or_else(|| "(external)".to_owned(), ToString::to_string);
    let age = proxy.created_at.map_or_else(|| NONE.to_owned(), |since| words::age(since, now));
    vec![
        proxy.key.to_string(),
        host,
        format!("{:?}", proxy.phase),
        address(proxy),
        proxy.port.to_string(),
        age,
        reason(proxy),
    ]
}

fn address(proxy: &ProxyReport) -> String {
    match (proxy.ip, &proxy.endpoint, proxy.address_state) {
        (Some(ip), _, AddressState::Stale) => format!("{ip} (stale)"),
        (Some(ip), _, _) => ip.to_string(),
        (None, Some(endpoint), _) => endpoint.clone(),
        (None, None, AddressState::Pending) => NONE.to_owned(),
        (None, None, _) => "?".to_owned(),
    }
}

/// The reason word, and for what needs a look its sentence too.
fn reason(proxy: &ProxyReport) -> String {
    let Some(condition) = proxy.condition(ConditionType::Provisioned) else { return NONE.to_owned() };
    let reason = match (&proxy.held, proxy.phase) {
        (Some(held), Phase::Blocked | Phase::Pending) => held.reason,
        _ => condition.reason,
    };
    match (proxy.phase, &proxy.message) {
        (Phase::Running | Phase::Ready, _) if reason == Reason::AsWanted => String::new(),
        (Phase::Failed | Phase::Blocked | Phase::Unknown, Some(message)) => format!("{reason:?}: {message}"),
        _ => format!("{reason:?}"),
    }
}

fn closing(report: &Report) -> String {
    let mut lines = Vec::new();
    for host in report.hosts.iter().filter(|host| !host.reachable) {
        let message = host.message.as_deref().unwrap_or_default();
        lines.push(format!("{} is unknown: {:?}: {message}", host.host, host.reason));
    }
    if report.summary.orphans > 0 {
        let machines = words::count(report.summary.orphans, "machine", "machines");
        lines.push(format!("{machines} of this fleet with no proxy: see egress-plan diff"));
    }
    for missing in &report.missing_hosts {
        lines.push(format!("{}; {}", missing.message, missing.hint));
    }
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| words::line(line)).collect();
    format!("\n{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fleet, ago, create, external, instance, key, known, managed, mark, paused};
    use super::*;
    use crate::plan::{Address, Power};

    #[test]
    fn a_fleet_in_every_phase() {
        let mut fleet = Fleet::new();
        for name in ["a/booting", "a/lost", "a/paused", "a/running", "a/stale", "a/stuck"] {
            fleet.want(managed(name, "lab/h1"));
            fleet.view("lab/h1").instances.push(instance(name, "lab/h1"));
        }
        fleet.view("lab/h1").instances.push(instance("a/orphan", "lab/h1"));
        fleet.want(managed("a/lost", "lab/h2"));
        fleet.lose("lab/h2");
        fleet.want(external("b/partner", "proxy.example"));
        fleet.want(managed("b/planned", "lab/h1"));
        fleet.act(create("b/planned", "lab/h1"), None);
        fleet.machine("a/stale").address = known(&["2001:db8::7"]);
        fleet.machine("a/stuck").address = Address::Known(Vec::new());
        let mut previous = fleet.report();
        previous.run.ended_at = ago(5);
        fleet.previous = Some(previous);
        fleet.machine("a/stale").address = Address::Unknown("no answer".to_owned());
        fleet.machine("a/booting").address = Address::Known(Vec::new());
        mark(fleet.machine("a/booting")).started_at = Some(ago(1));
        mark(fleet.machine("a/booting")).created_at = ago(1);
        fleet.plan.held.push(paused("a/paused", "lab/h1"));
        fleet.machine("a/paused").power = Power::Paused { why: "ioerror".to_owned(), hint: "resume it".to_owned() };
        insta::assert_snapshot!(table(&fleet.report()));
        assert!(fleet.report().proxy(&key("a/running")).is_some());
    }

    #[test]
    fn no_proxies_are_said_plainly() {
        assert_eq!(table(&Fleet::new().report()), "No proxies are wanted.\n");
    }
}
