//! Making a machine. The domain with its mark comes first, so that whatever is interrupted, a marked
//! domain is there for the next run to finish; its disks bear its UUID, so that none is ever reused.

use std::io::Cursor;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::classify::classify;
use super::delete::{Deletion, delete};
use super::domain_xml::DomainSpec;
use super::host::calls::{CallError, Calls, DomainRow, code, state};
use super::image_cache;
use super::lock::Fence;
use super::machine::{Machine, changed, in_state, look, wait_running, write_mark};
use super::naming::{self, BaseName};
use super::observe::file_length;
use super::seed::{self, SeedInput};
use super::site::Site;
use super::stages::Stages;
use super::volume_xml;
use crate::plan::{BaseImage, Expect, Make, Mark, MarkState, Network, Reason, UserData};
use crate::provider::error::{Class, ProviderError};

/// How often an overlay is made again when its base vanished meanwhile.
const OVERLAY_TRIES: u32 = 2;

/// Everything that a machine is made from.
pub(super) struct Blueprint {
    /// The domain, but for its UUID, its disks and the parts of the mark that depend on them.
    pub domain: DomainSpec,
    /// What the plan promised.
    pub make: Make,
    pub user_data: Option<UserData>,
    pub vendor_data: Option<Vec<u8>>,
    pub network: Option<Network>,
    pub hostname: String,
    pub autostart: bool,
    /// How long a start is followed until the domain runs; not at all when absent.
    pub running: Option<Duration>,
}

/// What a create came to.
pub(super) struct Created {
    pub uuid: Uuid,
    pub already: bool,
}

/// Makes the machine, or finds it made.
pub(super) fn create(
    calls: &mut dyn Calls,
    site: &Site,
    fence: &Fence,
    blueprint: &Blueprint,
    stages: &mut Stages<'_>,
) -> Result<Created, ProviderError> {
    let name = &blueprint.domain.name;
    fence.check(calls)?;
    stages.enter("look");
    if let Some(uuid) = clear_the_way(calls, site, fence, blueprint, stages)? {
        return Ok(Created { uuid, already: true });
    }
    let image = base_for(calls, blueprint)?;
    let folder = calls.pool().map_err(|error| classify("look at the pool", "", &error))?.path;
    let spec = fill_in(blueprint, &folder);
    stages.enter("define");
    let xml = spec.to_xml().map_err(|error| {
        ProviderError::new(Class::Permanent, Reason::PermanentError, "write the domain's XML", name, error.to_string())
    })?;
    let row = match calls.define(&xml) {
        Ok(row) => row,
        // The same code says that a domain of that name or UUID is there, and that no firmware fits.
        Err(error) if error.code == code::OPERATION_FAILED && !error.dead => {
            let there = calls.find_domain(name).map_err(|error| classify("look for the domain", name, &error))?;
            return Err(match there {
                Some(_) => changed(Reason::NameTaken, name, error.message),
                None => classify("define the domain", name, &error),
            });
        }
        Err(error) => return Err(classify("define the domain", name, &error)),
    };
    let machine = Machine { row, persistent: true, mark: spec.mark.clone(), state: state::SHUTOFF, saved: false };
    if let Err(failure) = make_disks(calls, fence, blueprint, &machine.row, &folder, image, stages) {
        leave_none_behind(calls, &machine.row);
        return Err(failure);
    }
    if blueprint.autostart {
        calls.set_autostart(machine.row.uuid, true).map_err(|error| classify("set autostart", name, &error))?;
    }
    stages.enter("start");
    calls.start(machine.row.uuid).map_err(|error| classify("start the domain", name, &error))?;
    if let Some(budget) = blueprint.running {
        stages.enter("running");
        wait_running(calls, name, machine.row.uuid, budget)?;
    }
    stages.enter("mark");
    let started = Machine { state: state::RUNNING, ..machine };
    let ready = Mark { started_at: Some(Timestamp::now()), ..in_state(&started.mark, MarkState::Ready) };
    write_mark(calls, &started, &ready)?;
    Ok(Created { uuid: started.row.uuid, already: false })
}

