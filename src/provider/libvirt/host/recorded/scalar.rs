//! The small values of a recorded host's file, in the spelling that a person would write.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::calls::state;
use super::config::DomainConfig;
use super::xml::Element;

/// Why a value of the file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not {expected}")]
pub struct ScalarError {
    found: String,
    expected: &'static str,
}

/// Implements text in and out for a type that has `FromStr` and `Display`.
macro_rules! as_text {
    ($type:ty, $pattern:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}

/// A version as libvirt counts it: `11.6.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// `major * 1,000,000 + minor * 1,000 + release`.
    pub number: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number } = self;
        write!(f, "{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000)
    }
}

impl FromStr for Version {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let refused = || ScalarError { found: text.to_owned(), expected: "a version of three numbers, such as 11.6.0" };
        let parts = text.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>().map_err(|_| refused())?;
        match parts.as_slice() {
            &[major, minor, release] if major < 1_000_000 && minor < 1_000 && release < 1_000 => {
                Ok(Self { number: major * 1_000_000 + minor * 1_000 + release })
            }
            _ => Err(refused()),
        }
    }
}

as_text!(Version, r"^\d+\.\d{1,3}\.\d{1,3}$");

/// Permission bits, written in octal: `0600`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FromStr for FileMode {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        u32::from_str_radix(text, 8)
            .ok()
            .filter(|mode| *mode <= 0o7777)
            .map(Self)
            .ok_or_else(|| ScalarError { found: text.to_owned(), expected: "a mode in octal, such as '0600'" })
    }
}

as_text!(FileMode, r"^[0-7]{1,5}$");

/// A domain's state by libvirt's name for it, or its number where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainState(pub i32);

const STATES: [(&str, i32); 8] = [
    ("nostate", state::NOSTATE),
    ("running", state::RUNNING),
    ("blocked", state::BLOCKED),
    ("paused", state::PAUSED),
    ("shutdown", state::SHUTDOWN),
    ("shutoff", state::SHUTOFF),
    ("crashed", state::CRASHED),
    ("pmsuspended", state::PMSUSPENDED),
];

impl fmt::Display for DomainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match STATES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for DomainState {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let named = STATES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
        named.or_else(|| text.parse().ok()).map(Self).ok_or_else(|| ScalarError {
            found: text.to_owned(),
            expected: "a state: running, paused, shutoff, …, or a number",
        })
    }
}

as_text!(DomainState, r"^(nostate|running|blocked|paused|shutdown|shutoff|crashed|pmsuspended|\d+)$");

/// A number of bytes, written as a number or as `10 GiB`; KiB, MiB, GiB and TiB are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl Bytes {
    /// The text without its unit, where it is a whole number of one of at least a MiB.
    fn in_unit(self) -> Option<(u64, &'static str)> {
        UNITS
            .iter()
            .filter(|(_, shift)| *shift >= 20)
            .find(|(_, shift)| self.0 != 0 && self.0.trailing_zeros() >= *shift)
            .map(|(unit, shift)| (self.0 >> shift, *unit))
    }
}

impl FromStr for Bytes {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let refused = || ScalarError { found: text.to_owned(), expected: "a number of bytes, such as 4096 or 10 GiB" };
        let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
        let (number, shift) = unit.unwrap_or((text, 0));
        let number: u64 = number.trim().parse().map_err(|_| refused())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(refused)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.in_unit() {
            Some((number, unit)) => serializer.collect_str(&format_args!("{number} {unit}")),
            None => serializer.serialize_u64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, such as 4096 or 10 GiB")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Bytes, E> {
                Ok(Bytes(number))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Bytes, E> {
                u64::try_from(number).map(Bytes).map_err(E::custom)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^\d+ ?(KiB|MiB|GiB|TiB)?$"}
        ]})
    }
}

/// Why a text is not a domain's XML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not the XML of a domain: {message}")]
pub struct NotADomain {
    message: String,
}

/// A domain's XML, known to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainXml(pub(super) DomainConfig);

impl fmt::Display for DomainXml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_xml())
    }
}

impl FromStr for DomainXml {
    type Err = NotADomain;

    fn from_str(text: &str) -> Result<Self, NotADomain> {
        DomainConfig::parse(text).map(Self).map_err(|refusal| NotADomain { message: refusal.message })
    }
}

as_text!(DomainXml, r"^\s*<");

/// An element of XML, known to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementXml(pub(super) Element);

impl fmt::Display for ElementXml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.write())
    }
}

impl FromStr for ElementXml {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        // The text is not repeated: nobody knows what is in it.
        let refused = |_| ScalarError { found: "the text".to_owned(), expected: "one XML element" };
        Element::parse(text).map(Self).map_err(refused)
    }
}

as_text!(ElementXml, r"^\s*<");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written_in_one_spelling() {
        for text in ["11.6.0", "9.0.0", "10.10.2"] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), text);
        }
        assert_eq!("11.6.0".parse::<Version>().unwrap().number, 11_006_000);
        for text in ["running", "pmsuspended", "42"] {
            assert_eq!(text.parse::<DomainState>().unwrap().to_string(), text);
        }
        assert_eq!("600".parse::<FileMode>().unwrap().to_string(), "0600");
        for (text, bytes) in [("4096", 4096), ("10 GiB", 10 << 30), ("1KiB", 1024), ("2 TiB", 2 << 40)] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_such_value_is_refused() {
        for text in ["11.6", "11.1000.0", "a.b.c", ""] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        for text in ["on", "running "] {
            assert!(text.parse::<DomainState>().is_err(), "{text}");
        }
        for text in ["rw-", "0800", "10000"] {
            assert!(text.parse::<FileMode>().is_err(), "{text}");
        }
        for text in ["-1", "10 GB", "99999999 TiB", "GiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
