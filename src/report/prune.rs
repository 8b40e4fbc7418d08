//! What `images prune` would remove, and what came of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::words;
use crate::plan::HostRef;
use crate::provider::{Prunable, PruneKind, Pruned};

/// What may go, by host, with the reason of each and a last line that adds them up.
#[must_use]
pub fn proposal(hosts: &BTreeMap<HostRef, Vec<Prunable>>, now: Timestamp) -> String {
    let all: Vec<&Prunable> = hosts.values().flatten().collect();
    if all.is_empty() {
        return "Nothing to remove.\n".to_owned();
    }
    let mut lines = Vec::new();
    for (host, items) in hosts.iter().filter(|(_, items)| !items.is_empty()) {
        lines.push(host.to_string());
        for item in items {
            let age = item.modified.map(|modified| format!(", last changed {} ago", words::age(modified, now)));
            lines.push(format!("  -   {}", words::line(&item.file)));
            let (why, size) = (reason(item.kind), words::bytes(item.bytes));
            lines.push(format!("        {why}; {size}{}", age.unwrap_or_default()));
        }
        lines.push(String::new());
    }
    let bytes = all.iter().map(|item| item.bytes).fold(0, u64::saturating_add);
    lines.push(format!("To remove: {}, {}.", words::count(all.len(), "file", "files"), words::bytes(bytes)));
    lines.join("\n") + "\n"
}

fn reason(kind: PruneKind) -> &'static str {
    match kind {
        PruneKind::Unused => "no disk, no machine and no manifest needs this image",
        PruneKind::Debris => "part of an image, left by a run that died",
        PruneKind::LoneProof => "proof of an image that is gone",
        PruneKind::Leftover => "disk of no machine",
    }
}

/// What came of one removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneOutcome {
    /// The host.
    pub host: HostRef,
    /// What was to be removed.
    pub item: Prunable,
    /// What became of it, or why that is not known.
    pub what: Result<Pruned, String>,
}

/// What stayed and why, and a last line that adds up what went.
#[must_use]
pub fn outcome(outcomes: &[PruneOutcome]) -> String {
    let mut lines = Vec::new();
    let (mut removed, mut kept, mut failed, mut bytes) = (0_usize, 0_usize, 0_usize, 0_u64);
    for PruneOutcome { host, item, what } in outcomes {
        let file = words::line(&item.file);
        match what {
            Ok(Pruned::Removed) => {
                removed += 1;
                bytes = bytes.saturating_add(item.bytes);
            }
            Ok(Pruned::Gone) => {}
            Ok(Pruned::Kept(why)) => {
                kept += 1;
                lines.push(format!("kept     {file} on {host}: {}", words::line(why)));
            }
            Err(why) => {
                failed += 1;
                lines.push(format!("failed   {file} on {host}: {}", words::line(why)));
            }
        }
    }
    let removed = words::count(removed, "file", "files");
    lines.push(format!("Removed {removed}, {}; {kept} kept, {failed} failed.", words::bytes(bytes)));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::fixture::host;
    use super::*;

    fn item(kind: PruneKind, file: &str) -> Prunable {
        let modified = "2026-01-01T00:00:00Z".parse().ok();
        Prunable { kind, file: file.to_owned(), bytes: 400 << 20, modified, machine: None }
    }

    fn now() -> Timestamp {
        "2026-01-04T00:00:00Z".parse().expect("a time")
    }

    #[test]
    fn what_may_go_is_shown_with_its_reason_and_age() {
        let items = vec![
            item(PruneKind::Unused, "egress-plan-base-a.qcow2"),
            item(PruneKind::Debris, "egress-plan-base-b.qcow2"),
            Prunable { bytes: 0, modified: None, ..item(PruneKind::LoneProof, "egress-plan-base-c.sha256-1") },
            item(PruneKind::Leftover, "egress-d.qcow2\u{1b}[2J"),
        ];
        let hosts = BTreeMap::from([(host("lab/h1"), items), (host("lab/h2"), Vec::new())]);
        insta::assert_snapshot!(proposal(&hosts, now()));
        assert_eq!(proposal(&BTreeMap::new(), now()), "Nothing to remove.\n");
    }

    #[test]
    fn what_stayed_is_told_with_the_reason() {
        let of = |file: &str, what| PruneOutcome { host: host("lab/h1"), item: item(PruneKind::Unused, file), what };
        insta::assert_snapshot!(outcome(&[
            of("a", Ok(Pruned::Removed)),
            of("b", Ok(Pruned::Gone)),
            of("c", Ok(Pruned::Kept("egress-x uses it".to_owned()))),
            of("d", Err("remove the file d: access denied".to_owned())),
        ]));
    }
}