/// Makes the overlay and the seed, and looks then whether this run still holds the lock.
fn make_disks(
    calls: &mut dyn Calls,
    fence: &Fence,
    blueprint: &Blueprint,
    row: &DomainRow,
    folder: &str,
    image: BaseImage,
    stages: &mut Stages<'_>,
) -> Result<(), ProviderError> {
    stages.enter("overlay");
    make_overlay(calls, blueprint, row, folder, image)?;
    stages.enter("seed");
    make_seed(calls, blueprint, row)?;
    fence.check(calls)
}

/// Removes the disks of a domain that is gone. A run that stood still for longer than its lock lives may
/// find that another one deleted the domain that it made; a disk made after that would hang on nothing.
/// As long as the domain is there, the next run finds its disks by it.
fn leave_none_behind(calls: &mut dyn Calls, row: &DomainRow) {
    if !matches!(calls.domain_exists(row.uuid), Ok(false)) {
        return;
    }
    for disk in [naming::overlay_name(&row.name, row.uuid), naming::seed_name(&row.name, row.uuid)] {
        match calls.delete_volume(&disk) {
            Err(error) if error.code != code::NO_STORAGE_VOL => {
                tracing::warn!(volume = disk, %error, "a disk without a machine was left behind; images prune --leftovers removes it");
            }
            _ => {}
        }
    }
}

/// Finds what would keep a machine from being made, as far as that can be known before: its base
/// image, the length of its disk, its XML.
pub(super) fn check(calls: &mut dyn Calls, blueprint: &Blueprint) -> Result<(), ProviderError> {
    base_for(calls, blueprint)?;
    fill_in(blueprint, "/").to_xml().map(drop).map_err(|error| {
        let name = &blueprint.domain.name;
        ProviderError::new(Class::Permanent, Reason::PermanentError, "write the domain's XML", name, error.to_string())
    })
}

/// Looks for a machine of that name. One that is finished and as wanted is the result; one that an
/// earlier attempt left unfinished is removed; anything else is not what the plan saw.
fn clear_the_way(
    calls: &mut dyn Calls,
    site: &Site,
    fence: &Fence,
    blueprint: &Blueprint,
    stages: &mut Stages<'_>,
) -> Result<Option<Uuid>, ProviderError> {
    let name = &blueprint.domain.name;
    let found = calls.find_domain(name).map_err(|error| classify("look for the domain", name, &error))?;
    let Some(row) = found else { return Ok(None) };
    let uuid = row.uuid.to_string();
    let Some(machine) = look(calls, site, name, &uuid)? else { return Ok(None) };
    let as_wanted =
        machine.mark.spec.hash == blueprint.make.spec && machine.mark.catalogue.hash == blueprint.make.catalogue;
    match machine.mark.state {
        MarkState::Ready if as_wanted && machine.active() => Ok(Some(row.uuid)),
        MarkState::Creating | MarkState::Deleting if as_wanted => {
            let expect = Expect {
                uuid,
                spec: blueprint.make.spec.clone(),
                catalogue: blueprint.make.catalogue.clone(),
                protect: machine.mark.protect,
                source: machine.mark.source.clone(),
            };
            let deletion = Deletion {
                instance: name,
                expect: &expect,
                forced: false,
                drain: Duration::ZERO,
                cancelled: &|| false,
            };
            delete(calls, site, fence, &deletion, stages)?;
            Ok(None)
        }
        _ => Err(changed(Reason::Changed, name, "a machine of that name is there already")),
    }
}

fn base_for(calls: &mut dyn Calls, blueprint: &Blueprint) -> Result<BaseImage, ProviderError> {
    let need = &blueprint.make.image;
    let Some(image) = image_cache::find(calls, need)? else {
        let text = "the base image is not on the host any more";
        return Err(ProviderError::new(
            Class::Transient,
            Reason::TransientError,
            "look for the base image",
            &need.key,
            text,
        ));
    };
    match image.virtual_bytes {
        Some(base) if base > blueprint.make.disk_bytes => {
            let text = format!(
                "a disk of {} bytes is shorter than the image {} of {base} bytes",
                blueprint.make.disk_bytes, need.key
            );
            Err(ProviderError::new(
                Class::Permanent,
                Reason::OverlayTooShort,
                "make the disk",
                &blueprint.domain.name,
                text,
            )
            .hint("raise diskSizeGb in the config"))
        }
        _ => Ok(image),
    }
}

