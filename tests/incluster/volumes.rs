//! The volumes of a pod as files: what the API server has of them, with the owners and modes that a node
//! gives them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::api::Api;
use super::lab::{lab, tool};
use super::manifest::{FieldRef, Item, OfConfigMap, PodSpec, Volume};

/// Who a pod is.
pub struct Identity<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Identity<'_> {
    /// What a field of the pod holds.
    pub fn field(&self, field: &FieldRef) -> &str {
        match field.field_path.as_str() {
            "metadata.name" => self.name,
            "metadata.namespace" => self.namespace,
            other => panic!("the field {other} is not known here"),
        }
    }
}

/// A quantity of bytes.
pub fn bytes(quantity: &str) -> u64 {
    let (figure, unit) = quantity.split_at(quantity.trim_end_matches(char::is_alphabetic).len());
    let unit = match unit {
        "" => 1,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        other => panic!("the unit {other} is not known here"),
    };
    figure.parse::<u64>().expect("a figure") * unit
}

/// Makes a volume below the pod's folder; where it is, and how much it may hold where that is limited.
pub fn make(
    api: &Api,
    folder: &Path,
    volume: &Volume,
    pod: &PodSpec,
    identity: &Identity<'_>,
) -> (PathBuf, Option<u64>) {
    let group = pod.security_context.fs_group;
    if let Some(empty) = &volume.empty_dir {
        // On the disk: pages of a file in memory would count as the program's, and cannot be given back.
        let place = Path::new(&lab("POD_DISK")).join(format!("{}-{}", identity.name, volume.name));
        fs::create_dir(&place).expect("a folder");
        chown(&place, None, Some(group)).expect("root may");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o2777)).expect("root may");
        return (place, Some(bytes(&empty.size_limit)));
    }
    let place = folder.join("volumes").join(&volume.name);
    fs::create_dir_all(&place).expect("a folder");
    let (files, mode) = match (&volume.projected, &volume.config_map, &volume.secret) {
        (Some(projected), None, None) => {
            let mut files = Vec::new();
            for source in &projected.sources {
                match (&source.service_account_token, &source.config_map, &source.downward_api) {
                    (Some(token), None, None) => {
                        let line = format!(
                            "create token {} -n {} --duration={}s",
                            pod.service_account_name, identity.namespace, token.expiration_seconds
                        );
                        files.push((token.path.clone(), api.kubectl(&line).ok().trim_end().as_bytes().to_vec()));
                    }
                    (None, Some(map), None) => files.extend(of_config_map(api, map, identity)),
                    (None, None, Some(downward)) => {
                        let of =
                            |item: &super::manifest::DownwardItem| identity.field(&item.field_ref).as_bytes().to_vec();
                        files.extend(downward.items.iter().map(|item| (item.path.clone(), of(item))));
                    }
                    _ => panic!("a source of {} is not known here", volume.name),
                }
            }
            (files, projected.default_mode)
        }
        (None, Some(map), None) => (of_config_map(api, map, identity), map.default_mode.expect("the server's")),
        (None, None, Some(secret)) => {
            let there = api.kubectl(&format!("get secret {} -n {} -o json", secret.secret_name, identity.namespace));
            assert!(there.code == Some(0) || secret.optional, "{}", there.err);
            let data: Value = serde_json::from_str(&there.out).unwrap_or_default();
            let files = data["data"].as_object().into_iter().flatten();
            (files.map(|(key, value)| (key.clone(), decoded(value))).collect(), secret.default_mode)
        }
        _ => panic!("the volume {} is not known here", volume.name),
    };
    for (path, content) in files {
        assert!(!path.contains('/'), "{path}");
        let file = place.join(path);
        fs::write(&file, content).expect("written");
        chown(&file, None, Some(group)).expect("root may");
        // A volume that belongs to a group is readable to it.
        fs::set_permissions(&file, fs::Permissions::from_mode(mode | 0o440)).expect("root may");
    }
    chown(&place, None, Some(group)).expect("root may");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o2755)).expect("root may");
    (place, None)
}

fn of_config_map(api: &Api, map: &OfConfigMap, identity: &Identity<'_>) -> Vec<(String, Vec<u8>)> {
    let object = api.get(&format!("cm {} -n {}", map.name, identity.namespace));
    let text = |value: &Value| value.as_str().expect("text").as_bytes().to_vec();
    let data = object["data"].as_object().expect("data");
    match &map.items {
        Some(items) => items.iter().map(|Item { key, path }| (path.clone(), text(&data[key]))).collect(),
        None => data.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
    }
}

fn decoded(value: &Value) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(value.as_str().expect("text")).expect("base64")
}

/// Bytes on the disk below a folder.
pub fn used(folder: &Path) -> u64 {
    let said = tool("du", &["--summarize", "--block-size=1", folder.to_str().expect("a path")]);
    said.split_whitespace().next().expect("a figure").parse().expect("a figure")
}
