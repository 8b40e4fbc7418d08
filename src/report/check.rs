//! What `check` found, a line a host: ready or not, why, and what to do.

use super::style::{Ink, Style};
use super::words;
use crate::provider::CheckReport;
use crate::provider::check::STORE;

/// Facts that have a place of their own in a host's line, or are of no use to a reader.
const SHOWN: [&str; 10] = [
    "libvirtVersion",
    "hypervisorVersion",
    "pool",
    "user",
    "hostname",
    "latencyMs",
    "poolAvailableGiB",
    "poolCapacityGiB",
    "poolState",
    STORE,
];

/// Columns of the first word.
const WORD: usize = 11;

/// The hosts sorted by name, and a last line that counts them.
#[must_use]
pub fn lines(reports: &[CheckReport], style: Style) -> String {
    let mut reports: Vec<&CheckReport> = reports.iter().collect();
    reports.sort_by(|a, b| a.host.cmp(&b.host));
    let names: Vec<String> = reports.iter().map(|report| report.host.to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).min(style.width / 3);
    let mut text = String::new();
    for (report, name) in reports.iter().zip(&names) {
        let (ink, word) = if report.ready() { (Ink::Good, "ready") } else { (Ink::Bad, "NOT READY") };
        let gap = WORD - word.len();
        let (word, what) = (style.paint(ink, word), if report.ready() { facts(report) } else { trouble(report) });
        push(&mut text, &format!("{word}{:gap$}{name:width$}   {what}", ""));
        if !report.ready() {
            let indent = WORD + width + 3;
            if let Some(hint) = &report.hint {
                push(&mut text, &format!("{:indent$}→ {}", "", words::line(hint)));
            }
            let passed: Vec<&str> =
                report.stages.iter().filter(|stage| stage.passed).map(|stage| stage.name.as_str()).collect();
            if !passed.is_empty() {
                push(&mut text, &format!("{:indent$}passed: {}", "", words::line(&passed.join(", "))));
            }
        }
    }
    let ready = reports.iter().filter(|report| report.ready()).count();
    let all = words::count(reports.len(), "host", "hosts");
    push(&mut text, &format!("{all}: {ready} ready, {} not ready.", reports.len() - ready));
    text
}

fn push(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

fn trouble(report: &CheckReport) -> String {
    let stage =
        report.stages.iter().find(|stage| !stage.passed).map(|stage| format!(" at {}", words::line(&stage.name)));
    format!("{:?}{}: {}", report.reason, stage.unwrap_or_default(), words::line(&report.message))
}

/// The facts that a person looks for first, then the others by name.
fn facts(report: &CheckReport) -> String {
    let fact = |name: &str| report.facts.get(name).map(|value| words::line(value));
    let mut parts = Vec::new();
    parts.extend(fact("libvirtVersion").map(|version| format!("libvirt {version}")));
    parts.extend(fact("hypervisorVersion").map(|version| format!("hypervisor {version}")));
    parts.extend(fact("pool").map(|pool| format!("pool {pool}{}", space(report))));
    parts.extend(fact("user").map(|user| format!("user {user}")));
    parts.extend(fact("hostname").map(|name| format!("hostname {name}")));
    parts.extend(fact("latencyMs").map(|latency| format!("{latency} ms")));
    for (name, value) in report.facts.iter().filter(|(name, _)| !SHOWN.contains(&name.as_str())) {
        parts.push(format!("{} {}", words::line(name), words::line(value)));
    }
    parts.join(", ")
}

fn space(report: &CheckReport) -> String {
    let fact = |name: &str| report.facts.get(name).map(|value| words::line(value));
    let state =
        fact("poolState").filter(|state| state != "running").map(|state| format!(" {state}")).unwrap_or_default();
    match (fact("poolAvailableGiB"), fact("poolCapacityGiB")) {
        (Some(free), Some(all)) => format!("{state} {free} of {all} GiB free"),
        (Some(free), None) => format!("{state} {free} GiB free"),
        _ => state,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::fixture::host;
    use super::*;
    use crate::plan::Reason;
    use crate::provider::CheckStage;

    fn stages(passed: &[&str], failed: &[&str]) -> Vec<CheckStage> {
        let stage = |passed| move |name: &&str| CheckStage { name: (*name).to_owned(), passed };
        passed.iter().map(stage(true)).chain(failed.iter().map(stage(false))).collect()
    }

    fn ready(name: &str) -> CheckReport {
        let facts = [
            ("libvirtVersion", "9.0.0"),
            ("hypervisorVersion", "7.2.0"),
            ("pool", "default"),
            ("poolState", "running"),
            ("poolAvailableGiB", "242"),
            ("poolCapacityGiB", "500"),
            ("user", "egress"),
            ("hostname", "beelink"),
            ("latencyMs", "41"),
            ("instancesRunning", "3"),
        ];
        CheckReport {
            host: host(name),
            reason: Reason::Reachable,
            message: "the host is ready".to_owned(),
            hint: None,
            stages: stages(&["credentials", "tcp", "ssh", "socket", "libvirt", "pool"], &[]),
            facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    fn reports() -> Vec<CheckReport> {
        let refused = CheckReport {
            reason: Reason::Unreachable,
            message: "connection refused by 192.0.2.7:22".to_owned(),
            hint: Some("check the name, the firewall and that sshd runs".to_owned()),
            stages: stages(&["credentials"], &["tcp"]),
            facts: BTreeMap::new(),
            ..ready("lab/h2")
        };
        let stopped = CheckReport {
            reason: Reason::PoolNotActive,
            message: "pool default is not running\u{1b}[2J".to_owned(),
            hint: Some("virsh -c qemu:///system pool-start default".to_owned()),
            stages: stages(&["credentials", "tcp", "ssh", "socket", "libvirt"], &["pool"]),
            ..ready("other/a-long-name")
        };
        vec![stopped, refused, ready("lab/h1")]
    }

    #[test]
    fn a_line_a_host_with_the_reason_and_what_to_do() {
        insta::assert_snapshot!(lines(&reports(), Style::PLAIN));
    }

    #[test]
    fn r39_without_colour_no_escape_byte_is_written() {
        assert!(!lines(&reports(), Style::PLAIN).contains('\u{1b}'));
        assert!(lines(&reports(), Style { colour: true, width: 80 }).contains("\u{1b}[31mNOT READY"));
    }
}
