//! One step: its attempts, its failures, and what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::event::{Event, Listener, Subject};
use super::outcome::{ActionOutcome, Failure, StageTime, StepResult};
use crate::plan::{Action, Desired, ImageAction, Mode, Reason};
use crate::provider::{Class, Done, Progress, ProviderError, Providers, StepContext};

/// How often a step is tried again after a transient failure.
const RETRIES: usize = 2;

/// What every step of a run shares.
#[derive(Clone)]
pub(super) struct Shared {
    pub providers: Providers,
    pub desired: Arc<Desired>,
    pub listener: Arc<dyn Listener>,
    /// The first signal: transfers end, nothing new begins.
    pub stop: CancellationToken,
    /// The second signal.
    pub cancel: CancellationToken,
}

impl Shared {
    fn context(&self, subject: &Subject, cancel: &CancellationToken) -> StepContext {
        let (listener, subject) = (Arc::clone(&self.listener), subject.clone());
        StepContext {
            cancel: cancel.clone(),
            tell: Arc::new(move |progress| match progress {
                Progress::Stage(name) => listener.on(&Event::Stage(subject.clone(), name)),
                Progress::Transfer(transfer) => listener.on(&Event::Transfer(transfer)),
            }),
        }
    }

    /// Brings an image to a host.
    pub async fn image(&self, image: &ImageAction) -> (ActionOutcome, Option<Class>) {
        let subject = Subject::Image { place: image.place.clone(), key: image.image.key.clone() };
        let context = self.context(&subject, &self.stop);
        let span = tracing::info_span!("action.image", host = %image.place, image = %image.image.key);
        self.attempts(&subject, || async {
            match self.providers.of(&image.place) {
                Some(provider) => provider.ensure_image(&image.place.host, &image.image, &context).await,
                None => Err(not_in_config()),
            }
        })
        .instrument(span)
        .await
    }

    /// Does an action.
    pub async fn action(&self, action: &Action) -> (ActionOutcome, Option<Class>) {
        let subject = subject(action);
        let context = self.context(&subject, &self.cancel);
        let proxy = self.desired.proxies.get(&action.key).and_then(|proxy| match &proxy.mode {
            Mode::Managed(managed) if managed.place == action.place => Some((proxy, &**managed)),
            Mode::Managed(_) | Mode::External { .. } => None,
        });
        let name = format!("action.{}", action.kind.verb());
        let span = tracing::info_span!("action", otel.name = %name, host = %action.place, proxy = %action.key, domain = %action.instance);
        self.attempts(&subject, || async {
            match self.providers.of(&action.place) {
                Some(provider) => provider.act(action, proxy, &context).await,
                None => Err(not_in_config()),
            }
        })
        .instrument(span)
        .await
    }

    async fn attempts<F>(&self, subject: &Subject, mut attempt: impl FnMut() -> F) -> (ActionOutcome, Option<Class>)
    where
        F: Future<Output = Result<Done, ProviderError>>,
    {
        self.listener.on(&Event::Started(subject.clone()));
        let begun = Instant::now();
        let mut failures = Vec::new();
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_secs(1))
            .with_max_times(RETRIES)
            .with_jitter()
            .build();
        let (outcome, class) = loop {
            match attempt().await {
                Ok(done) => break (finished(done, failures, begun), None),
                Err(error) => {
                    failures.push(failure(&error));
                    let pause =
                        (error.class == Class::Transient && !self.stop.is_cancelled()).then(|| pauses.next()).flatten();
                    let Some(pause) = pause else { break (failed(&error, failures, begun), Some(error.class)) };
                    self.listener.on(&Event::Retrying(subject.clone(), error.to_string()));
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.stop.cancelled() => break (failed(&error, failures, begun), Some(error.class)),
                    }
                }
            }
        };
        self.listener.on(&Event::Finished(subject.clone(), Box::new(outcome.clone())));
        (outcome, class)
    }
}

pub(super) fn subject(action: &Action) -> Subject {
    Subject::Action {
        id: action.id.clone(),
        verb: action.kind.verb(),
        proxy: action.key.clone(),
        place: action.place.clone(),
        instance: action.instance.clone(),
    }
}

fn not_in_config() -> ProviderError {
    ProviderError::new(Class::Permanent, Reason::Unresolved, "find the provider", "", "the entry is not in the config")
}

fn failure(error: &ProviderError) -> Failure {
    Failure { class: error.class.as_str().to_owned(), reason: error.reason, message: error.to_string() }
}

fn finished(done: Done, failures: Vec<Failure>, begun: Instant) -> ActionOutcome {
    let stage =
        |(name, time): (&'static str, Duration)| StageTime { name: name.to_owned(), seconds: time.as_secs_f64() };
    ActionOutcome {
        result: if done.already { StepResult::AlreadyDone } else { StepResult::Done },
        reason: None,
        message: None,
        hint: None,
        failures,
        seconds: begun.elapsed().as_secs_f64(),
        stages: done.stages.into_iter().map(stage).collect(),
        uuid: done.uuid,
        address: None,
        left_behind: done.left_behind,
    }
}

fn failed(error: &ProviderError, failures: Vec<Failure>, begun: Instant) -> ActionOutcome {
    ActionOutcome {
        // After a failed attempt, a change on the host may be this step's own.
        result: if error.class == Class::Changed && failures.len() == 1 {
            StepResult::Changed
        } else {
            StepResult::Failed
        },
        reason: Some(error.reason),
        message: Some(error.to_string()),
        hint: error.hint.clone(),
        failures,
        seconds: begun.elapsed().as_secs_f64(),
        stages: Vec::new(),
        uuid: None,
        address: None,
        left_behind: Vec::new(),
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
