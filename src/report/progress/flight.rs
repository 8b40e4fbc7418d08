//! The words of progress, and what is in flight.

use std::time::Duration;

use super::super::words;
use crate::apply::{ActionOutcome, StepResult, Subject};
use crate::plan::{Address, HostRef};
use crate::provider::{Direction, Transfer};

/// The forms of an action's verb: what it is, what goes on, what was done.
const FORMS: [(&str, &str, &str); 5] = [
    ("create", "creating", "created"),
    ("start", "starting", "started"),
    ("update", "updating", "updated"),
    ("replace", "replacing", "replaced"),
    ("delete", "deleting", "deleted"),
];

fn forms(verb: &'static str) -> (&'static str, &'static str) {
    FORMS.iter().find(|(form, _, _)| *form == verb).map_or((verb, verb), |(_, going, done)| (*going, *done))
}

/// `creating a/b on lab/h1`.
pub(super) fn going(subject: &Subject) -> String {
    match subject {
        Subject::Image { place, key } => words::line(&format!("bringing image {key} to {place}")),
        Subject::Action { verb, proxy, place, .. } => format!("{} {proxy} on {place}", forms(verb).0),
    }
}

/// `create a/b on lab/h1`.
pub(super) fn named(subject: &Subject) -> String {
    match subject {
        Subject::Image { place, key } => words::line(&format!("image {key} on {place}")),
        Subject::Action { verb, proxy, place, .. } => format!("{verb} {proxy} on {place}"),
    }
}

/// The line for the end of an image or an action.
pub(super) fn ended(subject: &Subject, what: &ActionOutcome) -> String {
    let message = what.message.as_deref().or(what.failures.last().map(|failure| failure.message.as_str()));
    let message = words::line(message.unwrap_or("no reason was given"));
    let text = match what.result {
        StepResult::Done => {
            let done = match subject {
                Subject::Image { place, key } => format!("image {key} is on {place}"),
                Subject::Action { verb, proxy, place, .. } => format!("{} {proxy} on {place}", forms(verb).1),
            };
            format!("{done} after {}{}", words::seconds(what.seconds), at(what))
        }
        StepResult::AlreadyDone => format!("{}: it was so already", named(subject)),
        StepResult::Changed => format!("{}: nothing was done: {message}", named(subject)),
        StepResult::Failed => format!("{}: failed after {}: {message}", named(subject), words::seconds(what.seconds)),
        StepResult::Skipped => format!("{}: skipped: {message}", named(subject)),
    };
    words::line(&text)
}

fn at(what: &ActionOutcome) -> String {
    match &what.address {
        Some(Address::Known(addresses)) => {
            addresses.first().map(|address| format!(", at {address}")).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// What tells transfers apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransferKey {
    upload: bool,
    pub image: String,
    pub place: Option<HostRef>,
}

impl TransferKey {
    pub fn of(transfer: &Transfer) -> Self {
        Self {
            upload: transfer.direction == Direction::Upload,
            image: transfer.image.clone(),
            place: transfer.place.clone(),
        }
    }

    /// Whether the transfer is over once `subject` is.
    pub fn ends_with(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Image { place, key } => *key == self.image && self.place.as_ref().is_none_or(|to| to == place),
            Subject::Action { .. } => false,
        }
    }

    /// `uploading debian-13 to lab/h1`.
    pub fn going(&self) -> String {
        self.say("uploading", "downloading")
    }

    /// `uploaded debian-13 to lab/h1`.
    pub fn done(&self) -> String {
        self.say("uploaded", "downloaded")
    }

    fn say(&self, up: &str, down: &str) -> String {
        let verb = if self.upload { up } else { down };
        let to = self.place.as_ref().map(|place| format!(" to {place}")).unwrap_or_default();
        words::line(&format!("{verb} {}{to}", self.image))
    }
}

/// `120 MiB of 400 MiB (30%)`, as far as it is known.
pub(super) fn amount(transfer: &Transfer) -> String {
    let done = words::bytes(transfer.done);
    match (transfer.total, words::percent(transfer.done, transfer.total)) {
        (Some(total), Some(percent)) => format!("{done} of {} ({percent}%)", words::bytes(total)),
        _ => done,
    }
}

/// Whether every byte of it went.
pub(super) fn complete(transfer: &Transfer) -> bool {
    transfer.total.is_some_and(|total| transfer.done >= total)
}

/// Something in flight.
#[derive(Debug, Clone)]
pub(super) struct Span {
    /// When it began.
    pub since: Duration,
    /// How many lines for "still" it has had.
    pub told: u64,
}

impl Span {
    pub fn new(since: Duration) -> Self {
        Self { since, told: 0 }
    }

    pub fn elapsed(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}
