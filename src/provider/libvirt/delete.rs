//! Deleting a machine: its mark is the last thing to go, so that whatever is interrupted, a marked
//! domain remains for the next run to finish.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use super::classify::classify;
use super::domain_read::{DomainFacts, Source};
use super::host::calls::{CallError, Calls, Config, UndefineWith, code, state};
use super::lock::Fence;
use super::machine::{Machine, changed, expected, in_state, look, may_end, wait_off, write_mark};
use super::naming::{self, BaseName, LockName, ProofName};
use super::observe::refresh_pool;
use super::site::Site;
use super::stages::Stages;
use super::users::{file_name, named, unreadable};
use crate::plan::{Expect, MarkState, Reason};
use crate::provider::error::{Class, ProviderError};

/// libvirt 8.9: the first that knows the flag for TPM state.
const KNOWS_TPM_FLAG: u64 = 8_009_000;

/// How a machine is to be deleted.
pub(super) struct Deletion<'a> {
    pub instance: &'a str,
    pub expect: &'a Expect,
    /// Even when it is paused.
    pub forced: bool,
    /// How long an ACPI shutdown may take; zero ends it at once.
    pub drain: Duration,
    /// Whether the run was told to end.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// Deletes the machine; returns what was left behind on purpose, or `None` when it was gone.
pub(super) fn delete(
    calls: &mut dyn Calls,
    site: &Site,
    fence: &Fence,
    deletion: &Deletion<'_>,
    stages: &mut Stages<'_>,
) -> Result<Option<Vec<String>>, ProviderError> {
    let name = deletion.instance;
    fence.check(calls)?;
    let Some(machine) = expected(calls, site, name, deletion.expect)? else { return Ok(None) };
    still_free(&machine, deletion.expect)?;
    may_end(&machine, deletion.forced)?;
    let disks = disks_of(calls, &machine)?;
    stages.enter("mark");
    let machine = lasting(calls, machine)?;
    // Every domain of the host was read meanwhile.
    fence.check(calls)?;
    write_mark(calls, &machine, &in_state(&machine.mark, MarkState::Deleting))?;
    if machine.active() {
        stages.enter("shutdown");
        if !shut_down(calls, &machine, deletion)? {
            if !deletion.drain.is_zero() && (deletion.cancelled)() {
                // The guest goes on powering off by itself, and the mark says what is left to do.
                let why = "the run was told to end while the guest was powering off";
                return Err(ProviderError::new(Class::Cancelled, Reason::Interrupted, "delete the machine", name, why)
                    .hint("the next run finishes it"));
            }
            // An hour may have gone by since the machine was looked at.
            fence.check(calls)?;
            if let Some(machine) = look(calls, site, name, &deletion.expect.uuid)? {
                still_going(&machine)?;
                stages.enter("destroy");
                end(calls, &machine)?;
            }
        }
    }
    // Somebody may have changed the domain while it shut down.
    let uuid = machine.row.uuid;
    let Some(machine) = look(calls, site, name, &deletion.expect.uuid)? else {
        fence.check(calls)?;
        let Disks { ours, left_behind } = volumes_of(calls, name, uuid)?;
        remove(calls, &ours)?;
        return Ok(Some(
            disks.left_behind.into_iter().chain(left_behind).collect::<BTreeSet<_>>().into_iter().collect(),
        ));
    };
    still_going(&machine)?;
    if machine.active() {
        return Err(changed(Reason::Changed, name, "somebody started it while it was being deleted"));
    }
    fence.check(calls)?;
    stages.enter("disks");
    // Somebody may have taken a disk into use while the machine shut down, by a file of their own too.
    refresh_pool(calls, name)?;
    let disks = disks_of(calls, &machine)?;
    remove(calls, &disks.ours)?;
    stages.enter("undefine");
    undefine(calls, &machine)?;
    Ok(Some(disks.left_behind))
}

/// Defines a machine again that somebody undefined while it ran: it would be gone once it is off, and
/// its disks would hang on nothing if the run ended then (L31).
fn lasting(calls: &mut dyn Calls, machine: Machine) -> Result<Machine, ProviderError> {
    if machine.persistent {
        return Ok(machine);
    }
    let failed = |error: &CallError| classify("define the domain again", &machine.row.name, error);
    let xml = calls.domain_xml(machine.row.uuid, Config::Live).map_err(|error| failed(&error))?;
    match calls.define(&xml) {
        Ok(_) => Ok(Machine { persistent: true, ..machine }),
        Err(error) if error.dead => Err(failed(&error)),
        // One that cannot be defined any more is ended as it is.
        Err(_) => Ok(machine),
    }
}

/// Demands that nobody protected the machine or took it over since the plan was made.
fn still_free(machine: &Machine, expect: &Expect) -> Result<(), ProviderError> {
    let (mark, name) = (&machine.mark, &machine.row.name);
    if mark.protect && !expect.protect {
        return Err(changed(Reason::Protected, name, "it became protected after the plan was made"));
    }
    if mark.source != expect.source {
        return Err(changed(Reason::OtherSource, name, "another source of manifests took it over"));
    }
    Ok(())
}

/// Demands that the mark is the one that this deletion wrote.
fn still_going(machine: &Machine) -> Result<(), ProviderError> {
    if machine.mark.state == MarkState::Deleting {
        return Ok(());
    }
    Err(changed(Reason::Changed, &machine.row.name, "somebody changed its mark while it was being deleted"))
}

