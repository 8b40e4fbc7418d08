//! The plan: what will be done, host by host, and why.

use std::collections::{BTreeMap, BTreeSet};

use super::super::style::{Ink, Style};
use super::super::words;
use super::{Page, column, guard_name, ink, sign};
use crate::plan::{Action, Held, HostRef, HostSummary, ImageAction, Plan, Verdict};

/// Columns of the sign and the space around it.
const MARGIN: usize = 6;
/// Where the lines below an entry begin.
const DETAIL: usize = 8;
/// Leftovers that are named on the page; the report names all of them.
const LEFTOVERS_NAMED: usize = 5;

/// The plan as text. The same plan gives the same bytes; the last line is [`last_line`].
#[must_use]
pub fn plan(plan: &Plan, style: Style) -> String {
    let mut page = Page::new(style);
    let groups = groups(plan);
    // What no host can be named for comes last.
    let (placed, unplaced): (Vec<_>, Vec<_>) = groups.iter().partition(|(place, _)| place.is_some());
    for (place, group) in placed.into_iter().chain(unplaced) {
        if !group.is_quiet() {
            page.blank();
            group.write(&mut page, place.map(ToString::to_string).as_deref().unwrap_or("without a host"));
        }
    }
    page.blank();
    closing(&mut page, plan, &groups);
    page.text
}

/// The last line of every plan. `No changes.` only when nothing is to be done and nobody is needed;
/// with something blocked or a host unknown the figures are given, all zeros as they may be.
#[must_use]
pub fn last_line(plan: &Plan) -> String {
    if !plan.has_changes() && !plan.is_incomplete() {
        return "No changes.".to_owned();
    }
    let counts = plan.counts();
    format!(
        "Plan: {} to create, {} to start, {} to update, {} to replace, {} to delete, {} blocked.",
        counts.create, counts.start, counts.update, counts.replace, counts.delete, counts.blocked
    )
}

/// What there is to say of one host, or of no host.
#[derive(Default)]
struct Group<'a> {
    summary: Option<&'a HostSummary>,
    images: Vec<&'a ImageAction>,
    actions: Vec<&'a Action>,
    held: Vec<&'a Held>,
}

fn groups(plan: &Plan) -> BTreeMap<Option<&HostRef>, Group<'_>> {
    let mut groups: BTreeMap<Option<&HostRef>, Group<'_>> = BTreeMap::new();
    for (place, summary) in &plan.hosts {
        groups.entry(Some(place)).or_default().summary = Some(summary);
    }
    for image in &plan.images {
        groups.entry(Some(&image.place)).or_default().images.push(image);
    }
    for action in &plan.actions {
        groups.entry(Some(&action.place)).or_default().actions.push(action);
    }
    for held in &plan.held {
        groups.entry(held.place.as_ref()).or_default().held.push(held);
    }
    for group in groups.values_mut() {
        group.held.sort_by(|a, b| (a.verdict, &a.key, &a.instance).cmp(&(b.verdict, &b.key, &b.instance)));
    }
    groups
}

impl Group<'_> {
    /// Whether nobody misses the host on the page.
    fn is_quiet(&self) -> bool {
        let calm = match self.summary {
            Some(HostSummary::Known { leftovers, lock, .. }) => leftovers.is_empty() && lock.is_none(),
            Some(HostSummary::Unknown(_)) => false,
            None => true,
        };
        calm && self.actions.is_empty() && self.held.is_empty() && self.images.is_empty()
    }

    fn write(&self, page: &mut Page, name: &str) {
        self.write_head(page, name);
        let names: Vec<String> = self.held.iter().map(|held| subject(held)).collect();
        let keys: Vec<String> = self.actions.iter().map(|action| action.key.to_string()).collect();
        let width = column(page.style, names.iter().chain(&keys).map(String::as_str));
        if !names.is_empty() || !keys.is_empty() {
            page.blank();
        }
        for (action, key) in self.actions.iter().zip(&keys) {
            write_action(page, action, key, width);
        }
        for (held, name) in self.held.iter().zip(&names) {
            write_held(page, held, name, width);
        }
    }

    fn write_head(&self, page: &mut Page, name: &str) {
        let title = page.style.paint(Ink::Strong, name);
        match self.summary {
            Some(HostSummary::Known { software, store, available_bytes, ours, others, leftovers, lock }) => {
                let facts = words::line(&format!(
                    "{software} · {store} {} free · {ours} ours, {}",
                    words::bytes(*available_bytes),
                    words::count(*others, "other", "others")
                ));
                page.painted(&format!("{title}   {facts}"));
                if let Some(lock) = lock {
                    let until =
                        lock.until.map(|until| format!(" until {until} unless it ends before")).unwrap_or_default();
                    page.plain(2, &format!("in progress: run {} holds this host{until}", lock.run));
                }
                if !leftovers.is_empty() {
                    write_leftovers(page, leftovers);
                }
            }
            Some(HostSummary::Unknown(trouble)) => {
                let state = page.style.paint(Ink::Bad, "unknown");
                page.painted(&format!("{title}   {state}: {:?}: {}", trouble.reason, words::line(&trouble.message)));
                page.plain(2, "Nothing is planned on this host.");
                if let Some(hint) = &trouble.hint {
                    page.plain(2, &format!("→ {hint}"));
                }
            }
            None => page.painted(&title),
        }
        let images: BTreeSet<&str> = self.images.iter().map(|action| action.image.key.as_str()).collect();
        if !images.is_empty() {
            let images: Vec<&str> = images.into_iter().collect();
            page.plain(2, &format!("to be fetched first: {}", images.join(", ")));
        }
    }
}

