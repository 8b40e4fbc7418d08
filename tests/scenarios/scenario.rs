//! One scenario: what is run, and what must hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use egress_plan::provider::libvirt::host::recorded::{MARK_NAMESPACE, RecordedDomain, RecordedHost};
use serde_json::Value;

use crate::golden;
use crate::redact::redact;

/// Longer than any command here takes; a test that hangs should say which.
const STUCK: Duration = Duration::from_mins(2);

/// A folder with a scenario.
pub struct Scenario {
    /// Its name.
    pub name: String,
    folder: PathBuf,
    /// Flags of every command of it.
    flags: Vec<String>,
}

/// How a command ended.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Every scenario, sorted.
pub fn all() -> Vec<Scenario> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut folders: Vec<PathBuf> = fs::read_dir(&root)
        .expect("the scenarios are there")
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| path.join("config.yaml").is_file())
        .collect();
    folders.sort();
    folders.into_iter().map(Scenario::of).collect()
}

impl Scenario {
    fn of(folder: PathBuf) -> Self {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let flags = fs::read_to_string(folder.join("flags")).unwrap_or_default();
        Self { name, folder, flags: flags.lines().map(str::to_owned).collect() }
    }

    /// Compares what a user is shown, then carries it out and looks again.
    pub fn check(&self) -> Result<(), String> {
        let work = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (first, plan) = self.diff(&self.folder, work.path(), &self.flags);
        let markdown = self.run(&self.folder, "diff", &self.flags, &["--output", "markdown"]);
        copy(&self.folder, work.path());
        let mut applied = self.apply(work.path());
        if plan.contains("\"WaitsForOther\"") {
            applied = self.apply(work.path());
        }
        let (again, after) = self.diff(work.path(), work.path(), &self.flags_without_replace());

        let codes = format!("diff {}\napply {}\nagain {}\n", first.code, applied.code, again.code);
        let expected = [
            ("plan.txt", &first.stdout),
            ("plan.json", &plan),
            ("plan.md", &markdown.stdout),
            ("messages.txt", &first.stderr),
            ("exit", &codes),
        ];
        let faults: Vec<String> = expected
            .into_iter()
            .filter_map(|(file, found)| golden::check(&self.folder.join(file), &redact(found)).err())
            .chain([&first.stdout, &plan, &markdown.stdout].into_iter().filter_map(|text| pastable(text).err()))
            .chain((markdown.code != first.code).then(|| "Markdown has another exit code than text".to_owned()))
            .chain(Self::nothing_is_left_to_do(&applied, &plan, &after))
            .chain(self.others_are_untouched(work.path()))
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n\n")) }
    }

    fn diff(&self, folder: &Path, work: &Path, flags: &[String]) -> (Ended, String) {
        let json = work.join("plan.json");
        let ended = self.run(folder, "diff", flags, &["--json-into", &json.display().to_string()]);
        let plan = fs::read_to_string(&json).unwrap_or_default();
        (ended, plan)
    }

    /// Carries the plan out on a copy, whose hosts are then as the run left them.
    fn apply(&self, work: &Path) -> Ended {
        let flags: Vec<String> = self.flags.iter().filter(|flag| *flag != "--detailed-exitcode").cloned().collect();
        let mut more = vec!["--simulate", "--auto-approve", "--save-recorded", "hosts"];
        if !flags.iter().any(|flag| flag.starts_with("--lock-timeout")) {
            more.push("--lock-timeout=0s");
        }
        self.run(work, "apply", &flags, &more)
    }

    /// Whom somebody asked to have made anew is made anew once.
    fn flags_without_replace(&self) -> Vec<String> {
        self.flags.iter().filter(|flag| !flag.starts_with("--replace")).cloned().collect()
    }

    fn run(&self, folder: &Path, command: &str, flags: &[String], more: &[&str]) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_egress-plan"))
            .env_clear()
            .env("HOME", "/nonexistent")
            .current_dir(folder)
            .timeout(STUCK)
            .args([command, "--config", "config.yaml", "--filename", "manifests"])
            .args(flags)
            .args(more)
            .output()
            .expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        let ended = Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(!ended.stdout.contains('\u{1b}'), "{}: {command} writes colours into a pipe", self.name);
        ended
    }

    /// The fixpoint: after an apply that was carried out, nothing is left to do; after one that was
    /// not, everything is as it was.
    fn nothing_is_left_to_do(applied: &Ended, before: &str, after: &str) -> Option<String> {
        let actions = |plan: &str| {
            let plan: Value = serde_json::from_str(plan).unwrap_or_default();
            plan.get("actions").cloned().unwrap_or_default()
        };
        let told = || format!("\n{}{}", applied.stdout, applied.stderr);
        match applied.code {
            0 | 3 if actions(after).as_array().is_some_and(Vec::is_empty) => None,
            0 | 3 => Some(format!("after an apply, there is still something to do:\n{:#}{}", actions(after), told())),
            1 | 4 | 6 if actions(before) == actions(after) => None,
            1 | 4 | 6 => Some(format!("an apply that did nothing changed the plan{}", told())),
            code => Some(format!("apply ended with {code}{}", told())),
        }
    }

    /// Domains that bear no mark of ours are as they were, and every one of them is still there.
    fn others_are_untouched(&self, work: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, before) in hosts(&self.folder.join("hosts")) {
            let after = RecordedHost::load(&work.join("hosts").join(&name)).expect("a saved host can be read");
            for domain in before.domains.iter().filter(|domain| !bears_our_mark(domain)) {
                let same = |other: &&RecordedDomain| other.name == domain.name;
                match after.domains.iter().find(same) {
                    Some(found) if found.state == domain.state && found.disks.len() == domain.disks.len() => {}
                    Some(_) => faults.push(format!("{name}: {} is not as it was", domain.name)),
                    None => faults.push(format!("{name}: {} is gone", domain.name)),
                }
            }
        }
        faults
    }
}

/// Printed commands work as they are pasted (C06): each names the connection.
fn pastable(text: &str) -> Result<(), String> {
    match text.matches("virsh ").count() - text.matches("virsh -c qemu:///system ").count() {
        0 => Ok(()),
        _ => Err(format!("a command without its connection is printed:\n{text}")),
    }
}

fn bears_our_mark(domain: &RecordedDomain) -> bool {
    domain.xml.is_some() || domain.metadata.iter().any(|element| element.uri == MARK_NAMESPACE)
}

fn hosts(folder: &Path) -> BTreeMap<String, RecordedHost> {
    fs::read_dir(folder)
        .expect("the hosts are there")
        .map(|entry| entry.expect("a folder can be listed").path())
        .map(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (name, RecordedHost::load(&path).unwrap_or_else(|error| panic!("{error}")))
        })
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a folder can be listed") {
        let path = entry.expect("a folder can be listed").path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file can be copied");
        }
    }
}
