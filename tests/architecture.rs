//! The shape of the source: which folder may use which, how long a file may be, and how it opens.
//!
//! `plan` ← `provider` ← `load` and `apply` ← `report` ← `cluster` ← `run`; `load` and `apply` do not know each
//! other. `docs/ARCHITECTURE.md` says why.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each folder (or file) right under `src`, and what of the crate it may use besides itself.
const MAY_USE: &[(&str, &[&str])] = &[
    ("plan", &[]),
    ("provider", &["plan"]),
    ("load", &["plan", "provider"]),
    ("apply", &["plan", "provider"]),
    ("report", &["plan", "provider", "load", "apply"]),
    ("cli", &["plan", "provider", "load", "apply", "report"]),
    ("cluster", &["plan", "provider", "load", "apply", "report"]),
    ("run", &["plan", "provider", "load", "apply", "report", "cluster", "cli"]),
    ("main", &["plan", "provider", "load", "apply", "report", "cluster", "cli", "run"]),
    ("lib", &["plan", "provider", "load", "apply", "report", "cluster", "cli", "run"]),
];

const MOST_LINES: usize = 600;

/// Names that say nothing of what is in a file.
const NO_NAMES: &[&str] = &["utils", "util", "common", "misc", "helpers"];

fn sources() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("text");
                found.insert(path.strip_prefix(&root).expect("under src").to_owned(), text);
            }
        }
    }
    assert!(found.len() > 20, "the sources were not found");
    found
}

/// The modules from the crate's root to a file: `plan/mod.rs` is `[plan]`, `plan/name.rs` is
/// `[plan, name]`.
fn modules(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

fn layer(path: &Path) -> String {
    modules(path).remove(0)
}

/// The words of the code, paths split at `::`, without comments and texts.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// What of the crate's root a file names, by `crate::`, by the library's name, or by climbing up.
fn named(path: &Path, text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for start in ["crate::", "egress_plan::"] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            found.extend(heads(&code[at + start.len()..]));
        }
    }
    let depth = modules(path).len();
    let climb = "super::".repeat(depth);
    for (at, _) in code.match_indices(&climb) {
        found.extend(heads(&code[at + climb.len()..]));
    }
    found
}

/// The first names of a path or of a braced list of paths.
fn heads(rest: &str) -> Vec<String> {
    let word =
        |text: &str| -> String { text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let Some(list) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let mut heads = vec![word(list)];
    let mut depth = 1;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => heads.push(word(&list[at + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn forbidden(path: &Path, text: &str) -> Vec<String> {
    let layer = layer(path);
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("{}: {layer} is no folder that the architecture knows", path.display())];
    };
    let layers = |name: &String| MAY_USE.iter().any(|(known, _)| known == name);
    named(path, text)
        .into_iter()
        .filter(|name| layers(name) && *name != layer && !allowed.contains(&name.as_str()))
        .map(|name| format!("{}: {layer} uses {name}", path.display()))
        .collect()
}

#[test]
fn dependencies_run_one_way() {
    let broken: Vec<String> = sources().iter().flat_map(|(path, text)| forbidden(path, text)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_forbidden_edge_is_found_however_it_is_written() {
    for (path, text, expected) in [
        ("plan/name.rs", "use crate::provider::Class;", 1),
        ("plan/name.rs", "use super::super::provider::Class;", 1),
        ("plan/lint/order.rs", "fn f() -> super::super::super::load::Config {}", 1),
        ("load/mod.rs", "use crate::{plan::Plan, apply::{Event, Outcome}};", 1),
        ("apply/mod.rs", "use crate::load::Config;", 1),
        ("apply/mod.rs", "use super::report::Report;", 1),
        ("report/mod.rs", "fn f(run: crate::run::Exit) {}", 1),
        ("provider/mod.rs", "use crate::{apply, report, run};", 3),
        ("shared/mod.rs", "", 1),
        ("plan/name.rs", "use super::provider_like::Thing; // crate::run::x", 0),
        ("plan/name.rs", "use super::change::Plan;", 0),
        ("run/mod.rs", "use crate::{apply, load, plan::{self, Plan}};", 0),
        ("report/mod.rs", "use crate::apply::Outcome;", 0),
    ] {
        assert_eq!(forbidden(Path::new(path), text).len(), expected, "{path}: {text}");
    }
}

#[test]
fn every_file_says_what_it_is_for_and_is_short_enough_to_be_read() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{}: opens without a //! line", path.display());
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{}: {lines} lines; split it", path.display());
    }
}

#[test]
fn no_file_or_folder_is_a_drawer_for_everything() {
    for path in sources().keys() {
        for part in modules(path) {
            assert!(!NO_NAMES.contains(&part.as_str()), "{}: name it for what is in it", path.display());
        }
    }
}

/// One file opens SSH connections and one judges host keys, so that no path can forget to.
#[test]
fn r23_one_file_opens_connections_and_asks_the_one_policy_on_host_keys() {
    let naming = |what: &str| -> Vec<String> {
        let sources = sources();
        let hits = sources.iter().filter(|(path, text)| !path.ends_with("tests.rs") && code(text).contains(what));
        hits.map(|(path, _)| path.display().to_string()).collect()
    };
    assert_eq!(naming("client::connect"), ["provider/libvirt/host/ssh.rs"]);
    assert_eq!(naming("fn check_server_key"), ["provider/libvirt/host/ssh.rs"]);
    assert_eq!(naming("HostKeyPolicy::new("), ["provider/libvirt/host/ssh.rs"]);
    for other in ["Command::new(\"ssh\")", "Command::new(\"scp\")", "qemu+ssh", "libssh"] {
        assert_eq!(naming(other), [""; 0], "{other}");
    }
}
