//! Reads structs from a tree of values, and reports every misfit on the way.

use std::cell::RefCell;
use std::fmt::Display;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};

use super::finding::{Finding, Findings, Severity};
use super::located::{Located, Location, MARKER, join};
use super::node::{Entry, Node, Position, Value};

/// Why a value does not fit. Shows no value.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Misfit {
    message: String,
    /// The value is absent rather than unfit; the caller says so where it matters.
    at: Option<(Position, String)>,
}

impl serde::de::Error for Misfit {
    fn custom<T: Display>(message: T) -> Self {
        Self { message: message.to_string(), at: None }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format!("expected {expected}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format!("expected {expected}"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("expected {}", expected.join(" or ")))
    }
}

/// See [`Node::read`].
pub(super) fn read<T: for<'a> Deserialize<'a>>(node: &Node, path: &str, findings: &mut Findings) -> Located<T> {
    let found = RefCell::new(Vec::new());
    let reader = Reader { node, at: node.at, path: path.to_owned(), found: &found };
    let value = match T::deserialize(reader.clone()) {
        Ok(value) => Some(value),
        Err(misfit) => {
            reader.report(misfit);
            None
        }
    };
    let at = Location { position: node.at, path: path.to_owned() };
    findings.extend(found.into_inner());
    Located { value, at }
}

#[derive(Clone)]
struct Reader<'a> {
    node: &'a Node,
    /// Where problems of this value are shown.
    at: Position,
    path: String,
    found: &'a RefCell<Vec<Finding>>,
}

impl<'a> Reader<'a> {
    fn push(&self, at: Position, path: String, message: String) {
        self.found.borrow_mut().push(Finding { at, path, message, severity: Severity::Error });
    }

    fn report(&self, misfit: Misfit) {
        let (at, path) = misfit.at.unwrap_or_else(|| (self.at, self.path.clone()));
        self.push(at, path, misfit.message);
    }

    fn misfit(&self, expected: &str) -> Misfit {
        let found = match &self.node.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        };
        let quote = match (&self.node.value, expected) {
            (Value::Bool(_) | Value::Int(_) | Value::Float(_), "text") => "; put it in quotes",
            _ => "",
        };
        Misfit { message: format!("expected {expected}, found {found}{quote}"), at: Some((self.at, self.path.clone())) }
    }

    fn child(&self, entry: &'a Entry) -> Self {
        // What is too long for its key's line is found by its key.
        let long = matches!(entry.value.value, Value::Map(_) | Value::List(_) | Value::Null);
        let at = if long || entry.value.at.line != entry.key_at.line { entry.key_at } else { entry.value.at };
        Self { node: &entry.value, at, path: join(&self.path, &shown(&entry.key)), found: self.found }
    }

    fn entries(&self) -> Result<&'a [Entry], Misfit> {
        match &self.node.value {
            Value::Map(entries) => Ok(entries),
            _ => Err(self.misfit("a mapping")),
        }
    }

    /// The entries without those that repeat a key, which are reported.
    fn unique(&self) -> Result<Vec<&'a Entry>, Misfit> {
        let mut kept: Vec<&'a Entry> = Vec::new();
        for entry in self.entries()? {
            match kept.iter().find(|other| other.key == entry.key) {
                Some(first) => self.push(
                    entry.key_at,
                    join(&self.path, &shown(&entry.key)),
                    format!("this field is given twice, first on line {}; leave one", first.key_at.line),
                ),
                None => kept.push(entry),
            }
        }
        Ok(kept)
    }

    fn unknown(&self, entry: &Entry, fields: &'static [&'static str]) {
        let odd = entry.key.chars().find(|c| !c.is_ascii_graphic());
        let message = if let Some(odd) = odd {
            format!("unknown field; its name holds the character U+{:04X}, which is no plain letter", u32::from(odd))
        } else {
            let lower = entry.key.to_ascii_lowercase();
            let same = fields.iter().find(|field| field.to_ascii_lowercase() == lower).copied();
            let near = || similar::get_close_matches(entry.key.as_str(), fields, 1, 0.7).first().copied();
            match same.or_else(near) {
                Some(field) => format!("unknown field; did you mean {field}?"),
                None => format!("unknown field; known here are {}", fields.join(", ")),
            }
        };
        self.push(entry.key_at, join(&self.path, &shown(&entry.key)), message);
    }
}

