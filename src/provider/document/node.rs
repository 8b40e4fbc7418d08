//! A document's values as a tree, each with its line and column.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Spanned};

use super::finding::Findings;
use super::located::Located;
use super::reader;

/// A line and a column, both from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Line, from 1; 0 stands for a file as a whole.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

impl Position {
    fn of(location: serde_saphyr::Location, lines_before: usize) -> Self {
        let line = usize::try_from(location.line()).unwrap_or(usize::MAX).max(1);
        let column = usize::try_from(location.column()).unwrap_or(usize::MAX).max(1);
        Self { line: line.saturating_add(lines_before), column }
    }
}

/// A value and where it is. It is not printed: any value may be a secret.
#[derive(Clone)]
pub struct Node {
    /// Where the value begins; an alias stands where it is used.
    pub at: Position,
    /// The value.
    pub value: Value,
}

/// What a node holds.
#[derive(Clone)]
pub enum Value {
    /// Nothing: `null`, `~`, or an empty place.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number; one beyond the type is held at its bound, which no field allows.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the text, keys that are given twice included.
    Map(Vec<Entry>),
}

/// A key of a mapping, and its value.
#[derive(Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key is.
    pub key_at: Position,
    /// The value.
    pub value: Node,
}

/// Text that is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where the parser stopped.
    pub at: Position,
    /// What is wrong. Says nothing of what the text holds.
    pub message: String,
}

/// How much a document may hold. The bounds stop a small text that its aliases blow up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most aliases.
    pub aliases: usize,
    /// The most values that aliases may repeat, all in all.
    pub repeated: usize,
    /// The most values.
    pub values: usize,
}

impl Limits {
    /// For one manifest.
    pub const MANIFEST: Self = Self { aliases: 64, repeated: 20_000, values: 100_000 };
    /// For a config, where hosts share settings by aliases.
    pub const CONFIG: Self = Self { aliases: 10_000, repeated: 50_000, values: 1_000_000 };
    /// How deep values may be nested.
    const DEPTH: usize = 64;
}

impl Node {
    /// Reads one document. `lines_before` lines of its file come before it. `None` when there is
    /// nothing but comments.
    ///
    /// # Errors
    /// Text that is not YAML, or more than `limits` allow.
    pub fn parse(text: &str, lines_before: usize, limits: Limits) -> Result<Option<Self>, Fault> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_aliases: limits.aliases,
                max_anchors: limits.aliases,
                max_events: limits.values,
                max_nodes: limits.values,
                max_depth: Limits::DEPTH,
            },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: limits.repeated,
            },
            // Both of two equal keys are wanted, to name their lines.
            duplicate_keys: DuplicateKeyPolicy::PassThrough,
            strict_booleans: true,
            with_snippet: false,
        };
        match serde_saphyr::from_str_with_options::<Self>(text, options) {
            Ok(mut node) => {
                node.shift(lines_before);
                Ok((!matches!(node.value, Value::Null)).then_some(node))
            }
            Err(error) => match innermost(&error) {
                Error::Eof { .. } if is_blank(text) => Ok(None),
                inner => Err(fault(inner, error.location(), lines_before)),
            },
        }
    }

    fn shift(&mut self, lines: usize) {
        self.at.line = self.at.line.saturating_add(lines);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.shift(lines)),
            Value::Map(entries) => {
                for entry in entries {
                    entry.key_at.line = entry.key_at.line.saturating_add(lines);
                    entry.value.shift(lines);
                }
            }
            _ => {}
        }
    }

    /// The value of a mapping's key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// The text, where the node is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Reads a struct from the tree. `path` is what the node itself is called. Every misfit is
    /// added to `findings`, and what does fit is there.
    pub fn read<T: for<'a> Deserialize<'a>>(&self, path: &str, findings: &mut Findings) -> Located<T> {
        reader::read(self, path, findings)
    }
}

/// Whether a text has nothing but comments, white space and document markers.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.strip_prefix("---").unwrap_or(line).trim();
        line.is_empty() || line == "..." || line.starts_with('#') || line.starts_with('%')
    })
}

fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// The parser's words, as far as they say nothing of what the text holds.
fn fault(error: &Error, location: Option<serde_saphyr::Location>, lines_before: usize) -> Fault {
    let message = match error {
        Error::ExternalMessage { msg, .. } => {
            format!("this is not YAML: {}", msg.split('\n').next().unwrap_or_default().trim())
        }
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "the document is too large once its aliases are followed; write it out, or make it smaller".to_owned()
        }
        Error::UnknownAnchor { .. } => "an alias (*name) has no anchor (&name) before it".to_owned(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias stands inside of its own anchor".to_owned(),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => "a merge key (<<) takes a mapping".to_owned(),
        Error::NullIntoString { .. } => "a mapping has a key without a name".to_owned(),
        Error::Eof { .. } => "this is not YAML: the text ends too early".to_owned(),
        _ => "this is not YAML that can be read here".to_owned(),
    };
    let at = match location {
        Some(location) if location.line() > 0 => Position::of(location, lines_before),
        _ => Position { line: lines_before.saturating_add(1), column: 1 },
    };
    Fault { at, message }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { at: Position::of(spanned.referenced, 0), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Int(i128::try_from(value).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value()?;
            entries.push(Entry { key: key.value, key_at: Position::of(key.referenced, 0), value });
        }
        Ok(Value::Map(entries))
    }
}
