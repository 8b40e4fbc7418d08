//! A field with the place where it was read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use super::node::Position;

/// The name by which the reader recognises a [`Located`].
pub(super) const MARKER: &str = "egress_plan::Located";

/// Where a field is, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Line and column: of the value, or of the key when the value is a mapping or a list.
    pub position: Position,
    /// `hosts[0].bridge`; empty for the document as a whole.
    pub path: String,
}

impl Location {
    /// The document as a whole.
    #[must_use]
    pub fn root(position: Position) -> Self {
        Self { position, path: String::new() }
    }

    /// A field of this one at the same position: one that is missing, for example.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        Self { position: self.position, path: join(&self.path, name) }
    }
}

/// `path.name`, or `name` at the top.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A field's value with its place. A value that does not fit was reported when it was read, and is
/// absent here, so that the rest of the document is looked at all the same.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// The value, unless it did not fit.
    pub value: Option<T>,
    /// Where it is.
    pub at: Location,
}

impl<T> Located<T> {
    /// The value to look at.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(MARKER, LocatedVisitor(PhantomData))
    }
}

struct LocatedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LocatedVisitor<T> {
    type Value = Located<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with its place")
    }

    /// Value, line, column, path. An error of the first was reported by the reader already.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Located<T>, A::Error> {
        let value = seq.next_element().unwrap_or_default();
        let absent = || A::Error::custom("a place has a line, a column and a path");
        let line = seq.next_element()?.ok_or_else(absent)?;
        let column = seq.next_element()?.ok_or_else(absent)?;
        let path = seq.next_element()?.ok_or_else(absent)?;
        Ok(Located { value, at: Location { position: Position { line, column }, path } })
    }
}

/// In a schema a located value is the value.
impl<T: JsonSchema> JsonSchema for Located<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }
}

/// A field that is accepted and not looked at, such as what a cluster adds to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for Ignored {
    fn schema_name() -> Cow<'static, str> {
        "Ignored".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }

    fn inline_schema() -> bool {
        true
    }
}
