//! Progress as plain lines, for logs and pipes. No escape byte is ever written.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use super::super::words;
use super::flight::{Span, TransferKey, amount, complete, ended, going, named};
use crate::apply::{Event, Subject};
use crate::plan::HostRef;
use crate::provider::Transfer;

/// How often there is a line for what is still in flight.
const STILL: Duration = Duration::from_secs(10);

pub(super) struct Plain {
    to: Box<dyn Write + Send>,
    actions: BTreeMap<Subject, (Span, Option<&'static str>)>,
    transfers: BTreeMap<TransferKey, (Span, Transfer)>,
    waiting: BTreeSet<(HostRef, String)>,
}

impl Plain {
    pub fn new(to: Box<dyn Write + Send>) -> Self {
        Self { to, actions: BTreeMap::new(), transfers: BTreeMap::new(), waiting: BTreeSet::new() }
    }

    pub fn on(&mut self, event: &Event, now: Duration) {
        match event {
            Event::Started(subject) => {
                self.line(&going(subject));
                self.actions.insert(subject.clone(), (Span::new(now), None));
            }
            Event::Stage(subject, stage) => {
                if let Some((_, current)) = self.actions.get_mut(subject) {
                    *current = Some(stage);
                }
            }
            Event::Retrying(subject, why) => self.line(&format!("{}: trying again: {why}", named(subject))),
            Event::Transfer(transfer) => self.transfer(transfer, now),
            Event::Finished(subject, what) => {
                self.actions.remove(subject);
                self.transfers.retain(|key, _| !key.ends_with(subject));
                self.line(&ended(subject, what));
            }
            Event::WaitingForLock { place, run } => {
                if self.waiting.insert((place.clone(), run.clone())) {
                    self.line(&format!("waiting for run {run} to give {place} back"));
                }
            }
        }
    }

    fn transfer(&mut self, transfer: &Transfer, now: Duration) {
        let key = TransferKey::of(transfer);
        if complete(transfer) {
            let since = self.transfers.remove(&key).map_or(now, |(span, _)| span.since);
            let took = words::elapsed(now.saturating_sub(since));
            self.line(&format!("{}, {} in {took}", key.done(), words::bytes(transfer.done)));
            return;
        }
        if let Some((_, latest)) = self.transfers.get_mut(&key) {
            *latest = transfer.clone();
        } else {
            let size = transfer.total.map(|total| format!(", {}", words::bytes(total))).unwrap_or_default();
            self.line(&format!("{}{size}", key.going()));
            self.transfers.insert(key, (Span::new(now), transfer.clone()));
        }
    }

    /// A line for everything that has been in flight for another ten seconds.
    pub fn tick(&mut self, now: Duration) {
        let mut lines = Vec::new();
        for (subject, (span, stage)) in &mut self.actions {
            if due(span, now) {
                let stage = stage.map(|stage| format!("{stage}, ")).unwrap_or_default();
                let elapsed = words::elapsed(span.elapsed(now));
                lines.push(format!("still {} … {stage}{elapsed} elapsed", going(subject)));
            }
        }
        for (key, (span, latest)) in &mut self.transfers {
            if due(span, now) {
                let elapsed = words::elapsed(span.elapsed(now));
                lines.push(format!("still {} … {}, {elapsed} elapsed", key.going(), amount(latest)));
            }
        }
        for line in lines {
            self.line(&line);
        }
    }

    pub fn print(&mut self, text: &str) {
        for line in text.lines() {
            self.line(line);
        }
    }

    /// A line; an output that is gone is no reason to stop a run.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.to, "{}", words::line(text));
        let _ = self.to.flush();
    }
}

fn due(span: &mut Span, now: Duration) -> bool {
    let periods = span.elapsed(now).as_secs() / STILL.as_secs();
    let due = periods > span.told;
    span.told = periods;
    due
}
