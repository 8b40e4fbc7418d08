//! The examples do what their texts say.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use egress_plan::load::{Sources, load};
use egress_plan::plan::Mode;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

fn run(mut command: Command, folder: &Path, args: &str) -> (i32, String) {
    let output: Output = command
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(folder)
        .args(args.split_whitespace())
        .output()
        .expect("it starts");
    (output.status.code().expect("it ends by itself"), String::from_utf8(output.stdout).expect("output is UTF-8"))
}

fn egress_plan(folder: &Path, args: &str) -> (i32, String) {
    run(Command::new(env!("CARGO_BIN_EXE_egress-plan")), folder, args)
}

/// Commands and last lines of what was printed, in order: the thread of the story.
fn thread(text: &str) -> Vec<&str> {
    let told = |line: &&str| ["$ ", "Plan: ", "Applied: ", "No changes."].iter().any(|start| line.starts_with(start));
    text.lines().filter(told).collect()
}

#[test]
fn the_demo_plans_applies_and_finds_nothing_left_to_do() {
    let demo = Command::new(folder("demo"));
    let (code, text) = run(demo, &folder(""), env!("CARGO_BIN_EXE_egress-plan"));
    assert_eq!(code, 0, "{text}");
    assert_eq!(
        thread(&text),
        [
            "$ egress-plan diff -c config.yaml -f manifests",
            "Plan: 1 to create, 1 to start, 0 to update, 1 to replace, 1 to delete, 0 blocked.",
            "$ egress-plan apply -c config.yaml -f manifests --auto-approve --simulate --save-recorded hosts",
            "Plan: 1 to create, 1 to start, 0 to update, 1 to replace, 1 to delete, 0 blocked.",
            "Applied: 1 created, 1 started, 0 updated, 1 replaced, 1 deleted, 0 failed, 0 skipped.",
            "$ egress-plan diff -c config.yaml -f manifests",
            "No changes.",
        ]
    );
    assert!(text.trim_end().ends_with("(examples/blocked/README.md)."), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn c06_what_is_in_the_way_is_named_with_what_to_do_and_the_rest_goes_on() {
    let blocked = folder("blocked");
    let (code, text) = egress_plan(&blocked, "diff -c config.yaml -f manifests");
    assert_eq!(code, 3, "{text}");
    for (key, verdict) in [
        ("crawl-1", "blocked: the machine is paused: an I/O error"),
        ("crawl-2", "blocked: a machine named"),
        ("crawl-3", "kept: protected"),
        ("partner-1", "kept: not wanted, and protected"),
        ("crawl-4", "create: "),
    ] {
        let line = text.lines().find(|line| line.contains(&format!("crawlers/{key} "))).unwrap_or_default();
        assert!(line.contains(verdict), "{key}: {text}");
    }
    assert!(text.matches("virsh ").count() >= 2, "{text}");
    assert_eq!(text.matches("virsh ").count(), text.matches("virsh -c qemu:///system ").count(), "{text}");

    let (code, text) = egress_plan(&blocked, "apply -c config.yaml -f manifests --auto-approve --simulate");
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("Applied: 1 created, 0 started"), "{text}");
}

/// A copy of an example that a test may change.
fn copy_of(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for part in ["", "manifests", "hosts"] {
        fs::create_dir_all(copy.path().join(part)).expect("a folder");
        for entry in fs::read_dir(folder(name).join(part)).expect("a folder can be listed") {
            let path = entry.expect("a folder can be listed").path();
            if path.is_file() {
                fs::copy(&path, copy.path().join(part).join(path.file_name().expect("a name"))).expect("a copy");
            }
        }
    }
    copy
}

#[test]
fn r5_a_machine_that_was_just_made_is_not_deleted_when_its_manifest_goes() {
    let copy = copy_of("quickstart");
    let apply = "apply -c config.yaml -f manifests --simulate --auto-approve --save-recorded hosts";
    assert_eq!(egress_plan(copy.path(), apply).0, 0);
    let manifests = copy.path().join("manifests/crawlers.yaml");
    let text = fs::read_to_string(&manifests).expect("a text");
    let without: Vec<&str> = text.split("---\n").filter(|document| !document.contains("crawl-3")).collect();
    fs::write(&manifests, without.join("---\n")).expect("a file");

    let (code, text) = egress_plan(copy.path(), "diff -c config.yaml -f manifests");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("crawlers/crawl-3   waits: not wanted; it is "), "{text}");
    assert!(text.contains("old and goes when it is 10 minutes old"), "{text}");
    assert!(text.ends_with("No changes.\n"), "{text}");
}

#[test]
fn every_command_of_the_texts_beside_the_examples_runs() {
    for (name, codes) in [("quickstart", vec![0, 0, 0]), ("blocked", vec![3, 3])] {
        let copy = copy_of(name);
        let text = fs::read_to_string(folder(name).join("README.md")).expect("a text");
        // Every second piece between fences is code.
        let code = text.split("```").skip(1).step_by(2).flat_map(str::lines);
        let commands: Vec<&str> = code.filter_map(|line| line.strip_prefix("egress-plan ")).collect();
        let found: Vec<i32> = commands
            .iter()
            .map(|command| egress_plan(copy.path(), command.split(';').next().unwrap_or_default()).0)
            .collect();
        assert_eq!(found, codes, "{name}: {commands:?}");
    }
    let (code, _) = egress_plan(&folder("libvirt"), "validate -c config.yaml -f manifests");
    assert_eq!(code, 0);
}

#[test]
fn every_example_loads_without_a_warning() {
    for (name, proxies) in [("quickstart", 4), ("blocked", 4), ("libvirt", 8)] {
        let sources = Sources {
            filenames: vec![folder(name).join("manifests")],
            config: folder(name).join("config.yaml"),
            ..Sources::default()
        };
        let loaded = load(&sources, &mut std::io::empty()).unwrap_or_else(|problems| {
            let problems: Vec<String> = problems.as_slice().iter().map(ToString::to_string).collect();
            panic!("{name}: {}", problems.join("\n"))
        });
        let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, [""; 0], "{name}");
        assert_eq!(loaded.desired.proxies.len(), proxies, "{name}");
        for proxy in loaded.desired.proxies.values() {
            let Mode::Managed(managed) = &proxy.mode else { continue };
            assert!(managed.resolved.is_ok(), "{}: {:?}", proxy.key, managed.resolved);
        }
    }
}

/// YAML files of the examples with the kind of schema that each must name.
fn documents() -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for name in ["quickstart", "blocked", "libvirt"] {
        found.push((folder(name).join("config.yaml"), "config"));
        for entry in fs::read_dir(folder(name).join("manifests")).expect("a folder of manifests") {
            let path = entry.expect("a folder can be listed").path();
            let text = fs::read_to_string(&path).expect("a text");
            if !text.starts_with("#cloud-config\n") {
                found.push((path, "manifest"));
            }
        }
    }
    found
}

#[test]
fn every_config_and_manifest_names_its_schema_for_editors() {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
    for (path, schema) in documents() {
        let text = fs::read_to_string(&path).expect("a text");
        let first = text.lines().next().unwrap_or_default();
        let named =
            first.strip_prefix("# yaml-language-server: $schema=").unwrap_or_else(|| panic!("{path:?}: {first}"));
        let mut at = path.parent().expect("a folder").to_path_buf();
        for part in named.split('/') {
            if part == ".." {
                at.pop();
            } else {
                at.push(part);
            }
        }
        assert_eq!(at, schemas.join(format!("{schema}.json")), "{path:?}");
    }
}
