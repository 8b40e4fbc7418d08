//! Two-stage interrupt: the first signal drains, the second cuts, the third ends the process.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::exit::ExitCode;
use crate::apply::Stop;

/// The two stages, as tokens that whoever works can watch.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Cancelled by the first SIGINT or SIGTERM: nothing new is begun and transfers end at once;
    /// what runs may go on.
    pub first: CancellationToken,
    /// Cancelled by the second signal, or when the grace is over: everything ends at its next
    /// boundary.
    pub second: CancellationToken,
    /// Ends the run as a first signal would, for a run whose time is over.
    expire: CancellationToken,
}

impl Signals {
    /// Takes over SIGINT and SIGTERM for the rest of the process. Call it inside of a tokio runtime.
    ///
    /// # Errors
    /// When the signals cannot be taken over.
    pub fn install(grace: Duration) -> std::io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, receiver) = mpsc::channel(3);
        let signals = Self::default();
        let (expired, as_signal) = (signals.expire.clone(), sender.clone());
        tokio::spawn(async move {
            expired.cancelled().await;
            as_signal.send(()).await.ok();
        });
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if sender.send(()).await.is_err() {
                    return;
                }
            }
        });
        let stages = signals.clone();
        tokio::spawn(async move {
            if stages.follow(receiver, grace, tokio::time::sleep).await.is_some() {
                // The two stages were not enough, so nothing that would be waited for is worth it.
                std::process::exit(i32::from(ExitCode::Interrupted.number()));
            }
        });
        Ok(signals)
    }

    /// Ends the run as a signal would: nothing new begins, and what runs gets its grace.
    pub fn expire(&self) {
        self.expire.cancel();
    }

    /// The stages, for whoever carries a plan out.
    #[must_use]
    pub fn stop(&self) -> Stop {
        Stop { first: self.first.clone(), second: self.second.clone() }
    }

    /// Whether a signal came.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.first.is_cancelled()
    }

    /// Turns signals into stages, and returns with the signal that comes after the second stage.
    /// Nothing when no signal can come any more, which is how a runtime ends.
    async fn follow<F: Future>(
        &self,
        mut signals: mpsc::Receiver<()>,
        grace: Duration,
        sleep: impl FnOnce(Duration) -> F,
    ) -> Option<()> {
        signals.recv().await?;
        tracing::warn!(grace_s = grace.as_secs(), "Interrupted: nothing new is begun, and what runs gets its grace");
        self.first.cancel();
        tokio::select! {
            signal = signals.recv() => signal?,
            _ = sleep(grace) => {}
        }
        tracing::warn!("Stopping what still runs");
        self.second.cancel();
        signals.recv().await
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const GRACE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn each_signal_is_the_next_stage() {
        let (sender, receiver) = mpsc::channel(3);
        let signals = Signals::default();
        let stages = signals.clone();
        let following =
            tokio::spawn(async move { stages.follow(receiver, GRACE, |_| std::future::pending::<()>()).await });

        sender.send(()).await.expect("followed");
        signals.first.cancelled().await;
        assert!(signals.interrupted() && !signals.second.is_cancelled());

        sender.send(()).await.expect("followed");
        signals.second.cancelled().await;
        assert!(!following.is_finished());

        sender.send(()).await.expect("followed");
        assert_eq!(following.await.expect("ends"), Some(()));
    }

    #[tokio::test]
    async fn the_end_of_the_grace_is_the_second_stage() {
        let (sender, receiver) = mpsc::channel(3);
        let (end_grace, grace_ended) = oneshot::channel::<()>();
        let signals = Signals::default();
        let stages = signals.clone();
        tokio::spawn(async move {
            let sleep = |grace: Duration| {
                assert_eq!(grace, GRACE);
                grace_ended
            };
            stages.follow(receiver, GRACE, sleep).await
        });

        sender.send(()).await.expect("followed");
        signals.first.cancelled().await;
        assert!(!signals.second.is_cancelled());

        end_grace.send(()).expect("awaited");
        signals.second.cancelled().await;
    }

    #[tokio::test]
    async fn the_end_of_the_runtime_is_no_signal() {
        let (sender, receiver) = mpsc::channel(3);
        drop(sender);
        let signals = Signals::default();
        assert_eq!(signals.follow(receiver, GRACE, |_| std::future::pending::<()>()).await, None);
        assert!(!signals.interrupted());
    }
}