/// The domain's spec with a UUID that never was before, and the names that follow from it.
fn fill_in(blueprint: &Blueprint, folder: &str) -> DomainSpec {
    let mut spec = blueprint.domain.clone();
    let folder = folder.trim_end_matches('/');
    spec.uuid = Uuid::new_v4();
    spec.overlay = format!("{folder}/{}", naming::overlay_name(&spec.name, spec.uuid));
    spec.seed = format!("{folder}/{}", naming::seed_name(&spec.name, spec.uuid));
    spec.mark.machine = spec.uuid.to_string();
    spec.mark.state = MarkState::Creating;
    spec.mark.created_at = Timestamp::now();
    spec.mark.started_at = None;
    spec
}

/// Makes the overlay and looks again that its base and the proof are there: somebody may have pruned
/// them between the look and the making.
fn make_overlay(
    calls: &mut dyn Calls,
    blueprint: &Blueprint,
    row: &DomainRow,
    folder: &str,
    image: BaseImage,
) -> Result<(), ProviderError> {
    let overlay = naming::overlay_name(&row.name, row.uuid);
    let failed = |error: CallError| classify("make the disk", &overlay, &error);
    let mut image = image;
    for _ in 0..OVERLAY_TRIES {
        let Some(base) = BaseName::parse(&image.name) else { break };
        let path = format!("{}/{}", folder.trim_end_matches('/'), image.name);
        let xml = volume_xml::overlay(&overlay, blueprint.make.disk_bytes, &path, base.format()).map_err(|error| {
            ProviderError::new(
                Class::Permanent,
                Reason::PermanentError,
                "write the disk's XML",
                &overlay,
                error.to_string(),
            )
        })?;
        calls.create_volume(&xml).map_err(failed)?;
        if image_cache::still_there(calls, &image)? {
            return Ok(());
        }
        calls.delete_volume(&overlay).map_err(failed)?;
        image = base_for(calls, blueprint)?;
    }
    let text = "the base image vanished while the disk was being made";
    Err(ProviderError::new(Class::Transient, Reason::TransientError, "make the disk", &overlay, text))
}

fn make_seed(calls: &mut dyn Calls, blueprint: &Blueprint, row: &DomainRow) -> Result<(), ProviderError> {
    let volume = naming::seed_name(&row.name, row.uuid);
    let wrong = |class, text: String| ProviderError::new(class, Reason::TransientError, "make the seed", &volume, text);
    let seed = seed::build(&SeedInput {
        user_data: blueprint.user_data.as_ref(),
        vendor_data: blueprint.vendor_data.as_deref(),
        network: blueprint.network.as_ref(),
        hostname: &blueprint.hostname,
        mac: &blueprint.domain.mac,
        domain_uuid: row.uuid,
    })?;
    let length = u64::try_from(seed.bytes.len()).unwrap_or(u64::MAX);
    let xml = volume_xml::raw(&volume, 0).map_err(|error| wrong(Class::Permanent, error.to_string()))?;
    let failed = |error: CallError| classify("make the seed", &volume, &error);
    calls.create_volume(&xml).map_err(failed)?;
    calls.upload(&volume, &mut Cursor::new(&seed.bytes), length, &mut |_| {}).map_err(failed)?;
    let Some(made) = calls.volume(&volume).map_err(failed)? else {
        return Err(wrong(Class::Transient, "it is gone right after it was made".to_owned()));
    };
    if file_length(&made) != length {
        let text = format!("{} of {length} bytes arrived; the disk of the pool is probably full", file_length(&made));
        return Err(ProviderError::new(Class::Quota, Reason::QuotaExceeded, "make the seed", &volume, text)
            .hint("free space in the pool, or make it larger"));
    }
    // The seed holds secrets. A server that does not tell the mode is taken at its word.
    if let Some(mode) = made.mode.filter(|mode| mode & 0o077 != 0) {
        return Err(wrong(Class::Permanent, format!("it is readable for others on the host (mode {mode:04o})")));
    }
    Ok(())
}
