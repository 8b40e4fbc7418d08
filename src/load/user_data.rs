//! User-data: from the manifest, from a file beside it, or from a secret. The bytes are delivered
//! as they are; nothing here shows them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::manifest::{RawCloudInitFrom, RawSecretKeyRef, RawSpec};
use super::objects::SecretKey;
use crate::plan::UserData;
use crate::provider::document::check::{REQUIRED, quoted, required};
use crate::provider::document::{Findings, Limits, Located, Location, Node, Value};
use crate::provider::libvirt::cloud_init::Content;

/// Where files and secrets of a manifest may be read from.
pub(super) struct Reach<'a> {
    /// The folder that `file` is relative to; none for stdin.
    pub folder: Option<&'a Path>,
    /// The folder that it must lie in, links resolved.
    pub root: Option<&'a Path>,
    /// Where Secrets are.
    pub secrets: Secrets<'a>,
}

/// Where the values of Secrets come from.
#[derive(Clone, Copy)]
pub(super) enum Secrets<'a> {
    /// Nowhere.
    None,
    /// `--secrets-dir`.
    Folder(&'a Path),
    /// The cluster that the object is of, which was asked for them before.
    Cluster(&'a BTreeMap<SecretKey, Result<Vec<u8>, String>>),
}

/// User-data of a manifest.
#[derive(Default)]
pub(super) struct Found {
    /// The bytes, and the field that they come from.
    pub data: Option<(UserData, Location)>,
    /// The file, links resolved: it is no manifest.
    pub file: Option<PathBuf>,
}

/// Reads the user-data of `spec` for a proxy of `namespace`.
pub(super) fn read(spec: &RawSpec, namespace: &str, reach: &Reach<'_>, findings: &mut Findings) -> Found {
    if let (Some(_), Some(from)) = (&spec.cloud_init, &spec.cloud_init_from) {
        findings.error(&from.at, "user-data is given by cloudInit already; leave one of the two");
        return Found::default();
    }
    let (bytes, at, file) = if let Some(field) = &spec.cloud_init {
        (field.get().map(|text| text.clone().into_bytes()), &field.at, None)
    } else if let Some(from) = &spec.cloud_init_from {
        let (bytes, file) = read_from(from, namespace, reach, findings);
        (bytes, &from.at, file)
    } else {
        return Found::default();
    };
    let Some(bytes) = bytes else { return Found { data: None, file } };
    if bytes.len() > UserData::MAX {
        findings.error(at, "user-data is longer than 1 MiB; make it smaller, or let the machine fetch the rest");
        return Found { data: None, file };
    }
    if let Err(why) = Content::recognise(&bytes) {
        findings.warning(at, format!("cloud-init would do nothing with this user-data: {why}"));
    }
    if allows_everybody(&bytes) {
        findings.warning(
            at,
            "the user-data holds `http_access allow all`: an open proxy, for anybody who finds it. \
             Allow the networks of your clients instead",
        );
    }
    Found { data: Some((UserData::new(bytes), at.clone())), file }
}

fn read_from(
    from: &Located<RawCloudInitFrom>,
    namespace: &str,
    reach: &Reach<'_>,
    findings: &mut Findings,
) -> (Option<Vec<u8>>, Option<PathBuf>) {
    let at = &from.at;
    let Some(from) = from.get() else { return (None, None) };
    match (&from.file, &from.secret_key_ref) {
        (Some(file), None) => read_file(file, reach, findings),
        (None, Some(secret)) => (read_secret(secret, namespace, reach, findings), None),
        (Some(_), Some(secret)) => {
            findings.error(&secret.at, "user-data comes from a file or from a secret; leave one of the two");
            (None, None)
        }
        (None, None) => {
            findings.error(at, "expected file or secretKeyRef");
            (None, None)
        }
    }
}

fn read_file(
    field: &Located<String>,
    reach: &Reach<'_>,
    findings: &mut Findings,
) -> (Option<Vec<u8>>, Option<PathBuf>) {
    let Some(text) = field.get() else { return (None, None) };
    let (Some(folder), Some(root)) = (reach.folder, reach.root) else {
        let message = match reach.secrets {
            Secrets::Cluster(_) => "a cluster has no files; use secretKeyRef, or cloudInit",
            Secrets::None | Secrets::Folder(_) => {
                "a manifest from stdin has no folder to read a file from; use cloudInit"
            }
        };
        findings.error(&field.at, message);
        return (None, None);
    };
    let read = resolve_inside(&folder.join(text), root, OUTSIDE).and_then(|path| Ok((read_bounded(&path)?, path)));
    match read {
        Ok((bytes, path)) => (Some(bytes), Some(path)),
        Err(message) => {
            findings.error(&field.at, format!("the file {} {message}", quoted(text)));
            (None, None)
        }
    }
}

const OUTSIDE: &str = "lies outside of the folder given with -f, links resolved; move it there";
const OUTSIDE_SECRETS: &str = "lies outside of --secrets-dir, links resolved";

fn read_secret(
    secret: &Located<RawSecretKeyRef>,
    namespace: &str,
    reach: &Reach<'_>,
    findings: &mut Findings,
) -> Option<Vec<u8>> {
    let at = &secret.at;
    let secret = secret.get()?;
    let mut field = |field: Option<&Located<String>>, name: &str, good: fn(&str) -> bool| {
        let field = required(field, at, name, REQUIRED, findings)?;
        let text = field.get()?;
        if !good(text) {
            findings.error(&field.at, "this cannot be a name of a Secret or of a key in one");
        }
        good(text).then(|| text.clone())
    };
    let name = field(secret.name.as_ref(), "name", is_subdomain);
    let key = field(secret.key.as_ref(), "key", is_secret_key);
    let (name, key) = (name?, key?);
    let dir = match reach.secrets {
        Secrets::Folder(dir) => dir,
        Secrets::None => {
            findings.error(at, "there is no cluster to read a secret from; use --secrets-dir, or cloudInit");
            return None;
        }
        Secrets::Cluster(secrets) => {
            let wanted = SecretKey { namespace: namespace.to_owned(), name, key };
            let SecretKey { namespace, name, key } = &wanted;
            let shown = format!("the secret {namespace}/{name}/{key}");
            return match secrets.get(&wanted) {
                Some(Ok(bytes)) => Some(bytes.clone()),
                Some(Err(why)) => {
                    findings.error(at, format!("{shown} {why}"));
                    None
                }
                None => {
                    findings.error(at, format!("{shown} was not asked for"));
                    None
                }
            };
        }
    };
    let read = dir
        .canonicalize()
        .map_err(|error| format!("cannot be read, since --secrets-dir cannot: {}", reason(&error)))
        .and_then(|root| resolve_inside(&root.join(namespace).join(&name).join(&key), &root, OUTSIDE_SECRETS))
        .and_then(|path| read_bounded(&path));
    match read {
        Ok(bytes) => Some(bytes),
        Err(message) => {
            findings.error(at, format!("the secret {namespace}/{name}/{key} {message}"));
            None
        }
    }
}

/// A DNS-1123 subdomain, as names of Secrets are.
fn is_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// A key of a Secret, and no way out of its folder.
fn is_secret_key(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !text.is_empty() && text.len() <= 253 && text.chars().all(inner) && text != "." && !text.starts_with("..")
}

/// The path with its links resolved, when it lies below `root`, whose links are.
fn resolve_inside(path: &Path, root: &Path, outside: &str) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|error| reason(&error).to_owned())?;
    if real.starts_with(root) { Ok(real) } else { Err(outside.to_owned()) }
}

