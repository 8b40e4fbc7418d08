//! What came of a plan, a line an action.

use std::fmt::Write as _;

use super::super::style::{Ink, Style};
use super::super::words;
use super::{Page, column};
use crate::apply::{ActionOutcome, Outcome, StepResult};
use crate::plan::{Action, ActionKind, Address, Plan};

/// Columns of the first word.
const WORD: usize = 11;

/// The outcome as text: images, then actions in the plan's order, then what stopped the run, then a
/// closing line `Applied: …`.
#[must_use]
pub fn outcome(plan: &Plan, outcome: &Outcome, style: Style) -> String {
    let mut page = Page::new(style);
    let images: Vec<(String, &ActionOutcome)> = outcome
        .images
        .iter()
        .map(|image| (format!("image {} on {}", image.action.image.key, image.action.place), &image.what))
        .collect();
    let actions: Vec<(&Action, String)> = plan.actions.iter().map(|action| (action, action.id.0.clone())).collect();
    let names = images.iter().map(|(name, _)| name).chain(actions.iter().map(|(_, name)| name));
    let width = column(style, names.map(String::as_str));
    for (name, what) in &images {
        write(&mut page, name, width, Some(what));
    }
    for (action, name) in &actions {
        write(&mut page, name, width, outcome.actions.get(&action.id.0));
    }
    page.blank();
    closing(&mut page, plan, outcome);
    page.text
}

fn write(page: &mut Page, name: &str, width: usize, what: Option<&ActionOutcome>) {
    let (word, ink) = match what.map(|what| what.result) {
        Some(StepResult::Done) => ("done", Ink::Good),
        Some(StepResult::AlreadyDone) => ("as wanted", Ink::Good),
        Some(StepResult::Changed) => ("changed", Ink::Change),
        Some(StepResult::Failed) => ("failed", Ink::Bad),
        Some(StepResult::Skipped) | None => ("skipped", Ink::Faint),
    };
    let word = page.cell(ink, word, WORD);
    let name = page.cell(Ink::Strong, &words::line(name), width);
    page.painted(&format!("{word}{name}   {}", remark(what)));
    let Some(what) = what else { return };
    let last = what.failures.len().saturating_sub(usize::from(what.result == StepResult::Failed));
    for failure in what.failures.iter().take(last) {
        page.plain(WORD + 2, &format!("an earlier attempt: {}: {}", failure.class, failure.message));
    }
    if let Some(hint) = &what.hint {
        page.plain(WORD + 2, &format!("→ {hint}"));
    }
    for left in &what.left_behind {
        page.plain(WORD + 2, &format!("left on the host: {left}"));
    }
}

/// The rest of an action's line: how long it took, where the machine is, or why it was not done.
fn remark(what: Option<&ActionOutcome>) -> String {
    let Some(what) = what else { return "the run ended before it".to_owned() };
    let message = what.message.as_deref().or_else(|| what.failures.last().map(|failure| failure.message.as_str()));
    let message = words::line(message.unwrap_or_default());
    match what.result {
        StepResult::Done => match &what.address {
            Some(Address::Known(addresses)) if !addresses.is_empty() => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                format!("{}   {}", words::seconds(what.seconds), addresses.join(", "))
            }
            _ => words::seconds(what.seconds),
        },
        StepResult::AlreadyDone => "it was so already".to_owned(),
        StepResult::Failed => {
            let class = what.failures.last().map(|failure| format!("{}: ", failure.class)).unwrap_or_default();
            format!("{}   {class}{message}", words::seconds(what.seconds))
        }
        StepResult::Changed if message.is_empty() => {
            "it is not what the plan saw any more; nothing was done".to_owned()
        }
        StepResult::Changed | StepResult::Skipped => message,
    }
}

fn closing(page: &mut Page, plan: &Plan, outcome: &Outcome) {
    for (place, why) in &outcome.stopped_hosts {
        page.plain(0, &format!("{place} was stopped for this run: {why}"));
    }
    for id in &outcome.not_ready {
        page.plain(0, &format!("Not ready in time: {}", id.0));
    }
    if outcome.interrupted {
        page.plain(0, "The run was interrupted; what was begun was brought to an end or is finished by the next run.");
    }
    page.painted(&summary(plan, outcome));
}

/// `Applied: 1 created, 0 started, …`: what was done by kind, then what was not.
#[must_use]
pub fn summary(plan: &Plan, outcome: &Outcome) -> String {
    let (mut created, mut started, mut updated, mut replaced, mut deleted) =
        (0_usize, 0_usize, 0_usize, 0_usize, 0_usize);
    let (mut failed, mut skipped) = (0_usize, 0_usize);
    for action in &plan.actions {
        match outcome.actions.get(&action.id.0).map(|what| what.result) {
            Some(StepResult::Done | StepResult::AlreadyDone) => match action.kind {
                ActionKind::Create { .. } => created += 1,
                ActionKind::Start { .. } => started += 1,
                ActionKind::Update { .. } => updated += 1,
                ActionKind::Replace { .. } => replaced += 1,
                ActionKind::Delete { .. } => deleted += 1,
            },
            Some(StepResult::Failed) => failed += 1,
            Some(StepResult::Changed | StepResult::Skipped) | None => skipped += 1,
        }
    }
    let mut text = format!(
        "Applied: {created} created, {started} started, {updated} updated, {replaced} replaced, {deleted} deleted, \
         {failed} failed, {skipped} skipped."
    );
    let images = outcome.images.iter().filter(|image| image.what.result == StepResult::Failed).count();
    if images > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, " {} could not be fetched.", words::count(images, "image", "images"));
    }
    text
}
