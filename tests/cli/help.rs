//! Help: exit code 0, on stdout, plain and within 100 columns.

use super::{COMMANDS, egress_plan, run};

#[test]
fn r39_help_is_plain_and_fits_for_every_command() {
    for command in COMMANDS.iter().chain(&["", "images"]) {
        for flag in ["--help", "-h"] {
            let ended = run(egress_plan(&format!("{command} {flag}")));
            assert_eq!(ended.code, Some(0), "{command} {flag}: {}", ended.stderr);
            assert_eq!(ended.stderr, "", "{command} {flag}");
            assert!(ended.stdout.contains("Usage: egress-plan"), "{command} {flag}: {}", ended.stdout);
            assert!(!ended.stdout.contains('\u{1b}'), "{command} {flag}: {:?}", ended.stdout);
            for line in ended.stdout.lines() {
                assert!(line.chars().count() <= 100, "{command} {flag}: {line}");
            }
        }
    }
}

#[test]
fn help_lists_every_command() {
    let help = run(egress_plan("--help")).stdout;
    for command in COMMANDS {
        let first = command.split(' ').next().unwrap_or_default();
        assert!(help.contains(first), "{command}");
    }
}

#[test]
fn the_exit_codes_are_where_people_look_for_them() {
    for command in ["", "diff", "apply", "destroy"] {
        let help = run(egress_plan(&format!("{command} --help"))).stdout;
        for row in ["  0  success", " 64  wrong usage", "130  interrupted"] {
            assert!(help.contains(row), "{command}: {help}");
        }
    }
}

#[test]
fn help_does_not_show_what_the_environment_holds() {
    let mut command = egress_plan("diff --help");
    command.env("EGRESS_PLAN_CONFIG", "/secret/place");
    let help = run(command).stdout;
    assert!(help.contains("EGRESS_PLAN_CONFIG") && !help.contains("/secret/place"), "{help}");
}
