//! The commands that need no host.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{COMMANDS, egress_plan, run};

#[test]
fn version_says_what_was_built_in() {
    let ended = run(egress_plan("version"));
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.starts_with(concat!("egress-plan ", env!("CARGO_PKG_VERSION"), "\n")), "{}", ended.stdout);
    let ended = run(egress_plan("version -o json"));
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(value["libvirt"], cfg!(feature = "libvirt"));
    assert_eq!(run(egress_plan("--version")).code, Some(0));
}

#[test]
fn completions_for_bash_parse_and_know_every_command() {
    let ended = run(egress_plan("completions bash"));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash starts");
    bash.stdin.take().expect("piped").write_all(ended.stdout.as_bytes()).expect("read");
    assert!(bash.wait().expect("ends").success());
    for command in COMMANDS {
        let last = command.split(' ').next_back().unwrap_or_default();
        assert!(ended.stdout.contains(last), "{command}");
    }
}

#[test]
fn completions_for_other_shells_know_every_command() {
    for (shell, head) in [("zsh", "#compdef egress-plan"), ("fish", "# Print an optspec"), ("elvish", "")] {
        let ended = run(egress_plan(&format!("completions {shell}")));
        assert_eq!(ended.code, Some(0), "{shell}");
        assert!(ended.stdout.starts_with(head), "{shell}: {}", ended.stdout);
        for command in COMMANDS.iter().filter(|command| **command != "plan") {
            let last = command.split(' ').next_back().unwrap_or_default();
            assert!(ended.stdout.contains(last), "{shell}: {command}");
        }
    }
}

#[test]
fn schemas_are_listed_printed_written_and_compared() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("schema");
    let with = |flag: &str| {
        let mut command = egress_plan("schema");
        command.arg(flag).arg(&path);
        run(command)
    };
    let names = run(egress_plan("schema")).stdout;
    assert!(names.lines().any(|name| name == "plan"), "{names}");

    let missing = with("--check");
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("plan.json"), "{}", missing.stderr);

    assert_eq!(with("--dir").code, Some(0));
    assert_eq!(with("--check").code, Some(0));
    let printed = run(egress_plan("schema plan")).stdout;
    assert_eq!(std::fs::read_to_string(path.join("plan.json")).expect("written"), printed);

    std::fs::write(path.join("plan.json"), printed.replace("fleet", "flotilla")).expect("written");
    let stale = with("--check");
    assert_eq!(stale.code, Some(1));
    assert!(stale.stderr.contains("plan.json") && stale.stderr.contains("hint: "), "{}", stale.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
        .args(["completions", "zsh"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .expect("runs");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
