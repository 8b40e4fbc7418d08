//! The plan and its outcome as Markdown for a pull request's comment or a step summary, within a
//! bound of bytes (R40): forges drop a comment that is too long, and a lost comment is worse than a
//! short one.
//!
//! What is left out first is what carries no risk. The summary, the refusals of guards and the
//! deletions stay, deletions by name alone where there are very many. No text from a manifest or a
//! host can end the structure that it stands in: it is escaped or stands in a code span, where
//! neither markup nor mentions work.

use std::fmt::{self, Write as _};

use super::human;
use super::words;
use crate::apply::{Outcome, StepResult};
use crate::plan::{Action, ActionKind, Held, HostSummary, Plan, Verdict};

/// The bytes that the common forges take in a comment, less some for what a workflow adds.
pub const MAX_BYTES: usize = 60_000;

/// The least bound that is kept to; a smaller one is taken for this one.
pub const MIN_BYTES: usize = 4_096;

/// The plan, and what came of it where there is an outcome, in at most `max_bytes` bytes (and at least
/// [`MIN_BYTES`] are allowed).
#[must_use]
pub fn comment(plan: &Plan, outcome: Option<&Outcome>, max_bytes: usize) -> String {
    let max_bytes = max_bytes.max(MIN_BYTES);
    let head = head(plan, outcome, max_bytes / 8);
    let mut sections = sections(plan, outcome);
    let mut shown: Vec<Shown> = sections.iter().map(|_| Shown::default()).collect();
    let room = max_bytes.saturating_sub(head.len());
    let mut used: usize = sections.iter().map(|section| section.render(Shown::default()).len()).sum();

    for section in sections.iter_mut().filter(|section| section.title == DELETE) {
        let long: usize = section.rows.iter().map(|row| row.line.len()).sum();
        if used + long > room {
            section.shorten();
        }
    }
    // Every deletion first, then the rows of the other sections in the order of their risk, then
    // details, as far as there is room.
    for deletions in [true, false] {
        let chosen = sections.iter().zip(&mut shown).filter(|(section, _)| (section.title == DELETE) == deletions);
        for (section, shown) in chosen {
            for row in &section.rows {
                if used + row.line.len() > room {
                    break;
                }
                used += row.line.len();
                shown.rows += 1;
            }
        }
    }
    for (section, shown) in sections.iter().zip(&mut shown) {
        for row in section.rows.iter().take(shown.rows) {
            if used + row.details.len() > room {
                break;
            }
            used += row.details.len();
            shown.details += 1;
        }
    }
    let body: String = sections.iter().zip(shown).map(|(section, shown)| section.render(shown)).collect();
    head + &body
}

/// The title of the section that is never left out.
const DELETE: &str = "Delete";

/// Rows of one kind.
struct Section {
    title: &'static str,
    rows: Vec<Row>,
}

struct Row {
    line: String,
    /// The line without its why, for deletions that are very many.
    brief: Option<String>,
    details: String,
}

/// How much of a section is shown.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    rows: usize,
    details: usize,
}

impl Section {
    fn shorten(&mut self) {
        for row in &mut self.rows {
            if let Some(brief) = row.brief.take() {
                row.line = brief;
            }
            row.details.clear();
        }
    }

    fn render(&self, shown: Shown) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut text = format!("\n#### {} ({})\n\n", self.title, self.rows.len());
        for (at, row) in self.rows.iter().take(shown.rows).enumerate() {
            text.push_str(&row.line);
            if at < shown.details {
                text.push_str(&row.details);
            }
        }
        // It gets no longer with every row that is shown, so the reckoning above holds.
        let left = self.rows.len() - shown.rows.min(self.rows.len());
        if left > 0 {
            push(&mut text, format_args!("- _and {left} more, left out for length_\n"));
        }
        text
    }
}

