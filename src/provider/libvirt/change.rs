//! Starting a machine, and changing its mark in place.

use std::time::Duration;

use jiff::Timestamp;

use super::classify::classify;
use super::host::calls::{Calls, Volume, state};
use super::lock::Fence;
use super::machine::{Machine, changed, expected, look, wait_running, write_mark};
use super::naming::{self, BaseName};
use super::site::Site;
use super::stages::Stages;
use super::users::file_name;
use crate::plan::{Expect, Mark, MarkUpdate, Reason};
use crate::provider::error::{Class, ProviderError};

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
        let Some(volume) = calls.volume(&disk).map_err(|error| classify("look at the disk", &disk, &error))? else {
            return Err(changed(Reason::Changed, instance, format!("its disk {disk} is gone")));
        };
        is_of_its_image(&machine, &volume)?;
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

/// Demands that a disk that lies on another file lies on a base of the image that the mark tells of:
/// else somebody put an overlay of something else in its place (L23). One without a base was
/// flattened, which changes nothing in it.
fn is_of_its_image(machine: &Machine, disk: &Volume) -> Result<(), ProviderError> {
    let Some(backing) = &disk.backing else { return Ok(()) };
    let base = BaseName::parse(file_name(backing));
    if base.is_some_and(|base| machine.mark.catalogue.part_is("image", base.id().as_bytes()) != Some(false)) {
        return Ok(());
    }
    let text = format!("its disk {} is an overlay of {backing}, which is not its image", disk.name);
    let key = &machine.mark.proxy;
    let failure =
        ProviderError::new(Class::Permanent, Reason::PermanentError, "look at the disk", &machine.row.name, text);
    Err(failure.hint(format!("put its own disk back, or have it made anew with --replace {key}")))
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
