//! A problem of a file, with its place and a glimpse of the source.

use std::fmt;

use super::snippet::Lines;
use crate::provider::document::{Finding, Position, Severity};

/// One problem of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was given; `stdin` for `-`.
    pub file: String,
    /// Line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The field, what is wrong with it, and what to do. Holds no secret.
    pub message: String,
    /// The line, with a mark below; absent where the line may hold a secret (C03).
    pub snippet: Option<String>,
    /// How bad it is.
    pub severity: Severity,
}

impl Problem {
    /// An error of a file as a whole.
    #[must_use]
    pub fn of_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
            message: message.into(),
            snippet: None,
            severity: Severity::Error,
        }
    }

    /// An error at a place of the file whose lines are given.
    pub(super) fn at(file: &str, lines: &Lines<'_>, at: Position, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: at.line,
            column: at.column,
            message: message.into(),
            snippet: lines.show(at),
            severity: Severity::Error,
        }
    }

    /// A finding in the file whose lines are given.
    pub(super) fn of_finding(file: &str, lines: &Lines<'_>, finding: &Finding) -> Self {
        let message = match finding.path.as_str() {
            "" => finding.message.clone(),
            path => format!("{path}: {}", finding.message),
        };
        Self { severity: finding.severity, ..Self::at(file, lines, finding.at, message) }
    }

    /// `file:line:column`, or the file alone.
    #[must_use]
    pub fn place(&self) -> String {
        place(&self.file, Position { line: self.line, column: self.column })
    }
}

/// `file:line:column`, or the file alone for a file as a whole.
#[must_use]
pub fn place(file: &str, at: Position) -> String {
    let file: String = file.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if at.line == 0 { file } else { format!("{file}:{}:{}", at.line, at.column) }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.severity == Severity::Warning { "warning: " } else { "" };
        write!(f, "{}: {kind}{}", self.place(), self.message)?;
        if let Some(snippet) = &self.snippet {
            write!(f, "\n{snippet}")?;
        }
        Ok(())
    }
}

/// All problems of a load, sorted by file, line and column. While there are any, nothing is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Sorts the problems; the same problem found twice is one.
    #[must_use]
    pub fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| (&a.file, a.line, a.column, &a.message).cmp(&(&b.file, b.line, b.column, &b.message)));
        problems.dedup();
        Self(problems)
    }

    /// The problems.
    #[must_use]
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }

    /// Whether an error is among them.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The problems, to keep.
    #[must_use]
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
