//! Tells which part of a step is under way, and keeps how long each took.

use std::time::{Duration, Instant};

use crate::provider::Progress;

/// The parts of one step.
pub(super) struct Stages<'a> {
    tell: &'a (dyn Fn(Progress) + Send + Sync),
    done: Vec<(&'static str, Duration)>,
    current: Option<(&'static str, Instant)>,
}

impl<'a> Stages<'a> {
    pub fn new(tell: &'a (dyn Fn(Progress) + Send + Sync)) -> Self {
        Self { tell, done: Vec::new(), current: None }
    }

    /// Ends the part before and begins the next.
    pub fn enter(&mut self, name: &'static str) {
        self.end();
        (self.tell)(Progress::Stage(name));
        self.current = Some((name, Instant::now()));
    }

    fn end(&mut self) {
        if let Some((name, since)) = self.current.take() {
            self.done.push((name, since.elapsed()));
        }
    }

    /// Ends the last part and returns all.
    pub fn finish(mut self) -> Vec<(&'static str, Duration)> {
        self.end();
        std::mem::take(&mut self.done)
    }
}
