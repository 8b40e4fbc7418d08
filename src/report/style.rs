//! How text for people may look. Without colour no escape byte is ever written (R39).

/// What the reader's terminal can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences for colour may be written.
    pub colour: bool,
    /// Columns of the terminal. It bounds how wide the first column of a list may grow; text is
    /// never broken or cut by it, since printed commands are there to be copied.
    pub width: usize,
}

impl Style {
    /// No colour, 100 columns: for files, pipes and tests.
    pub const PLAIN: Self = Self { colour: false, width: 100 };

    /// `text` in `ink`, or `text` alone where there is no colour.
    #[must_use]
    pub fn paint(self, ink: Ink, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code()) } else { text.to_owned() }
    }
}

/// The few ways in which text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Something comes, or is well.
    Good,
    /// Something changes, or waits.
    Change,
    /// Something goes, or is wrong.
    Bad,
    /// A heading.
    Strong,
    /// Of less weight than the rest.
    Faint,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Change => "33",
            Self::Bad => "31",
            Self::Strong => "1",
            Self::Faint => "2",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r39_without_colour_no_escape_byte_is_written() {
        for ink in [Ink::Good, Ink::Change, Ink::Bad, Ink::Strong, Ink::Faint] {
            assert_eq!(Style::PLAIN.paint(ink, "text"), "text");
            assert!(Style { colour: true, width: 80 }.paint(ink, "text").contains('\u{1b}'));
        }
    }
}
