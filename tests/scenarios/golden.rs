//! Files that hold what is expected.

use std::fs;
use std::path::Path;

use similar::TextDiff;

/// Whether this run writes what it finds instead of comparing it.
pub fn updates() -> bool {
    let asked = std::env::var_os("UPDATE_SCENARIOS").is_some_and(|value| value == "1");
    assert!(!(asked && std::env::var_os("CI").is_some()), "expectations are written by people, not in CI");
    asked
}

/// Compares `found` with the file, which need not be there when nothing is found; or writes it.
pub fn check(file: &Path, found: &str) -> Result<(), String> {
    if updates() {
        let written = if found.is_empty() { remove(file) } else { fs::write(file, found) };
        return written.map_err(|error| format!("{}: {error}", file.display()));
    }
    let expected = match fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.map_err(|error| format!("{}: {error}", file.display()))?,
    };
    if expected == found {
        return Ok(());
    }
    let diff = TextDiff::from_lines(&expected, found);
    let diff = diff.unified_diff().header("expected", "found").to_string();
    Err(format!("{}\n{diff}\nIf this is meant: UPDATE_SCENARIOS=1 cargo test --test scenarios", file.display()))
}

fn remove(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
