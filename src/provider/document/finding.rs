//! What was found to be wrong with a document, and where.

use super::located::Location;
use super::node::Position;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is planned until it is mended.
    Error,
    /// The run goes on.
    Warning,
}

/// One problem of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where it is.
    pub at: Position,
    /// The field: `spec.placement.zone`; empty for the document as a whole.
    pub path: String,
    /// What is wrong, and what to do. Holds no secret.
    pub message: String,
    /// How bad it is.
    pub severity: Severity,
}

/// The problems of a document, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds an error.
    pub fn error(&mut self, at: &Location, message: impl Into<String>) {
        self.push(at, message.into(), Severity::Error);
    }

    /// Adds an error about a field of `at` that is not there.
    pub fn missing(&mut self, at: &Location, field: &str, message: impl Into<String>) {
        self.push(&at.field(field), message.into(), Severity::Error);
    }

    /// Adds a warning.
    pub fn warning(&mut self, at: &Location, message: impl Into<String>) {
        self.push(at, message.into(), Severity::Warning);
    }

    fn push(&mut self, at: &Location, message: String, severity: Severity) {
        self.0.push(Finding { at: at.position, path: at.path.clone(), message, severity });
    }

    /// Adds what was found elsewhere.
    pub fn extend(&mut self, more: impl IntoIterator<Item = Finding>) {
        self.0.extend(more);
    }

    /// Whether an error is among them.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// How many errors there are. A function that adds only its own can thus tell whether it did.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.0.iter().filter(|finding| finding.severity == Severity::Error).count()
    }

    /// All of them.
    #[must_use]
    pub fn into_vec(self) -> Vec<Finding> {
        self.0
    }

    /// All of them, to look at.
    #[must_use]
    pub fn as_slice(&self) -> &[Finding] {
        &self.0
    }
}