fn head(plan: &Plan, outcome: Option<&Outcome>, max_refusals: usize) -> String {
    let mut text = format!("### egress-plan: fleet {}\n\n", code(plan.fleet.as_str()));
    match outcome {
        Some(outcome) => {
            push(&mut text, format_args!("**{}**\n", escape(&human::summary(plan, outcome))));
            if outcome.interrupted {
                text.push_str("\nThe run was interrupted.\n");
            }
        }
        None => push(&mut text, format_args!("**{}**\n", escape(&human::last_line(plan)))),
    }
    if plan.recorded {
        text.push_str("\nPlanned against recorded hosts, not live ones.\n");
    }
    for refusal in &plan.refusals {
        let row = format!(
            "\n**Refused ({})**: {} {}\n",
            human::guard_name(refusal.guard),
            escape(&refusal.message),
            code(&format!("→ {}", refusal.hint))
        );
        if row.len() <= max_refusals {
            text.push_str(&row);
        } else {
            push(&mut text, format_args!("\n**Refused ({})**\n", human::guard_name(refusal.guard)));
        }
    }
    if !plan.unchanged.is_empty() {
        push(&mut text, format_args!("\n{} unchanged.\n", plan.unchanged.len()));
    }
    text
}

/// In the order of risk, which is also the order on the page.
fn sections(plan: &Plan, outcome: Option<&Outcome>) -> Vec<Section> {
    let of_kind = |wanted: fn(&ActionKind) -> bool| -> Vec<Row> {
        plan.actions.iter().filter(|action| wanted(&action.kind)).map(|action| action_row(action, outcome)).collect()
    };
    let with_verdict = |verdict: Verdict| -> Vec<Row> {
        let mut held: Vec<&Held> = plan.held.iter().filter(|held| held.verdict == verdict).collect();
        held.sort_by(|a, b| (&a.place, &a.key, &a.instance).cmp(&(&b.place, &b.key, &b.instance)));
        held.into_iter().map(held_row).collect()
    };
    let mut sections = vec![
        Section { title: DELETE, rows: of_kind(|kind| matches!(kind, ActionKind::Delete { .. })) },
        Section { title: "Replace", rows: of_kind(|kind| matches!(kind, ActionKind::Replace { .. })) },
        Section { title: "Blocked", rows: with_verdict(Verdict::Blocked) },
        Section { title: "Unknown hosts", rows: unknown_hosts(plan) },
        Section { title: "Create", rows: of_kind(|kind| matches!(kind, ActionKind::Create { .. })) },
        Section { title: "Start", rows: of_kind(|kind| matches!(kind, ActionKind::Start { .. })) },
        Section { title: "Update", rows: of_kind(|kind| matches!(kind, ActionKind::Update { .. })) },
        Section { title: "Waiting", rows: with_verdict(Verdict::Waiting) },
        Section { title: "Kept", rows: with_verdict(Verdict::Kept) },
        Section { title: "Hosts", rows: remarks(plan) },
    ];
    if let Some(outcome) = outcome {
        sections.insert(0, Section { title: "Failed", rows: failures(outcome) });
    }
    let notes = plan.notes.iter().map(|note| Row {
        line: format!("- {}\n", escape_item(note)),
        brief: None,
        details: String::new(),
    });
    sections.push(Section { title: "Notes", rows: notes.collect() });
    sections
}

fn action_row(action: &Action, outcome: Option<&Outcome>) -> Row {
    let result = outcome.map(|outcome| match outcome.actions.get(&action.id.0).map(|what| what.result) {
        Some(StepResult::Done) => "**done** ",
        Some(StepResult::AlreadyDone) => "**as wanted** ",
        Some(StepResult::Failed) => "**failed** ",
        Some(StepResult::Changed) => "**changed** ",
        Some(StepResult::Skipped) | None => "**skipped** ",
    });
    let line = format!(
        "- {} {}{} on {}: {}\n",
        code(human::sign(&action.kind)),
        result.unwrap_or_default(),
        code(&action.key.to_string()),
        code(&action.place.to_string()),
        escape(&action.why)
    );
    let mut details: String = String::new();
    if action.kind.expect().is_some() && !action.details.iter().any(|detail| detail.contains(&action.instance)) {
        push(&mut details, format_args!("  - {}\n", code(&action.instance)));
    }
    for detail in &action.details {
        push(&mut details, format_args!("  - {}\n", code(detail)));
    }
    let brief = format!("- {} {}\n", result.unwrap_or_default(), code(&action.id.0));
    Row { line, brief: Some(brief), details }
}

