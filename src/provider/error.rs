//! What can go wrong with a host, classified once, where it arises.

use crate::plan::Reason;

/// What a failure means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// It fails again until somebody changes something: no retry.
    Permanent,
    /// Too little space or too many instances: blocked, and the next run tries again.
    Quota,
    /// The world is not what the plan saw: nothing was done.
    Changed,
    /// The run was interrupted.
    Cancelled,
    /// This program broke a promise of its own: no retry, and the run says so.
    Bug,
    /// Everything else: a bounded retry, then failed.
    Transient,
}

impl Class {
    /// The class as reports spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Quota => "quota",
            Self::Changed => "changed",
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
            Self::Transient => "transient",
        }
    }
}

/// A failure of a provider: what was tried on what, why it failed, and what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{operation}{}{object}: {message}", if object.is_empty() { "" } else { " " })]
pub struct ProviderError {
    /// What it means for the run.
    pub class: Class,
    /// The reason in reports and conditions.
    pub reason: Reason,
    /// What was tried: `define the domain`.
    pub operation: &'static str,
    /// On what: a domain's, volume's or host's name. May be empty.
    pub object: String,
    /// What came back, cut and cleaned.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ProviderError {
    /// A failure without a hint.
    #[must_use]
    pub fn new(
        class: Class,
        reason: Reason,
        operation: &'static str,
        object: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { class, reason, operation, object: object.into(), message: clean(&message.into()), hint: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The most characters of remote text that are shown or stored (L42).
pub const REMOTE_TEXT_MAX: usize = 400;

/// Remote text fit to be shown and stored: control characters become spaces, runs of white space
/// one space, and what is longer than [`REMOTE_TEXT_MAX`] is cut.
#[must_use]
pub fn clean(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty());
    let mut out = String::new();
    let mut count = 0_usize;
    for word in words {
        for c in (!out.is_empty()).then_some(' ').into_iter().chain(word.chars()) {
            if count == REMOTE_TEXT_MAX {
                out.push('…');
                return out;
            }
            out.push(c);
            count += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l42_remote_text_is_cut_and_cleaned() {
        let shown = clean(&format!("a\u{1b}[31m\r\n\tb{}", "x".repeat(5_000_000)));
        assert!(shown.starts_with("a [31m b"), "{shown}");
        assert_eq!(shown.chars().count(), REMOTE_TEXT_MAX + 1);
    }
}
