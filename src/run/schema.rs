//! `schema`: the JSON Schemas of what this program reads and writes.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;

use super::{CommandResult, Context, ExitCode, Failure};
use crate::cli::SchemaArgs;
use crate::load;
use crate::plan::Plan;
use crate::provider::libvirt::host::recorded::RecordedHost;
use crate::report::{Inventory, Report};

/// Every schema by name. A file of that name with `.json` is what `--dir` writes.
fn schemas() -> BTreeMap<&'static str, String> {
    let mut schemas = load::schema::schemas();
    schemas.extend([
        ("inventory", text_of::<Inventory>()),
        ("plan", text_of::<Plan>()),
        ("recorded", text_of::<RecordedHost>()),
        ("report", text_of::<Report>()),
    ]);
    schemas
}

fn text_of<T: JsonSchema>() -> String {
    format!("{:#}\n", schemars::schema_for!(T).to_value())
}

/// Prints one schema or the list of names, or writes or compares all of them.
///
/// # Errors
/// For an unknown name, a folder that cannot be written, and files that are not current.
pub fn run(args: &SchemaArgs, context: &Context) -> CommandResult {
    let schemas = schemas();
    if let Some(dir) = &args.dir {
        write_all(dir, &schemas)?;
    } else if let Some(dir) = &args.check {
        compare(dir, &schemas)?;
    } else if let Some(name) = &args.name {
        let text = schemas.get(name.as_str()).ok_or_else(|| {
            let names: Vec<&str> = schemas.keys().copied().collect();
            Failure::usage(format!("there is no schema of this name: {name}"))
                .hint(format!("the names are: {}", names.join(", ")))
        })?;
        context.terminal.data(text.as_bytes())?;
    } else {
        let names: Vec<&str> = schemas.keys().copied().collect();
        context.terminal.data(format!("{}\n", names.join("\n")).as_bytes())?;
    }
    Ok(ExitCode::Success)
}

fn write_all(dir: &Path, schemas: &BTreeMap<&str, String>) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::world(format!("a schema cannot be written: {}", path.display())).cause(error.to_string())
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for (name, text) in schemas {
        let path = dir.join(format!("{name}.json"));
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn compare(dir: &Path, schemas: &BTreeMap<&str, String>) -> Result<(), Failure> {
    let mut stale = Vec::new();
    for (name, text) in schemas {
        let path = dir.join(format!("{name}.json"));
        match std::fs::read_to_string(&path) {
            Ok(found) if found == *text => {}
            Ok(_) => stale.push(format!("{}: not what this version writes", path.display())),
            Err(error) => stale.push(format!("{}: {error}", path.display())),
        }
    }
    for path in json_files(dir) {
        if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| schemas.contains_key(stem)) {
            stale.push(format!("{}: no schema of this version", path.display()));
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(Failure::input(format!("schemas are not current: {}", dir.display()))
        .causes(stale)
        .hint(format!("egress-plan schema --dir {}", dir.display())))
}

/// The `.json` files of a folder, sorted; none when it cannot be listed, since every schema is
/// then missing anyway.
fn json_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_current() {
        let dir = tempfile::tempdir().expect("a folder");
        write_all(dir.path(), &schemas()).expect("written");
        assert_eq!(compare(dir.path(), &schemas()), Ok(()));
    }

    #[test]
    fn stale_missing_and_foreign_files_are_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let schemas = BTreeMap::from([("a", "1\n".to_owned()), ("b", "2\n".to_owned()), ("c", "3\n".to_owned())]);
        write_all(dir.path(), &schemas).expect("written");
        std::fs::write(dir.path().join("a.json"), "other").expect("written");
        std::fs::remove_file(dir.path().join("b.json")).expect("removed");
        std::fs::write(dir.path().join("d.json"), "4").expect("written");
        let failure = compare(dir.path(), &schemas).expect_err("stale");
        let names: Vec<bool> = ["a.json", "b.json", "d.json"]
            .iter()
            .zip(&failure.causes)
            .map(|(name, cause)| cause.contains(name))
            .collect();
        assert_eq!(names, [true, true, true], "{failure:?}");
        assert_eq!(failure.causes.len(), 3, "{failure:?}");
        assert_eq!(failure.exit, ExitCode::Failed);
    }

    #[test]
    fn every_schema_is_json_and_says_what_it_is_of() {
        for (name, text) in schemas() {
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert!(value["title"].is_string(), "{name}");
        }
    }
}
