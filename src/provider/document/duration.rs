//! Durations as configs write them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// `90s`, `10m`, `1h30m`; a bare `0` is accepted, any other bare number is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurationText(pub Duration);

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration such as 90s, 10m or 1h30m")]
pub struct DurationError;

impl std::str::FromStr for DurationText {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let plain = |c: char| c.is_ascii_digit() || "hms".contains(c);
        if text.is_empty() || !text.chars().all(plain) {
            return Err(DurationError);
        }
        let span: jiff::SignedDuration = text.parse().map_err(|_| DurationError)?;
        Duration::try_from(span).map(Self).map_err(|_| DurationError)
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = DurationText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 90s, 10m or 1h30m")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DurationText, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<DurationText, E> {
        if number == 0 { Ok(DurationText(Duration::ZERO)) } else { Err(E::custom(DurationError)) }
    }
}

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration: 90s, 10m, 1h30m.",
            "anyOf": [
                {"type": "string", "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+(s|ms))?$", "minLength": 2},
                {"const": 0}
            ]
        })
    }
}

/// A duration as a config would write it: `1h 30m`, `90s` as `1m 30s`.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let span = jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX);
    format!("{span:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h30m", 5400), ("0s", 0), ("2h", 7200)] {
            assert_eq!(text.parse(), Ok(DurationText(Duration::from_secs(seconds))), "{text}");
        }
        for bad in ["", "90", "-1s", "1d", "1 h", "m", "PT1H", "1.5h", "99999999999999999999h"] {
            assert_eq!(bad.parse::<DurationText>(), Err(DurationError), "{bad:?}");
        }
    }
}
