//! Progress on a terminal: what is in flight moves at the bottom, what ended stands above.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::super::words;
use super::flight::{Span, TransferKey, complete, ended, going, named};
use crate::apply::{Event, Subject};
use crate::plan::HostRef;
use crate::provider::Transfer;

pub(super) struct Bars {
    all: MultiProgress,
    actions: BTreeMap<Subject, Line>,
    transfers: BTreeMap<TransferKey, ProgressBar>,
    waiting: BTreeSet<(HostRef, String)>,
}

/// An action's line.
struct Line {
    span: Span,
    stage: Option<&'static str>,
    bar: ProgressBar,
}

impl Bars {
    pub fn new(target: ProgressDrawTarget) -> Self {
        Self {
            all: MultiProgress::with_draw_target(target),
            actions: BTreeMap::new(),
            transfers: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    pub fn on(&mut self, event: &Event, now: Duration) {
        match event {
            Event::Started(subject) => {
                let bar = self.all.add(ProgressBar::no_length().with_style(style("  {msg}")));
                let line = Line { span: Span::new(now), stage: None, bar };
                line.show(subject, now);
                self.actions.insert(subject.clone(), line);
            }
            Event::Stage(subject, stage) => {
                if let Some(line) = self.actions.get_mut(subject) {
                    line.stage = Some(stage);
                    line.show(subject, now);
                }
            }
            Event::Retrying(subject, why) => self.print(&format!("{}: trying again: {why}", named(subject))),
            Event::Transfer(transfer) => self.transfer(transfer),
            Event::Finished(subject, what) => {
                if let Some(line) = self.actions.remove(subject) {
                    line.bar.finish_and_clear();
                    self.all.remove(&line.bar);
                }
                self.transfers.retain(|key, bar| {
                    let over = key.ends_with(subject);
                    if over {
                        bar.finish_and_clear();
                    }
                    !over
                });
                self.print(&ended(subject, what));
            }
            Event::WaitingForLock { place, run } => {
                if self.waiting.insert((place.clone(), run.clone())) {
                    self.print(&format!("waiting for run {run} to give {place} back"));
                }
            }
        }
    }

    fn transfer(&mut self, transfer: &Transfer) {
        let key = TransferKey::of(transfer);
        if complete(transfer) {
            if let Some(bar) = self.transfers.remove(&key) {
                bar.finish_and_clear();
                self.all.remove(&bar);
            }
            return self.print(&format!("{}, {}", key.done(), words::bytes(transfer.done)));
        }
        let bar = self.transfers.entry(key).or_insert_with_key(|key| {
            let bar = match transfer.total {
                Some(total) => ProgressBar::new(total)
                    .with_style(style("  {msg} [{bar:20}] {bytes} of {total_bytes} at {bytes_per_sec}, {eta} to go")),
                None => ProgressBar::no_length().with_style(style("  {msg} {bytes} at {bytes_per_sec}")),
            };
            let bar = self.all.add(bar);
            bar.set_message(key.going());
            bar
        });
        bar.set_position(transfer.done);
    }

    pub fn tick(&mut self, now: Duration) {
        for (subject, line) in &self.actions {
            line.show(subject, now);
        }
        for bar in self.transfers.values() {
            bar.tick();
        }
    }

    /// Whole lines above what moves.
    pub fn print(&mut self, text: &str) {
        for line in text.lines() {
            // A terminal that is gone is no reason to stop a run.
            let _ = self.all.println(words::line(line));
        }
    }

    pub fn finish(&mut self) {
        self.actions.clear();
        self.transfers.clear();
        let _ = self.all.clear();
    }
}

impl Line {
    fn show(&self, subject: &Subject, now: Duration) {
        let stage = self.stage.map(|stage| format!("{stage} ")).unwrap_or_default();
        let elapsed = words::elapsed(self.span.elapsed(now));
        self.bar.set_message(format!("{} … {stage}{elapsed}", going(subject)));
    }
}

/// A style of a template that is part of this file; one that does not parse falls back to a bare bar.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}
