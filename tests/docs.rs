//! What the documentation says against what is there: links, printed commands, reasons, commands,
//! exit codes, fields, and the tests that cover each lesson.
//!
//! Reads files of this repository alone. `UPDATE_DOCS=1` writes what is generated.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use egress_plan::plan::Reason;
use egress_plan::run::{command_line, exit};
use schemars::schema_for;
use serde_json::Value;

/// The option with which every printed command reaches the daemon that a member of the group
/// `libvirt` may use (C06).
const CONNECTION: &str = " -c qemu:///system ";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files below `folder` with this ending, sorted.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = files("docs", "md");
    paths.extend(["README.md", "CHANGELOG.md"].map(|name| root().join(name)));
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The targets of a document's Markdown links, those inside code left out.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between backticks is code.
        let plain: String = line.split('`').step_by(2).collect();
        let ends = plain.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(ends.map(str::to_owned));
    }
    found
}

/// A heading's anchor, as forges make it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| anchor(line.trim_start_matches('#'))).collect()
}

#[test]
fn every_relative_link_resolves() {
    let mut broken = Vec::new();
    for (path, text) in documents() {
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let there = target.exists()
                && (fragment.is_empty()
                    || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(fragment)));
            if !there {
                broken.push(format!("{}: {link}", shown(&path)));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_source_file_that_is_named_exists() {
    let mut missing = Vec::new();
    for (path, text) in documents() {
        let named = text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("src/"));
        missing
            .extend(named.filter(|code| !root().join(code).exists()).map(|code| format!("{}: {code}", shown(&path))));
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// The places of `virsh` that lack the connection.
fn unconnected(text: &str) -> usize {
    text.match_indices("virsh").filter(|(at, word)| !text[at + word.len()..].starts_with(CONNECTION)).count()
}

#[test]
fn c06_every_printed_command_names_its_connection() {
    let mut bad: Vec<String> = Vec::new();
    for (path, text) in documents() {
        // A line end inside of a command's first words counts as a blank.
        if unconnected(&text.replace('\n', " ")) > 0 {
            bad.push(shown(&path));
        }
    }
    for path in files("src", "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        // The prefix alone, to which a command is added, ends its literal; so does the bare word.
        let ended = |line: &str| line.replace("qemu:///system\"", "qemu:///system ").replace("virsh\"", "");
        let lacks = |line: &str| unconnected(&ended(line)) > 0;
        bad.extend(code.filter(|line| lacks(line)).map(|line| format!("{}: {}", shown(&path), line.trim())));
    }
    assert_eq!(bad, Vec::<String>::new());
}

/// Every reason, as reports spell it, from the schema of the type.
fn reasons() -> BTreeSet<String> {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::Array(names)) = object.get("enum") {
                    found.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                if let Some(name) = object.get("const").and_then(Value::as_str) {
                    found.insert(name.to_owned());
                }
                object.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    collect(schema_for!(Reason).as_value(), &mut found);
    found
}

#[test]
fn every_reason_is_explained() {
    let reasons = reasons();
    assert!(reasons.contains("Paused") && reasons.len() > 40, "{reasons:?}");
    let text = read("docs/guide/outputs.md") + &read("docs/guide/troubleshooting.md");
    let missing: Vec<&String> = reasons.iter().filter(|reason| !text.contains(&format!("`{reason}`"))).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// Every command that can be typed, as `images list`, with its long flags.
fn commands(command: &Command, above: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    for below in command.get_subcommands() {
        let name = format!("{above}{}", below.get_name());
        if below.has_subcommands() {
            commands(below, &format!("{name} "), found);
        } else {
            let flags = below.get_arguments().filter_map(|argument| argument.get_long());
            found.insert(name, flags.map(|flag| format!("--{flag}")).collect());
        }
    }
}

#[test]
fn every_command_and_flag_is_in_the_reference() {
    let mut found = BTreeMap::new();
    commands(&command_line(), "", &mut found);
    assert!(found.contains_key("images list"), "{found:?}");
    let text = read("docs/guide/commands.md");
    let headings = anchors(&text);
    let mut missing: Vec<String> =
        found.keys().filter(|name| !headings.contains(&anchor(name))).map(|name| format!("heading {name}")).collect();
    let flags: BTreeSet<&String> = found.values().flatten().collect();
    missing.extend(flags.into_iter().filter(|flag| !text.contains(&format!("`{flag}"))).cloned());
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_tables_of_exit_codes_are_the_programs_own() {
    let rows: Vec<String> =
        exit::TABLE.iter().map(|(code, meaning)| format!("| {} | {meaning} |", code.number())).collect();
    let table = rows.join("\n");
    for path in ["README.md", "docs/guide/outputs.md"] {
        assert!(read(path).contains(&table), "{path} should hold:\n{table}");
    }
}

fn fields_of(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                found.extend(properties.keys().cloned());
            }
            object.values().for_each(|value| fields_of(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| fields_of(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_is_in_its_reference() {
    let schemas = egress_plan::load::schema::schemas();
    for (schema, reference) in
        [("config", "config-reference"), ("proxy", "manifest-reference"), ("proxyset", "manifest-reference")]
    {
        let mut fields = BTreeSet::new();
        fields_of(&serde_json::from_str(&schemas[schema]).unwrap(), &mut fields);
        // What a cluster adds is told of as a whole.
        let added =
            ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation"];
        let more = ["managedFields", "ownerReferences", "selfLink"];
        fields.retain(|field| !added.contains(&field.as_str()) && !more.contains(&field.as_str()));
        let text = read(&format!("docs/guide/{reference}.md"));
        let missing: Vec<&String> = fields.iter().filter(|field| !text.contains(field.as_str())).collect();
        assert_eq!(missing, Vec::<&String>::new(), "{reference}");
    }
}

/// Numbers that begin a test's name, each as it is spelt: `l33` and `r3` of `l33_r3_a_machine`.
fn numbers(name: &str) -> impl Iterator<Item = &str> {
    name.split(['_', '-']).take_while(|part| {
        let digits = part.strip_prefix(['l', 'r', 'c']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// The lessons, requirements and cases that some test's name begins with, and how it spells the number.
fn covered() -> BTreeMap<String, String> {
    let mut names: Vec<String> = Vec::new();
    for path in files("src", "rs").into_iter().chain(files("tests", "rs")) {
        let text = fs::read_to_string(path).unwrap();
        // A function, or a trial that is named by a text.
        let starts = text.lines().flat_map(|line| [line.split_once("fn "), line.split_once('"')]).flatten();
        let word = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
        names.extend(starts.map(|(_, rest)| word(rest)).filter(|name| name.contains('_')));
    }
    if let Ok(scenarios) = fs::read_dir(root().join("tests/scenarios")) {
        names.extend(scenarios.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()));
    }
    names.sort();
    let mut found = BTreeMap::new();
    for name in &names {
        for number in numbers(name) {
            let (letter, digits) = number.split_at(1);
            let key = format!("{}{}", letter.to_uppercase(), digits.trim_start_matches('0'));
            found.entry(key).or_insert_with(|| number.to_owned());
        }
    }
    found
}

#[test]
fn lessons_name_the_tests_that_cover_them() {
    let covered = covered();
    assert!(covered.contains_key("L13"), "{covered:?}");
    let text = read("docs/lessons.md");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        let [_, number, what, tests, _] = cells.as_slice() else { return line.to_owned() };
        let number = number.trim();
        let told = tests.trim().strip_prefix("no test: ").is_some_and(|why| !why.is_empty());
        if !number.starts_with(['L', 'R', 'C']) || !number[1..].bytes().all(|b| b.is_ascii_digit()) || told {
            return line.to_owned();
        }
        let key = format!("{}{}", &number[..1], number[1..].trim_start_matches('0'));
        let tests = covered.get(&key).map_or("not yet covered".to_owned(), |prefix| format!("`{prefix}`"));
        format!("| {number} |{what}| {tests} |")
    };
    let current: String = text.lines().map(|line| row(line) + "\n").collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join("docs/lessons.md"), &current).unwrap();
        return;
    }
    assert!(text == current, "docs/lessons.md is not current; run UPDATE_DOCS=1 cargo test --test docs");
}

/// What no row may say of a row that a test covers: that it has none.
#[test]
fn a_row_that_claims_to_need_no_test_has_none() {
    let covered = covered();
    let text = read("docs/lessons.md");
    let claims: Vec<&str> = text.lines().filter(|line| line.contains("| no test: ")).collect();
    assert!(claims.iter().any(|line| line.starts_with("| L46 |")), "{claims:?}");
    for line in claims {
        let number = line.split('|').nth(1).unwrap_or_default().trim();
        assert!(!covered.contains_key(number), "{number} has a test; let the column be written anew");
    }
}

#[test]
fn l47_the_real_host_suite_runs_wherever_every_test_runs() {
    let continuous = read(".ci/run");
    assert!(continuous.lines().any(|line| line.trim() == "part test make test"), "{continuous}");
    let make = read("Makefile");
    let recipe = make.split("\ntest:").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    assert!(recipe.contains("tests/run"), "{recipe}");
    let script = read("tests/run");
    let lab: Vec<&str> = script.lines().filter(|line| line.contains("tests/realhost/lab")).collect();
    assert!(lab.iter().any(|line| line.contains("--guest")), "{lab:?}");
    for suite in ["same_answers", "live", "providers", "realhost", "incluster"] {
        assert!(script.contains(suite), "{suite} is not run in the lab");
    }
}
