//! Who uses a file of the pool: what domains name, in either configuration, and what volumes are
//! overlays of. Errs on the side of use: folders are not compared, file names are.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::classify::classify;
use super::domain_read::DomainFacts;
use super::host::calls::{CallError, Calls, Config, DomainRow, Volume, Which, code};
use super::xml::XmlError;
use crate::plan::Reason;
use crate::provider::error::{Class, ProviderError};

/// A domain and what one of its configurations names.
pub(super) struct Named {
    pub row: DomainRow,
    pub facts: DomainFacts,
}

/// What every domain of the host names, active or not, one entry a configuration; `except` is left
/// out. Domains that go away meanwhile are left out too.
pub(super) fn named(calls: &mut dyn Calls, except: Option<Uuid>) -> Result<Vec<Named>, ProviderError> {
    let failed = |error: CallError| classify("look for users of the disks", "", &error);
    let mut found = Vec::new();
    for which in [Which::Persistent, Which::Transient] {
        for row in calls.list_domains(which).map_err(failed)? {
            if Some(row.uuid) == except {
                continue;
            }
            let configs = [(which == Which::Persistent, Config::Persistent), (row.active, Config::Live)];
            for (_, config) in configs.into_iter().filter(|(there, _)| *there) {
                match calls.domain_xml(row.uuid, config) {
                    Ok(xml) => {
                        let facts = DomainFacts::read(&xml).map_err(|error| unreadable(&row.name, &error))?;
                        found.push(Named { row: row.clone(), facts });
                    }
                    // It is gone, or it stopped meanwhile.
                    Err(error) if matches!(error.code, code::NO_DOMAIN | code::OPERATION_INVALID) && !error.dead => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
    }
    Ok(found)
}

/// The failure of a domain whose XML cannot be read.
pub(super) fn unreadable(name: &str, error: &XmlError) -> ProviderError {
    ProviderError::new(Class::Transient, Reason::APIError, "read the domain's XML", name, error.to_string())
}

/// The file name at the end of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Names of those that use `file`: domains, and volumes made on top of it that no domain has.
pub(super) fn users_of(file: &str, volumes: &BTreeMap<String, Volume>, domains: &[Named]) -> BTreeSet<String> {
    let naming = |file: &str| -> BTreeSet<String> {
        domains.iter().filter(|named| named.facts.names_volume(file)).map(|named| named.row.name.clone()).collect()
    };
    let mut users = naming(file);
    for volume in volumes.values().filter(|volume| volume.backing.as_deref().map(file_name) == Some(file)) {
        let owners = naming(&volume.name);
        if owners.is_empty() {
            users.insert(volume.name.clone());
        }
        users.extend(owners);
    }
    users
}