/// Asks the guest to power off, and says whether it did in time.
fn shut_down(calls: &mut dyn Calls, machine: &Machine, deletion: &Deletion<'_>) -> Result<bool, ProviderError> {
    let (name, uuid) = (&machine.row.name, machine.row.uuid);
    let listens = matches!(machine.state, state::RUNNING | state::BLOCKED | state::SHUTDOWN);
    if !listens || deletion.drain.is_zero() {
        return Ok(false);
    }
    match calls.shutdown(uuid) {
        // A guest that cannot be asked is ended all the same; a host that is gone is not.
        Err(error) if error.dead => Err(classify("shut the domain down", name, &error)),
        Err(_) => Ok(false),
        Ok(()) => wait_off(calls, name, uuid, deletion.drain, deletion.cancelled),
    }
}

fn end(calls: &mut dyn Calls, machine: &Machine) -> Result<(), ProviderError> {
    match calls.destroy(machine.row.uuid) {
        Err(error) if !matches!(error.code, code::OPERATION_INVALID | code::NO_DOMAIN) || error.dead => {
            Err(classify("end the domain", &machine.row.name, &error))
        }
        _ => Ok(()),
    }
}

/// The disks of a machine: those that go with it, and those that stay.
struct Disks {
    ours: Vec<String>,
    left_behind: Vec<String>,
}

/// Only volumes whose names are the machine's own go, and only while no other domain names them and
/// no volume is made on top of them (L18).
fn volumes_of(calls: &mut dyn Calls, name: &str, uuid: Uuid) -> Result<Disks, ProviderError> {
    let volumes = calls.volume_names().map_err(|error| classify("look at the disks", name, &error))?;
    let mut ours: Vec<String> =
        volumes.iter().filter(|volume| naming::parse_disk(name, uuid, volume).is_some()).cloned().collect();
    let mut left_behind = Vec::new();
    if !ours.is_empty() {
        let others = named(calls, Some(uuid))?;
        let backings = backings(calls, &volumes)?;
        let used = |volume: &String| {
            others.iter().any(|other| other.facts.names_volume(volume))
                || backings.iter().any(|path| file_name(path) == volume)
        };
        left_behind.extend(ours.extract_if(.., |volume| used(volume)));
    }
    Ok(Disks { ours, left_behind })
}

/// The volumes that go with a machine, and what else its configuration names.
fn disks_of(calls: &mut dyn Calls, machine: &Machine) -> Result<Disks, ProviderError> {
    let (name, uuid) = (&machine.row.name, machine.row.uuid);
    let failed = |error: CallError| classify("look at the disks", name, &error);
    let Disks { ours, left_behind } = volumes_of(calls, name, uuid)?;
    let mut left_behind: BTreeSet<String> = left_behind.into_iter().collect();
    let config = if machine.persistent { Config::Persistent } else { Config::Live };
    let xml = calls.domain_xml(uuid, config).map_err(failed)?;
    let facts = DomainFacts::read(&xml).map_err(|error| unreadable(name, &error))?;
    let own = |path: &str| naming::parse_disk(name, uuid, file_name(path)).is_some();
    for disk in facts.disks {
        match disk.source {
            Source::Path(path) if !own(&path) => _ = left_behind.insert(path),
            Source::Volume { pool, volume } => _ = left_behind.insert(format!("{pool}/{volume}")),
            Source::Path(_) | Source::Elsewhere | Source::Empty => {}
        }
    }
    Ok(Disks { ours, left_behind: left_behind.into_iter().collect() })
}

/// Whether a volume is of a kind that this program makes: none of them is ever on top of a disk.
fn is_own_kind(volume: &str) -> bool {
    naming::looks_like_ours(volume)
        || BaseName::parse(volume).is_some()
        || ProofName::parse(volume).is_some()
        || LockName::parse(volume).is_some()
}

/// Paths of the files that volumes of the pool are overlays of. Volumes of this program's own kinds
/// are left out: it makes each of them on a base image or on nothing.
fn backings(calls: &mut dyn Calls, volumes: &[String]) -> Result<Vec<String>, ProviderError> {
    let mut found = Vec::new();
    for volume in volumes.iter().filter(|volume| !is_own_kind(volume)) {
        let read = calls.volume(volume).map_err(|error| classify("look at the volume", volume, &error))?;
        found.extend(read.and_then(|volume| volume.backing));
    }
    Ok(found)
}

fn remove(calls: &mut dyn Calls, volumes: &[String]) -> Result<(), ProviderError> {
    for volume in volumes {
        match calls.delete_volume(volume) {
            Err(error) if error.code != code::NO_STORAGE_VOL || error.dead => {
                return Err(classify("remove the disk", volume, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn undefine(calls: &mut dyn Calls, machine: &Machine) -> Result<(), ProviderError> {
    let name = &machine.row.name;
    let version = calls.libvirt_version().map_err(|error| classify("ask for the version", name, &error))?;
    let with = UndefineWith {
        managed_save: true,
        snapshots: true,
        nvram: true,
        checkpoints: true,
        tpm: version >= KNOWS_TPM_FLAG,
    };
    match calls.undefine(machine.row.uuid, with) {
        Err(error) if error.code == code::NO_DOMAIN && !error.dead => Ok(()),
        other => other.map_err(|error| classify("undefine the domain", name, &error)),
    }
}
