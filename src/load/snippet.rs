//! The line that a problem is on, as far as it may be shown.
//!
//! User-data, vendor-data and secrets never appear in a message (C03), and what a broken file holds
//! where is anybody's guess. So a line is shown only when two rules agree: it is not part of, or
//! below, anything that may hold a secret; and every key on it is one that manifests and configs
//! have. Of a line with another key, the key alone is shown, which the message names anyway.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::schema;
use crate::provider::document::Position;

/// Words, in lower case and without `-` and `_`, that mark a line as a holder of secrets.
const SECRET_WORDS: [&str; 4] = ["cloudinit", "userdata", "vendordata", "lastappliedconfiguration"];

/// The longest line that is shown.
const WIDTH: usize = 160;

/// Every field of manifests and configs.
static KNOWN: LazyLock<BTreeSet<String>> = LazyLock::new(schema::field_names);

/// A text's lines, and which of them may be shown.
pub(super) struct Lines<'a>(Vec<(&'a str, bool)>);

impl<'a> Lines<'a> {
    /// A line is hidden when it belongs to something that may hold a secret: any block scalar, any
    /// quoted text of several lines, and all that is indented below a secret's key.
    pub fn new(text: &'a str) -> Self {
        let mut below: Option<usize> = None;
        let mut quote: Option<char> = None;
        let mut lines = Vec::new();
        for line in text.lines() {
            let indent = line.chars().take_while(|c| c.is_whitespace()).count();
            if !line.trim().is_empty() && below.is_some_and(|outer| indent <= outer) {
                below = None;
            }
            let secret = holds_secret(line);
            lines.push((line, below.is_some() || quote.is_some() || secret));
            if below.is_none() {
                quote = open_quote(line, quote);
                if secret || begins_block(line) {
                    below = Some(indent);
                }
            }
        }
        Self(lines)
    }

    /// The line at `at` and a mark below its column; `None` when it may not be shown.
    pub fn show(&self, at: Position) -> Option<String> {
        let (line, hidden) = *self.0.get(at.line.checked_sub(1)?)?;
        if hidden {
            return None;
        }
        let shown = visible(line)?;
        if shown.chars().count() > WIDTH || shown.chars().any(char::is_control) {
            return None;
        }
        let number = at.line.to_string();
        let column = at.column.clamp(1, shown.chars().count().saturating_add(1));
        let (gutter, indent) = (" ".repeat(number.len()), " ".repeat(column.saturating_sub(1)));
        Some(format!(" {number} | {shown}\n {gutter} | {indent}^"))
    }
}

fn holds_secret(line: &str) -> bool {
    let squeezed: String = line.chars().filter(|c| !"-_".contains(*c)).collect::<String>().to_ascii_lowercase();
    let squeezed = squeezed.replace("cloudinitfrom", "");
    SECRET_WORDS.iter().any(|word| squeezed.contains(word))
}

/// Whether a literal or folded block begins at the end of the line.
fn begins_block(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let head = line.trim_end_matches(|c: char| c.is_ascii_digit() || "+-".contains(c));
    head.strip_suffix(['|', '>']).is_some_and(|before| before.ends_with([' ', '\t']) || before.is_empty())
}

/// The quote that is open after the line.
fn open_quote(line: &str, mut open: Option<char>) -> Option<char> {
    if open.is_none() && line.trim_start().starts_with('#') {
        return None;
    }
    let mut escaped = false;
    for c in line.chars() {
        match open {
            Some('"') if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(quote) if c == quote => open = None,
            None if c == '"' || c == '\'' => open = Some(c),
            _ => {}
        }
    }
    open
}

/// What may be shown of a line by its keys.
fn visible(line: &str) -> Option<String> {
    let keys = keys(line);
    let (first, end) = keys.first()?;
    if keys.iter().all(|(key, _)| KNOWN.contains(*key)) && !line.contains("://") && !line.contains('@') {
        return Some(line.trim_end().to_owned());
    }
    let plain = first.len() <= 40 && first.chars().all(|c| c.is_ascii_alphanumeric());
    if !plain {
        return None;
    }
    line.get(..*end).map(|key| format!("{key}: …"))
}

