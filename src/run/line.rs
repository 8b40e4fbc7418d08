//! Lines on stderr: text made fit for a terminal, and JSON with a fixed head.
//!
//! Everything that goes to stderr goes through here, so that no remote text can move a cursor and,
//! with `--log-format json`, every line parses.

use std::fmt::Write as _;
use std::io::Write as _;

use jiff::Timestamp;
use serde::Serializer as _;
use serde_json::Value;

/// `text` without control characters: line breaks and tabs are kept, everything else that could
/// steer a terminal becomes U+FFFD.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// The head that every JSON line has.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// `error`, `warn`, `info`, `debug`, `trace`.
    pub level: &'a str,
    /// The constant sentence.
    pub message: &'a str,
    /// Id of the run.
    pub run: &'a str,
}

/// Names that fields of an event cannot take, since the head has them.
const RESERVED: [&str; 4] = ["ts", "level", "message", "run"];

/// One JSON object and a line break. Fields follow the head in the order given; one that bears a
/// name of the head's is left out.
#[must_use]
pub fn json(head: Head<'_>, fields: &[(&str, Value)]) -> String {
    let start = [
        ("ts", Value::from(Timestamp::now().to_string())),
        ("level", head.level.into()),
        ("message", head.message.into()),
        ("run", head.run.into()),
    ];
    let rest = fields.iter().filter(|(name, _)| !RESERVED.contains(name));
    let entries = start.iter().chain(rest).map(|(name, value)| (name, value));
    let mut bytes = Vec::new();
    // Strings, numbers and their lists always serialise, and writing to memory cannot fail.
    let _ = serde_json::Serializer::new(&mut bytes).collect_map(entries);
    let mut line = String::with_capacity(bytes.len().saturating_add(1));
    for c in String::from_utf8_lossy(&bytes).chars() {
        if c.is_control() {
            // JSON itself asks for this below U+0020 alone, but DEL and the C1 range steer terminals
            // too. None of them occurs outside of strings. Writing to a String cannot fail.
            let _ = write!(line, "\\u{:04x}", u32::from(c));
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    line
}

/// Writes whole lines to stderr at once. A closed stderr is nobody's problem.
pub fn to_stderr(lines: &str) {
    let _ = std::io::stderr().lock().write_all(lines.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r39_text_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\r\n\tc\u{9b}d\u{7}"), "a\u{fffd}[31mb\u{fffd}\n\tc\u{fffd}d\u{fffd}");
    }

    #[test]
    fn l41_a_line_is_one_object_with_its_head_first() {
        let head = Head { level: "warn", message: "two\nlines", run: "r1" };
        let line = json(head, &[("host", "h\u{1b}\u{9b}1".into()), ("level", "mine".into()), ("n", 3.into())]);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(!line.trim_end().contains(char::is_control), "{line}");
        let value: Value = serde_json::from_str(&line).expect("parses");
        assert_eq!(value["message"], "two\nlines");
        assert_eq!(value["level"], "warn");
        assert_eq!(value["host"], "h\u{1b}\u{9b}1");
        assert_eq!(value["n"], 3);
        assert!(value["ts"].as_str().is_some_and(|ts| ts.parse::<Timestamp>().is_ok()), "{line}");
        assert!(line.starts_with("{\"ts\":"), "{line}");
    }
}
