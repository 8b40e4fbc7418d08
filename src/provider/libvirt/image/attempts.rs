//! Retries of a download: what a failure means, how often it is tried again, and how long it waits.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use super::{Limits, Watch};
use crate::plan::Reason;
use crate::provider::error::{Class, ProviderError};

pub(super) const OPERATION: &str = "fetch the image";

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ProviderError,
    /// How long the server asked to be left alone.
    pub(super) after: Option<Duration>,
    /// What is there so far is of no use: the next attempt asks for the whole.
    pub(super) restart: bool,
}

impl Failure {
    /// It fails again until somebody changes something.
    pub(super) fn permanent(key: &str, message: impl Into<String>) -> Self {
        Self::new(Class::Permanent, Reason::PermanentError, key, message)
    }

    /// It may work the next time.
    pub(super) fn transient(key: &str, message: impl Into<String>) -> Self {
        Self::new(Class::Transient, Reason::TransientError, key, message)
    }

    /// Time ran out.
    pub(super) fn timeout(key: &str, message: impl Into<String>) -> Self {
        Self::new(Class::Transient, Reason::Timeout, key, message)
    }

    /// Something went wrong on this machine (L36: never permanent).
    pub(super) fn local(key: &str, error: &std::io::Error) -> Self {
        Self::transient(key, ["the spool file could not be used: ", &error.to_string()].concat())
            .hint("free space in the temporary folder, or point --cache-dir to a folder with more")
    }

    fn new(class: Class, reason: Reason, key: &str, message: impl Into<String>) -> Self {
        Self { error: ProviderError::new(class, reason, OPERATION, key, message), after: None, restart: false }
    }

    /// The next attempt asks for the whole.
    pub(super) fn restart(mut self) -> Self {
        self.restart = true;
        self
    }

    pub(super) fn hint(mut self, hint: &str) -> Self {
        self.error = self.error.hint(hint);
        self
    }
}

/// The run was interrupted.
pub(super) fn cancelled(key: &str) -> ProviderError {
    ProviderError::new(Class::Cancelled, Reason::Interrupted, OPERATION, key, "the run was interrupted")
}

/// Counts attempts and paces them.
pub(super) struct Attempts<'a> {
    limits: Limits,
    watch: &'a dyn Watch,
    failed: u32,
    pauses: ExponentialBackoff,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(limits: Limits, watch: &'a dyn Watch) -> Self {
        let pauses = ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(limits.pause)
            .with_max_delay(limits.longest_pause)
            .without_max_times()
            .build();
        Self { limits, watch, failed: 0, pauses }
    }

    /// Waits for the next attempt, or gives the failure back when there is none: it is permanent, or
    /// it was the last. Nothing permanent is retried.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<(), ProviderError> {
        self.failed += 1;
        if failure.error.class != Class::Transient || self.failed >= self.limits.attempts {
            return Err(failure.error);
        }
        self.watch.attempt_failed(self.failed, &failure.error);
        tokio::time::sleep(self.pause(failure.after)).await;
        Ok(())
    }

    /// The pause before the next attempt: its own, or longer where the server `asked` for that.
    fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let pause = self.pauses.next().unwrap_or(self.limits.longest_pause);
        pause.max(asked.unwrap_or_default().min(self.limits.longest_pause))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unwatched;
    use super::*;

    #[test]
    fn l43_a_server_that_asks_for_a_pause_gets_it_within_the_bound() {
        let longest = Limits::default().longest_pause;
        for (asked, least, most) in [
            (None, Duration::ZERO, Duration::from_secs(3)),
            (Some(Duration::from_secs(7)), Duration::from_secs(7), Duration::from_secs(7)),
            (Some(Duration::from_hours(24)), longest, longest),
            (Some(Duration::MAX), longest, longest),
        ] {
            let pause = Attempts::new(Limits::default(), &Unwatched).pause(asked);
            assert!((least..=most).contains(&pause), "{asked:?}: {pause:?}");
        }
        let mut attempts = Attempts::new(Limits::default(), &Unwatched);
        let pauses: Vec<Duration> = (0..100).map(|_| attempts.pause(None)).collect();
        assert!(pauses.iter().all(|pause| *pause <= longest * 2) && pauses.last() > pauses.first(), "{pauses:?}");
    }
}
