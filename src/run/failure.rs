//! The one shape in which a command fails: what happened, why, and what to do.

use std::error::Error;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::CommandResult;
use super::exit::ExitCode;
use super::line::{self, Head};
use super::terminal::{Terminal, level_style};
use crate::cli::LogFormat;

/// Whose problem a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something outside: a host, a file, a guard, another run.
    World,
    /// What was given: manifests, config, a saved plan.
    Input,
    /// The command line.
    Usage,
    /// This program broke a promise of its own.
    Bug,
}

impl Kind {
    /// The kind as JSON lines spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::World => "world",
            Self::Input => "input",
            Self::Usage => "usage",
            Self::Bug => "bug",
        }
    }
}

/// What a bug asks for, whatever it is.
const REPORT_BUG: &str = "This is a bug in egress-plan, not in what it was given. Please report it with the command \
                          line, the version (egress-plan version) and the lines above.";

/// Why a command did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whose problem it is.
    pub kind: Kind,
    /// What the process ends with.
    pub exit: ExitCode,
    /// A constant short sentence, then the object. May have several lines.
    pub message: String,
    /// Why: the chain from near to far, or a list of problems. Shown in this order.
    pub causes: Vec<String>,
    /// What to do.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure without causes and hints.
    #[must_use]
    pub fn new(kind: Kind, exit: ExitCode, message: impl Into<String>) -> Self {
        Self { kind, exit, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// Something outside failed; exit code 1.
    #[must_use]
    pub fn world(message: impl Into<String>) -> Self {
        Self::new(Kind::World, ExitCode::Failed, message)
    }

    /// What was given is wrong; exit code 1.
    #[must_use]
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, ExitCode::Failed, message)
    }

    /// The command line is wrong in a way that parsing alone cannot see; exit code 64.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, ExitCode::Usage, message)
    }

    /// A signal, or the end of `--timeout`, came before anything was done; exit code 130.
    #[must_use]
    pub fn interrupted() -> Self {
        Self::new(Kind::World, ExitCode::Interrupted, "interrupted; nothing was done")
    }

    /// This program broke a promise of its own; exit code 1.
    #[must_use]
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Kind::Bug, ExitCode::Failed, message)
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds several causes, such as the problems of a file.
    #[must_use]
    pub fn causes(mut self, causes: impl IntoIterator<Item = String>) -> Self {
        self.causes.extend(causes);
        self
    }

    /// Adds an error and what is behind it. A text that the one before it already holds is left
    /// out, since libraries differ on whether an error repeats its source.
    #[must_use]
    pub fn source(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            let before = self.causes.last().unwrap_or(&self.message);
            if !text.is_empty() && !before.contains(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// How a command ends that could not write down what it came to: why it ended counts more.
    ///
    /// # Errors
    /// Either failure, the second one among the causes of the first.
    pub fn prefer(end: CommandResult, written: Result<(), Self>) -> CommandResult {
        match (end, written) {
            (end, Ok(())) => end,
            (Ok(ExitCode::Interrupted), Err(unwritten)) => Err(Self { exit: ExitCode::Interrupted, ..unwritten }),
            (Ok(_), Err(unwritten)) => Err(unwritten),
            (Err(failure), Err(unwritten)) => Err(failure.and(unwritten)),
        }
    }

    /// Adds another failure among the causes.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.cause(other.message).causes(other.causes)
    }

    /// Everything that is to be advised: the hints, and for a bug to report it.
    fn advice(&self) -> impl Iterator<Item = &str> {
        let report = (self.kind == Kind::Bug).then_some(REPORT_BUG);
        self.hints.iter().map(String::as_str).chain(report)
    }

    /// As people read it, with a line break at the end.
    #[must_use]
    pub fn text(&self, color: bool) -> String {
        let style = if color { level_style(tracing::Level::ERROR) } else { clap::builder::styling::Style::new() };
        let word = if self.kind == Kind::Bug { "internal error" } else { "error" };
        let mut out = String::new();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{style}{word}:{style:#} {}", indented(&self.message, 2));
        let numbered = self.causes.len() > 1;
        for (index, cause) in self.causes.iter().enumerate() {
            let _ = if numbered {
                let mark = format!("  {}: ", index.saturating_add(1));
                writeln!(out, "{mark}{}", indented(cause, mark.len()))
            } else {
                writeln!(out, "  {}", indented(cause, 2))
            };
        }
        for advice in self.advice() {
            let _ = writeln!(out, "hint: {}", indented(advice, 6));
        }
        out
    }

    /// As one JSON line.
    #[must_use]
    pub fn json(&self, run: &str) -> String {
        let hints: Vec<&str> = self.advice().collect();
        let fields: [(&str, Value); 4] = [
            ("kind", self.kind.as_str().into()),
            ("exit", self.exit.number().into()),
            ("causes", json!(self.causes)),
            ("hints", json!(hints)),
        ];
        line::json(Head { level: "error", message: &self.message, run }, &fields)
    }

    /// Writes it to stderr.
    pub fn print(&self, terminal: &Terminal) {
        line::to_stderr(&match terminal.format {
            LogFormat::Text => self.text(terminal.color_err),
            LogFormat::Json => self.json(&terminal.run),
        });
    }
}

/// Text fit for a terminal, with every line after the first moved in by `by`.
fn indented(text: &str, by: usize) -> String {
    line::printable(text.trim_end()).replace('\n', &format!("\n{}", " ".repeat(by)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn chain(texts: &[&'static str]) -> Layer {
        let (first, rest) = texts.split_first().expect("a text");
        Layer { text: first, source: (!rest.is_empty()).then(|| Box::new(chain(rest))) }
    }

    #[test]
    fn one_cause_is_indented_and_a_hint_follows() {
        let failure = Failure::world("the config cannot be read: fleet.yaml")
            .cause("permission denied")
            .hint("let the user of this process read it");
        assert_eq!(
            failure.text(false),
            "error: the config cannot be read: fleet.yaml\n  permission denied\nhint: let the user of this process \
             read it\n"
        );
    }

    #[test]
    fn several_causes_are_numbered_and_keep_their_lines_together() {
        let failure = Failure::input("2 problems").causes(["a.yaml:1:2: one\nsnippet".into(), "b.yaml: two".into()]);
        assert_eq!(failure.text(false), "error: 2 problems\n  1: a.yaml:1:2: one\n     snippet\n  2: b.yaml: two\n");
    }

    #[test]
    fn no_source_is_repeated() {
        let error = chain(&["dial failed: tcp refused", "tcp refused", "os error 111"]);
        let failure = Failure::world("the host is lost: dial failed: tcp refused").source(&error);
        assert_eq!(failure.causes, ["os error 111"]);
        let error = chain(&["dial failed", "tcp refused"]);
        assert_eq!(Failure::world("lost").source(&error).causes, ["dial failed", "tcp refused"]);
    }

    #[test]
    fn a_bug_says_so_and_asks_to_be_reported() {
        let failure = Failure::bug("the plan names a host twice");
        let text = failure.text(false);
        assert!(text.starts_with("internal error: the plan names a host twice\nhint: This is a bug in egress-plan"));
        assert!(text.contains("Please report it"), "{text}");
        assert_eq!(failure.exit, ExitCode::Failed);
    }

    #[test]
    fn an_interrupt_stays_one_when_its_report_cannot_be_written() {
        let unwritten = || Err(Failure::world("the report cannot be written"));
        let exit = |end| Failure::prefer(end, unwritten()).map_err(|failure| failure.exit);
        assert_eq!(exit(Ok(ExitCode::Interrupted)), Err(ExitCode::Interrupted));
        assert_eq!(exit(Ok(ExitCode::Incomplete)), Err(ExitCode::Failed));
    }

    #[test]
    fn l41_a_failure_is_one_json_object() {
        let failure = Failure::usage("no such host\nat all").cause("a \"b\"").hint("look");
        let line = failure.json("r1");
        assert_eq!(line.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&line).expect("parses");
        assert_eq!(value["level"], "error");
        assert_eq!(value["message"], "no such host\nat all");
        assert_eq!(value["exit"], 64);
        assert_eq!(value["kind"], "usage");
        assert_eq!(value["causes"], json!(["a \"b\""]));
        assert_eq!(value["hints"], json!(["look"]));
        assert_eq!(value["run"], "r1");
    }

    #[test]
    fn r39_escape_bytes_come_from_colour_alone() {
        let failure = Failure::world("x \u{1b}[31m").cause("\u{1b}]0;title\u{7}").hint("\u{1b}c");
        assert!(!failure.text(false).contains('\u{1b}'));
        assert!(failure.text(true).contains("\u{1b}["));
        assert_eq!(
            failure.text(true).matches('\u{1b}').count(),
            Failure::world("x").text(true).matches('\u{1b}').count()
        );
    }
}
