//! What a forge is given: within its bound, and with nobody's text as markup.

use super::super::fixture::{create, delete, everything, held, key, outcome, plan, refusal};
use super::*;
use crate::plan::Reason;

#[test]
fn a_comment_with_everything() {
    let mut plan = everything();
    plan.refusals.push(refusal());
    insta::assert_snapshot!(comment(&plan, None, MAX_BYTES));
}

#[test]
fn a_comment_after_an_apply() {
    insta::assert_snapshot!(comment(&everything(), Some(&outcome()), MAX_BYTES));
}

#[test]
fn a_comment_of_nothing_is_short() {
    let mut plan = plan();
    plan.unchanged.push(key("a/b"));
    let wanted = "### egress-plan: fleet `crawl-eu`\n\n**No changes.**\n\n1 unchanged.\n";
    assert_eq!(comment(&plan, None, MAX_BYTES), wanted);
}

fn big(deletes: usize, creates: usize) -> Plan {
    let mut plan = plan();
    for number in 0..creates {
        plan.actions.push(create(&format!("crawlers/new-{number}"), "lab/h1"));
    }
    for number in 0..deletes {
        plan.actions.push(delete(&format!("crawlers/old-{number}"), "lab/h1"));
    }
    let message = "x".repeat(400);
    for number in 0..creates {
        let held = held(&format!("w/w-{number}"), "lab/h1", Verdict::Waiting, Reason::TooYoung, &message, Some("wait"));
        plan.held.push(held);
    }
    plan.notes = vec!["n".repeat(500); creates];
    plan
}

#[test]
fn r40_whatever_the_plan_the_bound_holds_and_the_summary_stays() {
    for (deletes, creates) in [(0, 0), (3, 10), (0, 200), (20, 300), (1_200, 10)] {
        let plan = big(deletes, creates);
        for bound in [0, MIN_BYTES, 5_000, 20_000, MAX_BYTES] {
            for outcome in [None, Some(outcome())] {
                let text = comment(&plan, outcome.as_ref(), bound);
                assert!(text.len() <= bound.max(MIN_BYTES), "{} of {bound}", text.len());
                let last = human::last_line(&plan);
                assert!(outcome.is_some() || text.contains(&last), "{text}");
            }
        }
    }
}

#[test]
fn r40_deletions_stay_when_all_else_is_left_out() {
    for (deletes, shape) in
        [(40, "`crawlers/old-{}` on `lab/h1`: no manifest wants it"), (60, "`delete crawlers/old-{} on lab/h1`")]
    {
        let text = comment(&big(deletes, 200), None, MIN_BYTES);
        for number in 0..deletes {
            assert!(text.contains(&shape.replace("{}", &number.to_string())), "{number} of {text}");
        }
        assert!(text.contains("#### Create (200)") && text.contains("left out for length"), "{text}");
    }
}

#[test]
fn r40_details_go_before_rows() {
    let plan = big(2, 60);
    let whole = comment(&plan, None, usize::MAX);
    let text = comment(&plan, None, whole.len() - 1);
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("- ")).count();
    assert_eq!(rows(&text), rows(&whole));
    assert!(text.len() < whole.len());
}

#[test]
fn no_text_of_a_user_is_taken_for_markup() {
    let evil = "x\n# Title\n- item <img src=x onerror=1> [a](http://b) @everyone #12 `code` ``two`` | | **b** </details> &lt; www.example";
    let mut plan = everything();
    for action in &mut plan.actions {
        action.why = evil.to_owned();
        action.details = vec![evil.to_owned()];
    }
    for held in &mut plan.held {
        held.message = evil.to_owned();
        held.hint = Some(evil.to_owned());
    }
    plan.notes = vec![evil.to_owned(), "- - 1. nested".to_owned(), "1. first".to_owned()];
    let text = comment(&plan, None, MAX_BYTES);
    for (number, line) in text.lines().enumerate() {
        let expected = ["### egress-plan", "**", "#### ", "- ", "  - ", ""].iter().any(|start| line.starts_with(start));
        assert!(expected, "line {number} begins a structure of its own: {line:?}");
        // Outside of code spans nothing of the evil text may be live.
        let outside = outside_code(line);
        for live in ["<img", "</details>", "](", "@everyone", "#12", "://", "www.", "**b**", "| |"] {
            assert!(!outside.contains(live), "{live:?} in {outside:?}");
        }
    }
    assert!(text.lines().filter(|line| line.starts_with('#')).all(|line| !line.contains("Title")));
}

/// A line without its code spans and escaped characters, read as a Markdown parser reads it.
fn outside_code(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some(escaped) = rest.strip_prefix('\\') {
            rest = escaped.get(escaped.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
            continue;
        }
        let run = rest.len() - rest.trim_start_matches('`').len();
        if run == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let mut end = run;
        // The span ends at the next run of just as many backticks.
        loop {
            let after = &rest[end..];
            let open = after.find('`').expect("every code span is closed");
            let length = after[open..].len() - after[open..].trim_start_matches('`').len();
            end += open + length;
            if length == run {
                break;
            }
        }
        rest = &rest[end..];
    }
    out
}
