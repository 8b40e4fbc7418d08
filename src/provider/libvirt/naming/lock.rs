//! Names of lock volumes: `egress-plan-<fleet>.lock-<ttl seconds>-<run id>-<n>`.
//!
//! A lock says all there is to say in its name, since a listing shows nothing else. Depends on the
//! core's names alone; who holds a lock is decided elsewhere.

use std::fmt;

use super::decimal;
use crate::plan::Label;

const PREFIX: &str = "egress-plan-";
const LOCK: &str = ".lock-";

/// The id of a run: 16 lower-case letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Characters of an id.
    pub const LENGTH: usize = 16;

    /// Checks `text`; `None` when it is not an id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == Self::LENGTH && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        fits.then(|| Self(text.to_owned()))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a lock volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName {
    /// The fleet that is locked.
    pub fleet: Label,
    /// How long the volume holds the lock from its making, by the host's clock.
    pub ttl_seconds: u32,
    /// The run that made it.
    pub run: RunId,
    /// Counts the run's renewals.
    pub n: u32,
}

impl LockName {
    /// Reads a volume's name; `None` unless it is exactly of the form of a lock.
    #[must_use]
    pub fn parse(volume: &str) -> Option<Self> {
        let (fleet, rest) = volume.strip_prefix(PREFIX)?.split_once(LOCK)?;
        let mut parts = rest.split('-');
        let (ttl, run, n) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self { fleet: fleet.parse().ok()?, ttl_seconds: decimal(ttl)?, run: RunId::parse(run)?, n: decimal(n)? })
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{LOCK}{}-{}-{}", self.fleet, self.ttl_seconds, self.run, self.n)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::label;
    use super::*;

    #[test]
    fn names_that_only_resemble_a_lock_are_not_one() {
        assert!(LockName::parse("egress-plan-f.lock-300-0123456789abcdef-1").is_some());
        for bad in [
            "egress-plan-f.lock-0300-0123456789abcdef-1",
            "egress-plan-f.lock-+300-0123456789abcdef-1",
            "egress-plan-f.lock-300-0123456789abcde-1",
            "egress-plan-f.lock-300-0123456789ABCDEF-1",
            "egress-plan-f.lock-300-0123456789abcdef",
            "egress-plan-f.lock-300-0123456789abcdef-1-2",
            "egress-plan-.lock-300-0123456789abcdef-1",
            "egress-plan-F.lock-300-0123456789abcdef-1",
            "egress-plan-f.lock-99999999999-0123456789abcdef-1",
            "egress-plan-f.lock-300-0123456789abcdef-1.raw",
        ] {
            assert_eq!(LockName::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_lock_is_read_as_it_was_written(fleet in label(40), ttl_seconds in 0_u32.., run in "[a-z0-9]{16}", n in 0_u32..) {
            let lock = LockName { fleet: fleet.parse().unwrap(), ttl_seconds, run: RunId::parse(&run).unwrap(), n };
            prop_assert_eq!(LockName::parse(&lock.to_string()), Some(lock));
        }
    }
}
