//! From a file's bytes to its documents.
//!
//! A document is never lost in silence: what is not read is counted or an error, since a lost
//! manifest would make an orphan of its machine (C01).

use super::manifest::{API_GROUP, API_VERSION};
use crate::provider::document::{Fault, Finding, Limits, Node, Position, Severity, Value};
use crate::provider::libvirt::cloud_init::Content;

/// What a document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One proxy.
    Proxy,
    /// Several of one template.
    ProxySet,
}

/// A document that describes something of ours.
pub(super) struct Document {
    pub kind: Kind,
    pub node: Node,
    /// What its fields' paths begin with: empty, or `items[3]` within a list.
    pub path: String,
}

/// The documents of a file.
#[derive(Default)]
pub(super) struct Documents {
    pub ours: Vec<Document>,
    /// Documents of other kinds, by where they begin.
    pub skipped: Vec<(Position, String)>,
    /// Whether a list or a document of ours was there, even an empty list.
    pub recognised: bool,
    pub findings: Vec<Finding>,
}

/// Text of a file. A byte order mark is dropped.
///
/// # Errors
/// What is not UTF-8, with the place where it ceases to be.
pub(super) fn decode(bytes: &[u8]) -> Result<&str, Fault> {
    let start = Position { line: 1, column: 1 };
    let utf16 = bytes.starts_with(&[0xff, 0xfe])
        || bytes.starts_with(&[0xfe, 0xff])
        || matches!(bytes, [0, b, ..] | [b, 0, ..] if *b != 0);
    if utf16 {
        let message = "this file is UTF-16 text; save it as UTF-8".to_owned();
        return Err(Fault { at: start, message });
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let sound = bytes.get(..error.valid_up_to()).map(String::from_utf8_lossy).unwrap_or_default();
        let line = sound.matches('\n').count().saturating_add(1);
        let column = sound.rsplit('\n').next().unwrap_or_default().chars().count().saturating_add(1);
        Fault { at: Position { line, column }, message: "this file is not UTF-8 text; save it as UTF-8".to_owned() }
    })
}

/// A text's documents, each with the number of lines before it. A line that begins with `---`
/// always begins a document, within a block or quotes too (YAML 1.2.2, 9.1.2 and rule `c-forbidden`).
pub(super) fn split(text: &str) -> Vec<(usize, &str)> {
    let mut chunks = Vec::new();
    let (mut begin, mut begin_line, mut offset) = (0, 0, 0);
    for (line_number, line) in text.split_inclusive('\n').enumerate() {
        let marker = |mark: &str| {
            line.strip_prefix(mark).is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace))
        };
        let next = offset + line.len();
        if marker("---") && offset > begin {
            chunks.push((begin_line, text.get(begin..offset).unwrap_or_default()));
            (begin, begin_line) = (offset, line_number);
        } else if marker("...") {
            chunks.push((begin_line, text.get(begin..offset).unwrap_or_default()));
            (begin, begin_line) = (next, line_number + 1);
        }
        offset = next;
    }
    chunks.push((begin_line, text.get(begin..).unwrap_or_default()));
    chunks
}

/// Parses one document. A character that looks like a blank and is none is named, since the
/// parser's own complaint about it would puzzle (C01).
pub(super) fn parse(chunk: &str, lines_before: usize, limits: Limits) -> Result<Option<Node>, Fault> {
    let odd = || odd_indent(chunk, lines_before);
    match Node::parse(chunk, lines_before, limits) {
        Ok(Some(node)) if odd_key(&node) => Err(odd().unwrap_or(Fault {
            at: node.at,
            message: "a field's name holds a character that looks like a blank and is none".to_owned(),
        })),
        Ok(node) => Ok(node),
        Err(fault) => Err(odd().filter(|odd| odd.at.line <= fault.at.line).unwrap_or(fault)),
    }
}

