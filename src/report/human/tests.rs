//! The page as a user sees it. Snapshots are reviewed as text: calm, aligned, why, what to do.

use super::super::fixture::{create, everything, held, host, key, known_host, outcome, plan, refusal, trouble};
use super::*;
use crate::apply::{ActionOutcome, Outcome};
use crate::plan::{HostSummary, Reason, Verdict};

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn a_plan_with_everything() {
    insta::assert_snapshot!(super::plan(&everything(), Style::PLAIN));
}

#[test]
fn a_plan_that_guards_refuse() {
    let mut plan = plan();
    plan.hosts.insert(host("lab/h1"), known_host());
    plan.actions.push(super::super::fixture::delete("crawlers/old-1", "lab/h1"));
    plan.refusals.push(refusal());
    plan.recorded = true;
    insta::assert_snapshot!(super::plan(&plan, Style::PLAIN));
}

#[test]
fn a_plan_of_nothing_says_so_in_two_lines() {
    let mut plan = plan();
    plan.hosts.insert(host("lab/h1"), known_host());
    plan.unchanged.push(key("a/b"));
    assert_eq!(super::plan(&plan, Style::PLAIN), "1 unchanged.\nNo changes.\n");
}

#[test]
fn the_last_line_gives_the_figures_when_somebody_is_needed() {
    let zeros =
        |blocked| format!("Plan: 0 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, {blocked} blocked.");
    let mut blocked = plan();
    blocked.held.push(held("a/b", "lab/h1", Verdict::Blocked, Reason::Paused, "it is paused", None));
    assert_eq!(last_line(&blocked), zeros(1));

    let mut unknown = plan();
    unknown.hosts.insert(host("lab/h1"), HostSummary::Unknown(trouble()));
    assert_eq!(last_line(&unknown), zeros(0));

    let mut calm = plan();
    calm.held.push(held("a/b", "lab/h1", Verdict::Waiting, Reason::TooYoung, "it is young", None));
    calm.held.push(held("a/c", "lab/h1", Verdict::Kept, Reason::Protected, "it is protected", None));
    assert_eq!(last_line(&calm), "No changes.");
}

#[test]
fn r39_a_plan_and_an_outcome_without_colour_hold_no_escape_byte() {
    let mut plan = everything();
    let evil = "a\u{1b}[31mb\u{9b}31mc\r\n\u{7}d";
    for action in &mut plan.actions {
        action.why = evil.to_owned();
        action.details.push(evil.to_owned());
    }
    for held in &mut plan.held {
        held.message = evil.to_owned();
        held.hint = Some(evil.to_owned());
        held.instance = Some(evil.to_owned());
    }
    plan.notes.push(evil.to_owned());
    let mut ended = outcome();
    for what in ended.actions.values_mut() {
        what.message = Some(evil.to_owned());
        what.hint = Some(evil.to_owned());
    }
    for text in [super::plan(&plan, Style::PLAIN), super::outcome(&plan, &ended, Style::PLAIN)] {
        let control = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None, "{text:?}");
        assert!(text.contains("a [31mb 31mc   d"), "{text}");
    }
}

#[test]
fn colour_moves_no_column() {
    let plain = super::plan(&everything(), Style::PLAIN);
    let coloured = super::plan(&everything(), Style { colour: true, ..Style::PLAIN });
    assert_ne!(plain, coloured);
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').expect("a colour ends in m").1;
    }
    stripped.push_str(rest);
    assert_eq!(stripped, plain);
}

#[test]
fn no_line_ends_in_a_space_and_no_blank_line_comes_twice() {
    let text = super::plan(&everything(), Style::PLAIN);
    assert!(lines(&text).iter().all(|line| line.trim_end() == *line), "{text}");
    assert!(!text.contains("\n\n\n") && !text.starts_with('\n') && text.ends_with(".\n"), "{text}");
}

#[test]
fn an_outcome_with_everything() {
    let mut ended = outcome();
    ended.stopped_hosts.insert(host("lab/h2"), "three actions in a row failed".to_owned());
    insta::assert_snapshot!(super::outcome(&everything(), &ended, Style::PLAIN));
}

#[test]
fn an_interrupted_run_names_what_was_not_reached() {
    let mut plan = plan();
    plan.actions.push(create("a/b", "lab/h1"));
    plan.actions.push(create("a/c", "lab/h1"));
    let mut ended = Outcome { interrupted: true, ..Outcome::default() };
    let skipped = ActionOutcome::skipped(Reason::Interrupted, "the run was interrupted first");
    ended.actions.insert("create a/b on lab/h1".to_owned(), skipped);
    insta::assert_snapshot!(super::outcome(&plan, &ended, Style::PLAIN));
}
