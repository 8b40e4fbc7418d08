//! Amounts of space: what is kept free, and how far thin disks go.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Bytes of a GiB.
pub const GIB: u64 = 1 << 30;

/// Space of a pool that is never planned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolReserve {
    /// The larger of 5 GiB and 6 % of the pool.
    #[default]
    Usual,
    /// So many bytes.
    Bytes(u64),
    /// So many of a hundred of the pool.
    Percent(u64),
}

/// A text that is no reserve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a size such as 20GiB or 512MiB, or a percentage from 0% to 90%")]
pub struct ReserveError;

impl PoolReserve {
    /// The bytes to keep free of a pool of `capacity` bytes.
    #[must_use]
    pub fn bytes(self, capacity: u64) -> u64 {
        let percent = |share: u64| (capacity / 100).saturating_mul(share);
        match self {
            Self::Usual => percent(6).max(5 * GIB),
            Self::Bytes(bytes) => bytes,
            Self::Percent(share) => percent(share),
        }
    }
}

impl FromStr for PoolReserve {
    type Err = ReserveError;

    fn from_str(text: &str) -> Result<Self, ReserveError> {
        let units = [("KiB", 1_u64 << 10), ("MiB", 1 << 20), ("GiB", GIB), ("TiB", 1 << 40)];
        let number = |digits: &str| digits.trim_end().parse::<u64>().map_err(|_| ReserveError);
        if let Some(digits) = text.strip_suffix('%') {
            return match number(digits)? {
                share @ 0..=90 => Ok(Self::Percent(share)),
                _ => Err(ReserveError),
            };
        }
        for (unit, bytes) in units {
            if let Some(digits) = text.strip_suffix(unit) {
                return number(digits)?.checked_mul(bytes).map(Self::Bytes).ok_or(ReserveError);
            }
        }
        Err(ReserveError)
    }
}

impl<'de> Deserialize<'de> for PoolReserve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ReserveVisitor;

        impl Visitor<'_> for ReserveVisitor {
            type Value = PoolReserve;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 20GiB or 512MiB, or a percentage from 0% to 90%")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PoolReserve, E> {
                text.parse().map_err(E::custom)
            }

            /// A bare number is in GiB, as `diskSizeGb` is.
            fn visit_u64<E: Error>(self, number: u64) -> Result<PoolReserve, E> {
                number.checked_mul(GIB).map(PoolReserve::Bytes).ok_or_else(|| E::custom(ReserveError))
            }
        }
        deserializer.deserialize_any(ReserveVisitor)
    }
}

impl JsonSchema for PoolReserve {
    fn schema_name() -> Cow<'static, str> {
        "PoolReserve".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size such as 20GiB or 512MiB, a number of GiB, or a percentage of the pool such as 6%.",
            "anyOf": [
                {"type": "string", "pattern": "^[0-9]+ *(KiB|MiB|GiB|TiB|%)$"},
                {"type": "integer", "minimum": 0}
            ]
        })
    }
}

/// How far thin disks may be planned beyond the space there is: 1.0 to 100.0, to three places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overcommit {
    thousandths: u64,
}

impl Default for Overcommit {
    fn default() -> Self {
        Self { thousandths: 1000 }
    }
}

impl Overcommit {
    /// The bytes to set aside for a disk of `capacity` bytes.
    #[must_use]
    pub fn reserve(self, capacity: u64) -> u64 {
        let exact = u128::from(capacity) * 1000 / u128::from(self.thousandths.max(1));
        u64::try_from(exact).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for Overcommit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OvercommitVisitor;

        impl Visitor<'_> for OvercommitVisitor {
            type Value = Overcommit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 1.0 to 100.0")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Overcommit, E> {
                match number {
                    1..=100 => Ok(Overcommit { thousandths: number * 1000 }),
                    _ => Err(E::custom("expected a number from 1.0 to 100.0")),
                }
            }

            /// Through text, since that rounds to three places without a lossy conversion.
            fn visit_f64<E: Error>(self, number: f64) -> Result<Overcommit, E> {
                let thousandths = format!("{number:.3}").replace('.', "").parse();
                match thousandths {
                    Ok(thousandths @ 1000..=100_000) => Ok(Overcommit { thousandths }),
                    _ => Err(E::custom("expected a number from 1.0 to 100.0")),
                }
            }
        }
        deserializer.deserialize_any(OvercommitVisitor)
    }
}

impl JsonSchema for Overcommit {
    fn schema_name() -> Cow<'static, str> {
        "Overcommit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 1, "maximum": 100})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l28_a_reserve_is_a_size_or_a_share_of_the_pool() {
        assert_eq!(PoolReserve::Usual.bytes(1000 * GIB), 64_424_509_440);
        assert_eq!(PoolReserve::Usual.bytes(10 * GIB), 5 * GIB);
        for (text, bytes) in [("20GiB", 20 * GIB), ("512 MiB", GIB / 2), ("0GiB", 0), ("10%", 10 * GIB)] {
            assert_eq!(text.parse::<PoolReserve>().map(|r| r.bytes(100 * GIB)), Ok(bytes), "{text}");
        }
        for bad in ["", "20", "20GB", "-1GiB", "91%", "99999999999TiB"] {
            assert_eq!(bad.parse::<PoolReserve>(), Err(ReserveError), "{bad:?}");
        }
    }

    #[test]
    fn overcommitting_divides_what_is_set_aside() {
        assert_eq!(Overcommit::default().reserve(10 * GIB), 10 * GIB);
        assert_eq!(Overcommit { thousandths: 2500 }.reserve(10 * GIB), 4 * GIB);
        assert_eq!(Overcommit::default().reserve(u64::MAX), u64::MAX);
    }
}