fn is_odd_blank(c: char) -> bool {
    (c.is_whitespace() && !c.is_ascii()) || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

fn odd_key(node: &Node) -> bool {
    match &node.value {
        Value::Map(entries) => entries.iter().any(|entry| entry.key.chars().any(is_odd_blank) || odd_key(&entry.value)),
        Value::List(items) => items.iter().any(odd_key),
        _ => false,
    }
}

/// The first such character that stands before a line's first letter or before its colon.
fn odd_indent(chunk: &str, lines_before: usize) -> Option<Fault> {
    chunk.lines().enumerate().find_map(|(index, line)| {
        let head = line.split(':').next().unwrap_or_default();
        let (column, found) = head.chars().enumerate().find(|(_, c)| is_odd_blank(*c))?;
        let at = Position { line: lines_before + index + 1, column: column + 1 };
        let name = if found == '\u{a0}' { " (a no-break space)" } else { "" };
        let message = format!(
            "the character U+{:04X}{name} looks like a blank and is none; replace it by a blank",
            u32::from(found)
        );
        Some(Fault { at, message })
    })
}

/// Reads a file's documents. Faults of one hide nothing of the others.
pub(super) fn read(text: &str) -> Documents {
    let mut documents = Documents::default();
    // Cloud-init's own files often lie beside the manifests that name them. They are recognised as
    // cloud-init does it, unless they speak of our API all the same.
    if !text.contains(API_GROUP) && Content::recognise(text.as_bytes()).is_ok() {
        documents.skipped.push((Position { line: 1, column: 1 }, "cloud-init data".to_owned()));
        return documents;
    }
    for (lines_before, chunk) in split(text) {
        match parse(chunk, lines_before, Limits::MANIFEST) {
            Ok(Some(node)) => sort(node, String::new(), &mut documents),
            Ok(None) => {}
            Err(fault) => documents.error(fault.at, "", fault.message),
        }
    }
    documents
}

impl Documents {
    fn error(&mut self, at: Position, path: &str, message: impl Into<String>) {
        let (path, message) = (path.to_owned(), message.into());
        self.findings.push(Finding { at, path, message, severity: Severity::Error });
    }
}

/// Tells documents of ours from others, and opens lists.
fn sort(node: Node, path: String, documents: &mut Documents) {
    let at = node.at;
    if !matches!(node.value, Value::Map(_)) {
        documents.error(at, &path, "expected a mapping with apiVersion and kind");
        return;
    }
    let kind = node.get("kind").and_then(Node::text);
    let version = node.get("apiVersion").and_then(Node::text);
    let of_group = version.is_some_and(|version| version.split('/').next() == Some(API_GROUP));
    let list = kind == Some("List") || (of_group && matches!(kind, Some("ProxyList" | "ProxySetList")));
    if list {
        documents.recognised = true;
        let items = node.get("items").map(|items| items.value.clone());
        match items {
            Some(Value::List(items)) => {
                for (index, item) in items.into_iter().enumerate() {
                    let dot = if path.is_empty() { "" } else { "." };
                    sort(item, format!("{path}{dot}items[{index}]"), documents);
                }
            }
            Some(Value::Null) | None => documents.error(at, &path, "this list has no items; write items: [] for none"),
            Some(_) => documents.error(at, &path, "items: expected a list"),
        }
        return;
    }
    let ours = match kind {
        Some("Proxy") => Some(Kind::Proxy),
        Some("ProxySet") => Some(Kind::ProxySet),
        _ => None,
    };
    let field_at = |field: &str| node.get(field).map_or(at, |field| field.at);
    match (ours, version) {
        (Some(kind), Some(API_VERSION)) => {
            documents.recognised = true;
            documents.ours.push(Document { kind, node, path });
        }
        (_, Some(_)) if of_group && version != Some(API_VERSION) => {
            let message = format!("apiVersion: this version is not known here; use {API_VERSION}");
            documents.error(field_at("apiVersion"), &path, message);
        }
        (None, Some(_)) if of_group => {
            let message = match kind {
                Some(_) => "kind: this kind is not known here; expected Proxy or ProxySet",
                None => "kind: this field is required: Proxy or ProxySet",
            };
            documents.error(field_at("kind"), &path, message);
        }
        (Some(_), None) => {
            documents.error(at, &path, format!("apiVersion: this field is required: {API_VERSION}"));
        }
        _ => documents.skipped.push((at, kind_shown(kind))),
    }
}

fn kind_shown(kind: Option<&str>) -> String {
    match kind {
        Some(kind) if kind.len() <= 63 && kind.chars().all(|c| c.is_ascii_alphanumeric()) => format!("kind {kind}"),
        _ => "without a kind".to_owned(),
    }
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