/// The keys of a line, each with the byte that follows it.
fn keys(line: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let bytes = line.as_bytes();
    for (colon, _) in line.match_indices(':') {
        let ends_key = bytes.get(colon.saturating_add(1)).is_none_or(|next| b" \t\r,}\"'".contains(next));
        let before = line.get(..colon).unwrap_or_default().trim_end();
        let word_end = before.trim_end_matches(['"', '\'']).len();
        let word = before.get(..word_end).unwrap_or_default();
        let start = word.rfind(|c: char| c.is_whitespace() || "{[,\"'?".contains(c)).map_or(0, |at| {
            at.saturating_add(word.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8))
        });
        if ends_key {
            found.push((word.get(start..).unwrap_or_default(), before.len()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_makes_it_fail(text in "[ a-z:|>'\"\\\\{}#\u{a0}\n\t-]{0,80}", line in 0_usize..9, column in 0_usize..90) {
            let shown = Lines::new(&text).show(Position { line, column });
            prop_assert!(shown.is_none_or(|shown| shown.lines().count() == 2));
        }

        #[test]
        fn c03_whatever_is_below_a_secret_stays_hidden(key in "cloud[_-]?[iI]nit|vendor[_-]?[dD]ata", rest in "[|>]?[ a-zA-Z:'\"-]{0,20}", body in "[a-z: ]{0,20}") {
            let text = format!("spec:\n  {key}: {rest}\n    {body}\n");
            let lines = Lines::new(&text);
            for line in [2, 3] {
                prop_assert_eq!(lines.show(Position { line, column: 1 }), None);
            }
        }
    }

    fn shown(text: &str, line: usize) -> Option<String> {
        Lines::new(text).show(Position { line, column: 1 }).and_then(|s| s.lines().next().map(str::to_owned))
    }

    #[test]
    fn a_line_of_known_fields_is_shown_with_its_column() {
        let text = "spec:\n  port: 0\n  placement: {zone: h1, image: x}\n";
        let at = Position { line: 2, column: 9 };
        assert_eq!(Lines::new(text).show(at).as_deref(), Some(" 2 |   port: 0\n   |         ^"));
        assert_eq!(shown(text, 3).as_deref(), Some(" 3 |   placement: {zone: h1, image: x}"));
    }

    #[test]
    fn of_an_unknown_field_the_name_alone_is_shown() {
        assert_eq!(shown("spec:\n  password: CANARY\n", 2).as_deref(), Some(" 2 |   password: …"));
        assert_eq!(shown("url: https://u:CANARY@a/x?CANARY\n", 1).as_deref(), Some(" 1 | url: …"));
    }

    #[test]
    fn c03_no_line_of_a_secret_is_shown() {
        let table: [(&str, usize); 13] = [
            ("cloudInit: CANARY\n", 1),
            ("cloudinit: |\n  port: CANARY\n", 2),
            ("cloud-init: |\n  port: CANARY\n", 2),
            ("cloudInit: |\n  a\n  port: CANARY\n port: CANARY\n", 4),
            ("cloudInt: |\n  port: CANARY\n", 2),
            ("cloudInt: >-\n\n  port: CANARY\n", 3),
            ("cloudInt: |2- # c\n  port: CANARY\n", 2),
            ("- cloudInit: CANARY\n  port: CANARY\n", 2),
            ("x: \"a\nport: CANARY\n\"\n", 2),
            ("x: 'a\n\nport: CANARY\n'\n", 3),
            ("  - echo CANARY\n", 1),
            ("{name: a, cloudInit: CANARY, port: 1}\n", 1),
            ("{\"name\": \"a\", \"vendorData\": \"CANARY\"}\n", 1),
        ];
        for (text, line) in table {
            assert!(shown(text, line).is_none(), "{text:?}: {:?}", shown(text, line));
        }
    }

    #[test]
    fn a_line_after_a_secret_is_shown_again() {
        let text = "spec:\n  cloudInit: |\n    a\n  port: 0\n";
        assert_eq!(shown(text, 4).as_deref(), Some(" 4 |   port: 0"));
        let text = "spec:\n  cloudInitFrom: {file: nowhere}\n";
        assert_eq!(shown(text, 2).as_deref(), Some(" 2 |   cloudInitFrom: {file: nowhere}"));
    }
}
