//! The plan and its outcome for people. Calm: what is as wanted is only counted, and what needs
//! nobody says so.

mod outcome;
mod plan;

pub use outcome::{outcome, summary};
pub use plan::{last_line, plan};

use super::style::{Ink, Style};
use super::words;
use crate::plan::{ActionKind, Guard};

/// The sign of an action in the margin.
#[must_use]
pub fn sign(kind: &ActionKind) -> &'static str {
    match kind {
        ActionKind::Create { .. } => "+",
        ActionKind::Start { .. } => ">",
        ActionKind::Update { .. } => "~",
        ActionKind::Replace { .. } => "-/+",
        ActionKind::Delete { .. } => "-",
    }
}

fn ink(kind: &ActionKind) -> Ink {
    match kind {
        ActionKind::Create { .. } | ActionKind::Start { .. } => Ink::Good,
        ActionKind::Update { .. } | ActionKind::Replace { .. } => Ink::Change,
        ActionKind::Delete { .. } => Ink::Bad,
    }
}

/// The guard's name as the config and reports spell it.
#[must_use]
pub fn guard_name(guard: Guard) -> &'static str {
    match guard {
        Guard::EmptySet => "emptySet",
        Guard::MaxDeletions => "maxDeletions",
        Guard::FleetRenamed => "fleetRenamed",
        Guard::Vanished => "vanished",
    }
}

/// Lines of text under way: each is cleaned, and ends without trailing spaces.
struct Page {
    style: Style,
    text: String,
}

impl Page {
    fn new(style: Style) -> Self {
        Self { style, text: String::new() }
    }

    /// A line that is painted already; what it was made from went through [`words::line`].
    fn painted(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    /// A line of plain text behind `indent` spaces.
    fn plain(&mut self, indent: usize, text: &str) {
        let text = words::line(text);
        if !text.is_empty() {
            self.painted(&format!("{:indent$}{text}", ""));
        }
    }

    fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// `text` filled up with spaces to `width`, then painted, so that colour moves no column.
    fn cell(&self, ink: Ink, text: &str, width: usize) -> String {
        let fill = width.saturating_sub(text.chars().count());
        format!("{}{:fill$}", self.style.paint(ink, text), "")
    }
}

/// The width of a first column: that of its widest entry, within half of the page.
fn column<'a>(style: Style, names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0).min(style.width / 2)
}

#[cfg(test)]
mod tests;
