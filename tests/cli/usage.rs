//! Wrong usage: exit code 64, on stderr, in the format asked for.

use super::{COMMANDS, egress_plan, run};

#[test]
fn wrong_usage_ends_with_64_and_nothing_on_stdout() {
    for line in [
        "",
        "bogus",
        "probe",
        "help",
        "diff",
        "diff -f m.yaml",
        "diff -f m -c c -n crawlers",
        "diff -f m -c c --target a/b --exclude c/d",
        "diff -f m -c c --parallelism many",
        "diff -f m -c c --timeout 10",
        "diff -f m -c c -l (",
        "apply -f m -c c --save-recorded d",
        "apply -f m -c c --wait ready",
        "destroy -c c",
        "destroy -c c --all --target a/b",
        "images",
        "images bogus",
        "completions",
        "schema bogus",
        "version --color sometimes",
    ] {
        let ended = run(egress_plan(line));
        assert_eq!(ended.code, Some(64), "{line}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{line}");
        assert!(!ended.stderr.is_empty(), "{line}");
    }
}

#[test]
fn target_and_exclude_are_mutually_exclusive_everywhere() {
    for command in ["diff -f m", "apply -f m", "check", "status", "inventory -f m", "images list"] {
        let ended = run(egress_plan(&format!("{command} -c c --target a/b --exclude a/c")));
        assert_eq!(ended.code, Some(64), "{command}");
        assert!(ended.stderr.contains("cannot be used with"), "{command}: {}", ended.stderr);
    }
}

#[test]
fn a_wrong_value_says_what_is_right() {
    for (line, right) in [
        ("diff -f m -c c --timeout 10", "such as 90s, 10m or 1h30m"),
        ("diff -f m -c c --max-deletions x", "a percentage from 0% to 100%"),
        ("diff -f m -c c --target x", "PROVIDER/HOST"),
        ("diff -f m -c c -l a>1", "is not a label's key"),
        ("diff -f m -c c -l a,", "k notin (a,b)"),
        ("diff -f m -c c --replace x", "NAMESPACE/NAME"),
        ("diff -f m -c c -o yaml", "markdown"),
        ("schema bogus", "the names are: "),
    ] {
        let ended = run(egress_plan(line));
        assert!(ended.stderr.contains(right), "{line}: {}", ended.stderr);
    }
}

#[test]
fn r39_an_error_has_no_escape_byte_without_a_terminal() {
    for command in COMMANDS.iter().chain(&[""]) {
        let ended = run(egress_plan(&format!("{command} --bogus")));
        assert_eq!(ended.code, Some(64), "{command}");
        assert!(!ended.stderr.contains('\u{1b}'), "{command}: {:?}", ended.stderr);
    }
}

#[test]
fn r39_an_argument_cannot_steer_the_terminal() {
    for format in ["text", "json"] {
        let mut command = egress_plan("version --log-format");
        command.args([format, "--\u{1b}[31mred\u{7}\u{9b}2J"]);
        let ended = run(command);
        assert_eq!(ended.code, Some(64));
        assert!(!ended.stderr.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{:?}", ended.stderr);
    }
}

#[test]
fn colour_comes_when_it_is_asked_for() {
    let ended = run(egress_plan("version --bogus --color always"));
    assert!(ended.stderr.contains('\u{1b}'), "{:?}", ended.stderr);
    let ended = run(egress_plan("version --bogus --color=always --color=never"));
    assert!(!ended.stderr.contains('\u{1b}'), "{:?}", ended.stderr);
}

#[test]
fn l41_wrong_usage_is_json_when_json_is_asked_for() {
    for line in ["diff --log-format json", "diff --log-format=json --bogus", "--log-format json"] {
        let ended = run(egress_plan(line));
        assert_eq!(ended.code, Some(64), "{line}");
        let lines = ended.json_lines();
        assert_eq!(lines.len(), 1, "{line}: {}", ended.stderr);
        assert_eq!(lines[0]["exit"], 64, "{line}");
        assert_eq!(lines[0]["level"], "error", "{line}");
    }
}

#[test]
fn the_environment_can_name_the_config_and_the_fleet() {
    let mut command = egress_plan("destroy --all");
    command.env("EGRESS_PLAN_CONFIG", "c.yaml").env("EGRESS_PLAN_FLEET", "Not A Name");
    let ended = run(command);
    assert_eq!(ended.code, Some(64));
    assert!(ended.stderr.contains("--fleet"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("--config"), "{}", ended.stderr);
}