fn held_row(held: &Held) -> Row {
    let subject = match (&held.key, &held.instance) {
        (Some(key), _) => code(&key.to_string()),
        (None, Some(instance)) => code(instance),
        (None, None) => "a machine".to_owned(),
    };
    let place = held.place.as_ref().map(|place| format!(" on {}", code(&place.to_string()))).unwrap_or_default();
    let line = format!("- {subject}{place}: {:?}: {}\n", held.reason, escape(&held.message));
    Row { line, brief: None, details: hint(held.hint.as_deref()) }
}

fn unknown_hosts(plan: &Plan) -> Vec<Row> {
    plan.hosts
        .iter()
        .filter_map(|(place, host)| match host {
            HostSummary::Unknown(trouble) => Some(Row {
                line: format!("- {}: {:?}: {}\n", code(&place.to_string()), trouble.reason, escape(&trouble.message)),
                brief: None,
                details: hint(trouble.hint.as_deref()),
            }),
            HostSummary::Known { .. } => None,
        })
        .collect()
}

/// What there is to say of hosts that answered.
fn remarks(plan: &Plan) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, host) in &plan.hosts {
        let HostSummary::Known { leftovers, lock, .. } = host else { continue };
        let place = code(&place.to_string());
        if let Some(lock) = lock {
            let line = format!("- {place}: run {} is at work there\n", code(&lock.run));
            rows.push(Row { line, brief: None, details: String::new() });
        }
        if !leftovers.is_empty() {
            let volumes = words::count(leftovers.len(), "volume", "volumes");
            let line = format!("- {place}: {volumes} of no machine\n");
            let details = hint(Some("to remove them: egress-plan images prune --leftovers"));
            rows.push(Row { line, brief: None, details });
        }
    }
    rows
}

fn failures(outcome: &Outcome) -> Vec<Row> {
    let images = outcome
        .images
        .iter()
        .map(|image| (format!("image {} on {}", image.action.image.key, image.action.place), &image.what));
    let actions = outcome.actions.iter().map(|(id, what)| (id.clone(), what));
    images
        .chain(actions)
        .filter(|(_, what)| what.result == StepResult::Failed)
        .map(|(name, what)| {
            let last = what.failures.last();
            let class = last.map(|failure| format!("{}: ", failure.class)).unwrap_or_default();
            let message = what.message.as_deref().or(last.map(|failure| failure.message.as_str())).unwrap_or_default();
            Row {
                line: format!("- {}: {}\n", code(&name), escape(&format!("{class}{message}"))),
                brief: None,
                details: hint(what.hint.as_deref()),
            }
        })
        .collect()
}

fn hint(hint: Option<&str>) -> String {
    hint.map(|hint| format!("  - {}\n", code(&format!("→ {hint}")))).unwrap_or_default()
}

fn push(text: &mut String, what: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(what);
}

/// `text` as a code span, with a fence longer than any run of backticks in it. Nothing works inside one.
fn code(text: &str) -> String {
    let text = words::line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// [`escape`] for the start of an item, where a dash or a number would begin another list.
fn escape_item(text: &str) -> String {
    let text = escape(text);
    let begins_list = text.starts_with(|c: char| matches!(c, '-' | '+' | '=') || c.is_ascii_digit());
    if begins_list { format!("\u{200b}{text}") } else { text }
}

/// `text` with every character that Markdown or HTML could take for markup made harmless. A mention or
/// a reference is broken by a character without width.
fn escape(text: &str) -> String {
    let text = words::line(text);
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' | '#' => {
                out.push(c);
                out.push('\u{200b}');
            }
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    // A link that a forge would make by itself from an address.
    out.replace("://", ":\u{200b}//").replace("www.", "www\u{200b}.")
}

#[cfg(test)]
mod tests;