/// At most one byte more than is allowed is read, so that the length can be told without reading on.
fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let describe = |error: std::io::Error| reason(&error).to_owned();
    if !path.metadata().map_err(describe)?.is_file() {
        return Err("is no regular file".to_owned());
    }
    let most = u64::try_from(UserData::MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)).map_err(describe)?;
    Ok(bytes)
}

/// What went wrong with a file, in words that do not change with the system's language.
pub(super) fn reason(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist",
        std::io::ErrorKind::PermissionDenied => "may not be read",
        std::io::ErrorKind::IsADirectory => "is a folder",
        std::io::ErrorKind::NotADirectory => "lies below something that is no folder",
        _ => "cannot be read",
    }
}

/// Whether a line of it lets every client through. A comment does not.
fn allows_everybody(data: &[u8]) -> bool {
    String::from_utf8_lossy(data).replace("\\n", "\n").lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> =
            line.split(|c: char| c.is_whitespace() || "\"',[]\\".contains(c)).filter(|w| !w.is_empty()).collect();
        words.windows(3).any(|three| three == ["http_access", "allow", "all"])
    })
}

/// Whether a cloud-config switches vendor-data off: nothing that vendor-data brings is run then.
pub(super) fn switches_vendor_data_off(data: &UserData) -> bool {
    let Ok(text) = std::str::from_utf8(data.expose()) else { return false };
    if Content::recognise(data.expose()) != Ok(Content::CloudConfig) {
        return false;
    }
    let Ok(Some(node)) = Node::parse(text, 0, Limits::MANIFEST) else { return false };
    let enabled = node.get("vendor_data").and_then(|vendor| vendor.get("enabled"));
    match enabled.map(|enabled| &enabled.value) {
        Some(Value::Bool(enabled)) => !enabled,
        Some(Value::Text(text)) => matches!(text.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0" | "n"),
        Some(Value::Int(number)) => *number == 0,
        _ => false,
    }
}

#[cfg(test)]
#[path = "user_data_tests.rs"]
mod tests;
