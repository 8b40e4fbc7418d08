//! Starting a machine, and changing its mark in place.

use std::time::Duration;

use jiff::Timestamp;

use super::classify::classify;
use super::host::calls::{Calls, state};
use super::lock::Fence;
use super::machine::{Machine, changed, expected, look, wait_running, write_mark};
use super::naming;
use super::site::Site;
use super::stages::Stages;
use crate::plan::{Expect, Mark, MarkUpdate, Reason};
use crate::provider::error::ProviderError;

/// What is to become of a machine that is there.
pub(super) struct Change<'a> {
    pub instance: &'a str,
    pub expect: &'a Expect,
    pub set: &'a MarkUpdate,
}

fn with(mark: &Mark, set: &MarkUpdate) -> Mark {
    Mark {
        port: set.port,
        labels: set.labels.clone(),
        protect: set.protect,
        source: set.source.clone(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        ..mark.clone()
    }
}

fn gone(instance: &str) -> ProviderError {
    changed(Reason::Changed, instance, "it is gone")
}

/// Starts a machine that is off; `true` when it ran already.
pub(super) fn start(
    calls: &mut dyn Calls,
    site: &Site,
    fence: &Fence,
    change: &Change<'_>,
    running: Option<Duration>,
    stages: &mut Stages<'_>,
) -> Result<bool, ProviderError> {
    let Change { instance, expect, set } = *change;
    fence.check(calls)?;
    let machine = expected(calls, site, instance, expect)?.ok_or_else(|| gone(instance))?;
    if machine.active() {
        if !matches!(machine.state, state::RUNNING | state::BLOCKED) {
            return Err(changed(Reason::Changed, instance, "it is neither off nor running"));
        }
        // The plan saw it off: whoever started it, an attempt of ours whose answer was lost perhaps, did
        // so just now.
        let mark = Mark { started_at: Some(Timestamp::now()), ..with(&machine.mark, set) };
        write_mark(calls, &machine, &mark)?;
        return Ok(true);
    }
    if machine.saved {
        return Err(changed(Reason::ManagedSave, instance, "its memory is saved"));
    }
    // A machine whose disks are gone would be started for ever (L32).
    for disk in [naming::overlay_name(instance, machine.row.uuid), naming::seed_name(instance, machine.row.uuid)] {
        if calls.volume(&disk).map_err(|error| classify("look at the disk", &disk, &error))?.is_none() {
            return Err(changed(Reason::Changed, instance, format!("its disk {disk} is gone")));
        }
    }
    stages.enter("start");
    calls.start(machine.row.uuid).map_err(|error| classify("start the domain", instance, &error))?;
    if let Some(budget) = running {
        stages.enter("running");
        wait_running(calls, instance, machine.row.uuid, budget)?;
    }
    stages.enter("mark");
    let started = look(calls, site, instance, &expect.uuid)?.ok_or_else(|| gone(instance))?;
    let mark = Mark { started_at: Some(Timestamp::now()), ..with(&started.mark, set) };
    write_mark(calls, &started, &mark)?;
    Ok(false)
}

/// Writes new values into a mark; `true` when they stood there already.
pub(super) fn update(
    calls: &mut dyn Calls,
    site: &Site,
    fence: &Fence,
    change: &Change<'_>,
    stages: &mut Stages<'_>,
) -> Result<bool, ProviderError> {
    let Change { instance, expect, set } = *change;
    fence.check(calls)?;
    let machine: Machine = expected(calls, site, instance, expect)?.ok_or_else(|| gone(instance))?;
    let mark = with(&machine.mark, set);
    if mark == machine.mark {
        return Ok(true);
    }
    stages.enter("mark");
    write_mark(calls, &machine, &mark)?;
    Ok(false)
}