fn write_leftovers(page: &mut Page, leftovers: &[crate::plan::Leftover]) {
    let what = words::count(leftovers.len(), "volume", "volumes");
    let sizes: Option<Vec<u64>> = leftovers.iter().map(|leftover| leftover.bytes).collect();
    let size = sizes.map(|sizes| sizes.into_iter().fold(0, u64::saturating_add));
    let size = size.map(|size| format!(", {} in all", words::bytes(size))).unwrap_or_default();
    page.plain(2, &format!("left over: {what} of no machine{size}"));
    for leftover in leftovers.iter().take(LEFTOVERS_NAMED) {
        page.plain(4, &leftover.name);
    }
    if leftovers.len() > LEFTOVERS_NAMED {
        page.plain(4, &format!("and {} more", leftovers.len() - LEFTOVERS_NAMED));
    }
    page.plain(2, "→ to remove them: egress-plan images prune --leftovers");
}

fn write_action(page: &mut Page, action: &Action, key: &str, width: usize) {
    let margin = page.cell(ink(&action.kind), &format!("  {}", sign(&action.kind)), MARGIN);
    let key = page.cell(Ink::Strong, key, width);
    page.painted(&format!("{margin}{key}   {}: {}", action.kind.verb(), words::line(&action.why)));
    // A create's instance does not exist yet, and every detail may name the machine already.
    let named = action.details.iter().any(|detail| detail.contains(&action.instance));
    if action.kind.expect().is_some() && !named {
        page.plain(DETAIL, &action.instance);
    }
    for detail in &action.details {
        page.plain(DETAIL, detail);
    }
}

fn write_held(page: &mut Page, held: &Held, name: &str, width: usize) {
    let (mark, word, ink) = match held.verdict {
        Verdict::Blocked => ("  !", "blocked", Ink::Bad),
        Verdict::Waiting => ("", "waits", Ink::Faint),
        Verdict::Kept => ("", "kept", Ink::Faint),
    };
    let margin = page.cell(ink, mark, MARGIN);
    let key = page.cell(Ink::Strong, name, width);
    let word = page.style.paint(ink, word);
    page.painted(&format!("{margin}{key}   {word}: {}", words::line(&held.message)));
    if let (Some(_), Some(instance)) = (&held.key, &held.instance)
        && !held.message.contains(instance.as_str())
        && !held.hint.as_ref().is_some_and(|hint| hint.contains(instance.as_str()))
    {
        page.plain(DETAIL, instance);
    }
    if let Some(hint) = &held.hint {
        page.plain(DETAIL, &format!("→ {hint}"));
    }
}

/// Whom a held line is about: the proxy, else the machine.
fn subject(held: &Held) -> String {
    match (&held.key, &held.instance) {
        (Some(key), _) => key.to_string(),
        (None, Some(instance)) => words::line(instance),
        (None, None) => "(no machine)".to_owned(),
    }
}

fn closing(page: &mut Page, plan: &Plan, groups: &BTreeMap<Option<&HostRef>, Group<'_>>) {
    for note in &plan.notes {
        page.plain(0, &format!("Note: {note}"));
    }
    if !plan.notes.is_empty() {
        page.blank();
    }
    for refusal in &plan.refusals {
        let word = page.style.paint(Ink::Bad, "Refused");
        page.painted(&format!("{word} ({}): {}", guard_name(refusal.guard), words::line(&refusal.message)));
        page.plain(2, &format!("→ {}", refusal.hint));
    }
    if !plan.refusals.is_empty() {
        page.plain(0, "Nothing of this plan is done.");
        page.blank();
    }
    if plan.recorded {
        page.plain(0, "Planned against recorded hosts, not live ones.");
    }
    let unknown = plan.hosts.values().filter(|host| matches!(host, HostSummary::Unknown(_))).count();
    if unknown > 0 {
        let hosts = words::count(plan.hosts.len(), "host", "hosts");
        let verb = if unknown == 1 { "is" } else { "are" };
        page.plain(0, &format!("{unknown} of {hosts} {verb} unknown; what is there stays as it is."));
    }
    let quiet = groups.values().filter(|group| group.summary.is_some() && group.is_quiet()).count();
    if quiet > 0 && quiet < plan.hosts.len() {
        let hosts = words::count(quiet, "other host", "other hosts");
        page.plain(0, &format!("{hosts} with nothing to do."));
    }
    if !plan.unchanged.is_empty() {
        page.plain(0, &format!("{} unchanged.", plan.unchanged.len()));
    }
    page.painted(&last_line(plan));
}
