//! The base images of the hosts, for `images list`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::{NONE, render};
use super::words;
use crate::plan::{HostRef, HostTrouble};
use crate::provider::{HostImage, ImageState};

/// A base image, or what is left of one, in a host's store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageRow {
    /// The host.
    pub host: HostRef,
    /// Its key in the config.
    pub key: String,
    /// Digest over where it comes from.
    pub id: String,
    /// Its file name.
    pub file: String,
    /// Its length in bytes, where the host said.
    pub bytes: Option<u64>,
    /// Names of the machines and volumes that use it.
    pub users: Vec<String>,
    /// Whether it may be used.
    pub state: ImageState,
}

/// The base images of the hosts that were asked, and the hosts that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageList {
    /// The images, sorted by host, key and file.
    pub images: Vec<ImageRow>,
    /// Why each host that did not answer is unknown.
    pub unknown_hosts: BTreeMap<HostRef, HostTrouble>,
}

impl ImageRow {
    /// An image as a host told of it.
    #[must_use]
    pub fn of(host: &HostRef, image: HostImage) -> Self {
        let HostImage { key, id, file, bytes, users, state } = image;
        Self { host: host.clone(), key, id, file, bytes, users: users.into_iter().collect(), state }
    }
}

/// The table, sorted by host, key and file.
#[must_use]
pub fn table(rows: &[ImageRow]) -> String {
    if rows.is_empty() {
        return "No base images.\n".to_owned();
    }
    let mut rows: Vec<&ImageRow> = rows.iter().collect();
    rows.sort();
    let header = ["PROVIDER/HOST", "IMAGE", "ID", "STATE", "SIZE", "USERS", "FILE"];
    render(
        &header,
        rows.iter().map(|row| {
            vec![
                row.host.to_string(),
                row.key.clone(),
                row.id.chars().take(8).collect(),
                row.state.as_str().to_owned(),
                row.bytes.map_or_else(|| NONE.to_owned(), words::bytes),
                row.users.len().to_string(),
                row.file.clone(),
            ]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{host, image};
    use super::*;

    #[test]
    fn a_table_of_each_state() {
        let row = |place: &str, file: &str, state, users: &[&str]| ImageRow {
            host: host(place),
            key: image().key,
            id: image().id,
            file: format!("egress-plan-base-lab-debian-13-{file}.qcow2"),
            bytes: (state != ImageState::Unproven).then_some(398 << 20),
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            state,
        };
        let rows = [
            row("lab/h2", "b", ImageState::Debris, &[]),
            row("lab/h1", "c", ImageState::Unproven, &[]),
            row("lab/h1", "a", ImageState::Proven, &["egress-a", "egress-b"]),
        ];
        insta::assert_snapshot!(table(&rows));
        assert_eq!(table(&[]), "No base images.\n");
    }
}