/// A key as it may be shown: what does not look like a field's name may be a line of somebody's
/// user-data that lost its indentation.
fn shown(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !key.is_empty() && key.len() <= 63 && key.chars().all(plain) { key.to_owned() } else { "(key)".to_owned() }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
            match self.node.value {
                Value::Int(number) => match (u64::try_from(number), i64::try_from(number)) {
                    (Ok(number), _) => visitor.visit_u64(number),
                    (_, Ok(number)) => visitor.visit_i64(number),
                    _ => Err(Misfit::custom("this number is too large")),
                },
                _ => Err(self.misfit("a whole number")),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Misfit;

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(_) => self.deserialize_i64(visitor),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.node.value {
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.misfit("true or false")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match &self.node.value {
            Value::Text(value) => visitor.visit_borrowed_str(value),
            _ => Err(self.misfit("text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        if name == MARKER {
            visitor.visit_seq(Parts { reader: self, next: 0 })
        } else {
            visitor.visit_newtype_struct(self)
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match &self.node.value {
            Value::List(items) => visitor.visit_seq(Items { reader: &self, items: items.iter().enumerate() }),
            _ => Err(self.misfit("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let entries = self.unique()?;
        visitor.visit_map(Fields { reader: &self, entries: entries.into_iter(), value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let mut known = Vec::new();
        for entry in self.unique()? {
            if fields.contains(&entry.key.as_str()) {
                known.push(entry);
            } else {
                self.unknown(entry, fields);
            }
        }
        visitor.visit_map(Fields { reader: &self, entries: known.into_iter(), value: None })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match &self.node.value {
            Value::Text(value) => {
                let variant: StrDeserializer<'_, Misfit> = value.as_str().into_deserializer();
                visitor.visit_enum(variant)
            }
            _ => Err(self.misfit(&variants.join(" or "))),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

/// The parts of a [`Located`]: value, line, column, path.
struct Parts<'a> {
    reader: Reader<'a>,
    next: u8,
}

impl<'de> SeqAccess<'de> for Parts<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        self.next += 1;
        match self.next {
            1 => match seed.deserialize(self.reader.clone()) {
                Ok(value) => Ok(Some(value)),
                Err(misfit) => {
                    self.reader.report(misfit);
                    Err(Misfit::custom("reported"))
                }
            },
            2 => seed.deserialize(self.reader.at.line.into_deserializer()).map(Some),
            3 => seed.deserialize(self.reader.at.column.into_deserializer()).map(Some),
            4 => seed.deserialize(self.reader.path.as_str().into_deserializer()).map(Some),
            _ => Ok(None),
        }
    }
}

struct Items<'r, 'a> {
    reader: &'r Reader<'a>,
    items: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        let Some((index, node)) = self.items.next() else { return Ok(None) };
        let path = format!("{}[{index}]", self.reader.path);
        seed.deserialize(Reader { node, at: node.at, path, found: self.reader.found }).map(Some)
    }
}

struct Fields<'r, 'a> {
    reader: &'r Reader<'a>,
    entries: std::vec::IntoIter<&'a Entry>,
    value: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        self.value = self.entries.next();
        match self.value {
            Some(entry) => seed.deserialize(entry.key.as_str().into_deserializer()).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let entry = self.value.take().ok_or_else(|| Misfit::custom("a value was asked for before its key"))?;
        let child = self.reader.child(entry);
        seed.deserialize(child.clone())
            .map_err(|misfit| Misfit { at: Some(misfit.at.unwrap_or((child.at, child.path))), message: misfit.message })
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
