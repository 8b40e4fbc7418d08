//! Looking at a machine before and while it is changed: whose it is, what it does, and its mark.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::classify::classify;
use super::host::calls::{CallError, Calls, Config, DomainRow, Which, code, state};
use super::mark::{self, NAMESPACE, PREFIX};
use super::observe::read_mark;
use super::power::is_active;
use super::site::Site;
use super::view::own_mark;
use crate::plan::{Expect, Mark, MarkState, Reason};
use crate::provider::error::{Class, ProviderError};

/// How often a domain that changes its state is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A machine of ours, as it is at this moment.
pub(super) struct Machine {
    pub row: DomainRow,
    pub persistent: bool,
    pub mark: Mark,
    pub state: i32,
    /// It is off, and its memory is saved for the next start.
    pub saved: bool,
}

impl Machine {
    pub fn active(&self) -> bool {
        is_active(self.state)
    }
}

/// Reports that the world is not what the plan saw.
pub(super) fn changed(reason: Reason, object: &str, text: impl Into<String>) -> ProviderError {
    ProviderError::new(Class::Changed, reason, "look before acting", object, text)
}

/// Looks a machine up by its UUID and reads its mark afresh; `None` when it is gone.
pub(super) fn look(
    calls: &mut dyn Calls,
    site: &Site,
    name: &str,
    uuid: &str,
) -> Result<Option<Machine>, ProviderError> {
    let failed = |error: CallError| classify("look at the domain", name, &error);
    let Ok(uuid) = Uuid::parse_str(uuid) else {
        return Err(changed(Reason::Changed, name, "the plan names no valid UUID"));
    };
    // The name is the host's own word: a domain that was renamed is not ours any more (a mark
    // proves nothing without the name that it derives).
    match calls.find_domain(name).map_err(failed)? {
        Some(row) if row.uuid == uuid => {}
        _ if calls.domain_exists(uuid).map_err(failed)? => {
            return Err(changed(Reason::Renamed, name, "it was renamed"));
        }
        // Another one may have its name: the successor that an earlier attempt made.
        _ => return Ok(None),
    }
    let (domain_state, _) = match calls.domain_state(uuid) {
        Err(error) if error.code == code::NO_DOMAIN && !error.dead => return Ok(None),
        other => other.map_err(failed)?,
    };
    let active = is_active(domain_state);
    let persistent = has_persistent(calls, uuid).map_err(failed)?;
    let Some(text) = read_mark(calls, uuid, active, persistent).map_err(failed)? else { return Ok(None) };
    let row = DomainRow { uuid, name: name.to_owned(), active };
    let mark = own_mark(site, &row, &text).map_err(|(reason, message)| changed(reason, name, message))?;
    let saved = !active && calls.list_domains(Which::Saved).map_err(failed)?.iter().any(|saved| saved.uuid == uuid);
    Ok(Some(Machine { row, persistent, mark, state: domain_state, saved }))
}

fn has_persistent(calls: &mut dyn Calls, uuid: Uuid) -> Result<bool, CallError> {
    match calls.metadata(uuid, Config::Persistent, NAMESPACE) {
        Ok(_) => Ok(true),
        Err(error) if error.code == code::OPERATION_INVALID && !error.dead => Ok(false),
        Err(error) => Err(error),
    }
}

/// Looks a machine up and demands that it is the one that the plan saw.
pub(super) fn expected(
    calls: &mut dyn Calls,
    site: &Site,
    name: &str,
    expect: &Expect,
) -> Result<Option<Machine>, ProviderError> {
    let Some(machine) = look(calls, site, name, &expect.uuid)? else { return Ok(None) };
    if machine.mark.spec.hash != expect.spec || machine.mark.catalogue.hash != expect.catalogue {
        return Err(changed(Reason::Changed, name, "its mark is not the one that the plan saw"));
    }
    Ok(Some(machine))
}

/// Demands that a machine is in a state in which it may be ended: one that is paused or saved when
/// somebody asked for that by name, one in a state that is not known here never.
pub(super) fn may_end(machine: &Machine, forced: bool) -> Result<(), ProviderError> {
    let refusal = match machine.state {
        _ if machine.saved => (Reason::ManagedSave, "its memory is saved"),
        state::RUNNING | state::BLOCKED | state::SHUTDOWN | state::SHUTOFF => return Ok(()),
        state::PAUSED | state::PMSUSPENDED | state::CRASHED => (Reason::Paused, "it is paused"),
        // Nobody knows what ending it would end.
        _ => return Err(changed(Reason::StateUnknown, &machine.row.name, "its state is not known here")),
    };
    if forced { Ok(()) } else { Err(changed(refusal.0, &machine.row.name, refusal.1)) }
}

/// Writes a mark into every configuration that the domain has, in one call (L51).
pub(super) fn write_mark(calls: &mut dyn Calls, machine: &Machine, mark: &Mark) -> Result<(), ProviderError> {
    let name = &machine.row.name;
    let xml = mark::write(mark).map_err(|error| {
        ProviderError::new(Class::Permanent, Reason::PermanentError, "write the mark", name, error.to_string())
    })?;
    let mut configs = Vec::new();
    if machine.persistent {
        configs.push(Config::Persistent);
    }
    if machine.active() {
        configs.push(Config::Live);
    }
    calls
        .set_metadata(machine.row.uuid, &configs, NAMESPACE, PREFIX, &xml)
        .map_err(|error| classify("write the mark", name, &error))
}

/// The same mark in another state.
pub(super) fn in_state(mark: &Mark, state: MarkState) -> Mark {
    Mark { state, ..mark.clone() }
}

/// Waits until a started domain runs; a domain that stopped, crashed or paused ends the wait.
pub(super) fn wait_running(
    calls: &mut dyn Calls,
    name: &str,
    uuid: Uuid,
    budget: Duration,
) -> Result<(), ProviderError> {
    let begun = Instant::now();
    loop {
        let (domain_state, reason) =
            calls.domain_state(uuid).map_err(|error| classify("wait for the domain", name, &error))?;
        match domain_state {
            state::RUNNING | state::BLOCKED => return Ok(()),
            // A domain that is starting up is paused for a moment.
            state::PAUSED if reason == 11 => {}
            state::NOSTATE => {}
            other => {
                let text = format!("it did not stay up: {:?}", super::power::power(other, reason, name));
                return Err(ProviderError::new(
                    Class::Transient,
                    Reason::TransientError,
                    "start the domain",
                    name,
                    text,
                )
                .hint(format!(
                    "virsh -c qemu:///system domstate --reason {name}, and its log under /var/log/libvirt/qemu"
                )));
            }
        }
        if begun.elapsed() > budget {
            let text = format!("it was not running after {} s", budget.as_secs());
            return Err(ProviderError::new(Class::Transient, Reason::Timeout, "start the domain", name, text));
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits until a domain is off; says whether it is.
pub(super) fn wait_off(
    calls: &mut dyn Calls,
    name: &str,
    uuid: Uuid,
    budget: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Result<bool, ProviderError> {
    let begun = Instant::now();
    loop {
        match calls.domain_state(uuid) {
            Ok((domain_state, _)) if !is_active(domain_state) => return Ok(true),
            // A transient domain is gone once it is off.
            Err(error) if error.code == code::NO_DOMAIN && !error.dead => return Ok(true),
            Ok(_) => {}
            Err(error) => return Err(classify("wait for the domain", name, &error)),
        }
        if begun.elapsed() > budget || cancelled() {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}
