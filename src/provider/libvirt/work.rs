//! One action, on the thread that makes its calls: joins what the plan says with the operation that
//! does it.

use std::sync::Arc;
use std::time::Duration;

use super::change::{self, Change};
use super::create::{Blueprint, check, create};
use super::delete::{Deletion, delete};
use super::host::calls::Calls;
use super::lock;
use super::machine;
use super::site::Site;
use super::stages::Stages;
use crate::plan::{ActionKind, Expect, Reason};
use crate::provider::error::{Class, ProviderError};
use crate::provider::{Done, StepContext};

/// One action, on the thread that makes its calls.
pub(super) struct Work {
    pub site: Site,
    pub fence: lock::Fence,
    pub instance: String,
    pub kind: ActionKind,
    pub blueprint: Option<Blueprint>,
    pub drain: Duration,
    pub running: Option<Duration>,
    pub context: StepContext,
}

impl Work {
    pub fn run(self, calls: &mut dyn Calls) -> Result<Done, ProviderError> {
        let tell = Arc::clone(&self.context.tell);
        let mut stages = Stages::new(&*tell);
        let mut done = self.act(calls, &mut stages)?;
        done.stages = stages.finish();
        Ok(done)
    }

    fn act(&self, calls: &mut dyn Calls, stages: &mut Stages<'_>) -> Result<Done, ProviderError> {
        let fence = &self.fence;
        match &self.kind {
            ActionKind::Create { .. } => self.create(calls, stages),
            ActionKind::Start { expect, set } => {
                let change = Change { instance: &self.instance, expect, set };
                let already = change::start(calls, &self.site, fence, &change, self.running, stages)?;
                Ok(Done { already, uuid: Some(expect.uuid.clone()), ..Done::default() })
            }
            ActionKind::Update { expect, set } => {
                let change = Change { instance: &self.instance, expect, set };
                let already = change::update(calls, &self.site, fence, &change, stages)?;
                Ok(Done { already, uuid: Some(expect.uuid.clone()), ..Done::default() })
            }
            ActionKind::Replace { expect, forced, .. } => {
                // Whatever can be found wrong with the new machine is found before the old one goes.
                if let Some(blueprint) = &self.blueprint {
                    check(calls, blueprint)?;
                }
                let left_behind = self.delete(calls, expect, *forced, stages)?.unwrap_or_default();
                let made = self.create(calls, stages).map_err(|failure| match failure.class {
                    // The old machine is gone, so that this is no "nothing was done" any more.
                    Class::Changed => ProviderError { class: Class::Transient, ..failure },
                    _ => failure,
                })?;
                Ok(Done { left_behind, already: false, ..made })
            }
            ActionKind::Delete { expect, forced, .. } => {
                let left = self.delete(calls, expect, *forced, stages)?;
                Ok(Done { already: left.is_none(), left_behind: left.unwrap_or_default(), ..Done::default() })
            }
        }
    }

    fn create(&self, calls: &mut dyn Calls, stages: &mut Stages<'_>) -> Result<Done, ProviderError> {
        let Some(blueprint) = &self.blueprint else {
            return Err(machine::changed(Reason::Changed, &self.instance, "there is nothing to make it from"));
        };
        let created = create(calls, &self.site, &self.fence, blueprint, stages)?;
        Ok(Done { already: created.already, uuid: Some(created.uuid.to_string()), ..Done::default() })
    }

    fn delete(
        &self,
        calls: &mut dyn Calls,
        expect: &Expect,
        forced: bool,
        stages: &mut Stages<'_>,
    ) -> Result<Option<Vec<String>>, ProviderError> {
        let cancelled = || self.context.cancel.is_cancelled();
        let deletion = Deletion { instance: &self.instance, expect, forced, drain: self.drain, cancelled: &cancelled };
        delete(calls, &self.site, &self.fence, &deletion, stages)
    }
}
