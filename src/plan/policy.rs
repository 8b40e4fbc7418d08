//! What the config allows a run to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::name::{HostRef, ProxyKey};
use super::selection::Selection;

/// `policy:` of the config, with what the command line adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Whether orphans are deleted.
    pub prune: bool,
    /// No orphan younger than this is deleted.
    pub min_age: SignedDuration,
    /// More deletions than this refuse the plan.
    pub max_deletions: Bound,
    /// Whether an empty set of manifests may delete.
    pub allow_empty: bool,
    /// How many replaced machines may be not ready at a time.
    pub max_unavailable: Bound,
    /// What a changed catalogue means.
    pub on_catalogue_change: OnCatalogueChange,
    /// `--new-fleet`: it is meant that this fleet has nothing yet.
    pub new_fleet: bool,
    /// `--take-over`: orphans of another source are accepted once.
    pub take_over: bool,
    /// The plan is a `destroy`: approved deletions are not counted.
    pub destroy: bool,
    /// `--replace`: machines that a person asked to have made anew.
    pub replace: BTreeSet<ProxyKey>,
    /// What actions are withheld from.
    pub selection: Selection,
    /// Instances that were there before, by host, as far as that is known.
    pub previously: BTreeMap<HostRef, BTreeSet<String>>,
    /// Whether a plan is refused when most of them are gone.
    pub guard_vanished: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            prune: true,
            min_age: SignedDuration::from_mins(10),
            max_deletions: Bound::Percent(20),
            allow_empty: false,
            max_unavailable: Bound::Count(1),
            on_catalogue_change: OnCatalogueChange::Ignore,
            new_fleet: false,
            take_over: false,
            destroy: false,
            replace: BTreeSet::new(),
            selection: Selection::default(),
            previously: BTreeMap::new(),
            guard_vanished: false,
        }
    }
}

/// What to do when the config resolves the same keys to something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnCatalogueChange {
    /// Say so, change nothing.
    #[default]
    Ignore,
    /// Replace the machine.
    Replace,
}

/// `N` or `N%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Bound {
    /// So many.
    Count(u32),
    /// So many of a hundred, 0 to 100.
    Percent(u32),
}

/// A text that is neither `N` nor `N%`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a count such as 3, or a percentage from 0% to 100%")]
pub struct BoundError;

impl FromStr for Bound {
    type Err = BoundError;

    fn from_str(text: &str) -> Result<Self, BoundError> {
        match text.strip_suffix('%') {
            Some(number) => match number.parse() {
                Ok(percent @ 0..=100) => Ok(Self::Percent(percent)),
                _ => Err(BoundError),
            },
            None => text.parse().map(Self::Count).map_err(|_| BoundError),
        }
    }
}

impl TryFrom<String> for Bound {
    type Error = BoundError;

    fn try_from(text: String) -> Result<Self, BoundError> {
        text.parse()
    }
}

impl From<Bound> for String {
    fn from(bound: Bound) -> Self {
        bound.to_string()
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Bound {
    /// The bound as a count out of `total`, rounded down.
    #[must_use]
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Self::Percent(percent) => total.saturating_mul(usize::try_from(percent).unwrap_or(100)) / 100,
        }
    }
}

impl Policy {
    /// How many machines may be not ready while others are replaced, out of `total` that are wanted.
    /// A percentage allows at least one, since a small fleet could never be replaced otherwise; a
    /// count means what it says, and 0 replaces nothing.
    #[must_use]
    pub fn unavailable_of(&self, total: usize) -> usize {
        match self.max_unavailable {
            Bound::Count(_) => self.max_unavailable.of(total),
            Bound::Percent(_) => self.max_unavailable.of(total).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_of_a_small_fleet_still_replaces_one_at_a_time() {
        for (bound, total, expected) in
            [("10%", 3, 1), ("50%", 9, 4), ("0%", 3, 1), ("0", 3, 0), ("2", 3, 2), ("100%", 0, 1)]
        {
            let policy = Policy { max_unavailable: bound.parse().expect("a bound"), ..Policy::default() };
            assert_eq!(policy.unavailable_of(total), expected, "{bound} of {total}");
        }
    }

    #[test]
    fn a_bound_is_a_count_or_a_percentage() {
        assert_eq!("3".parse(), Ok(Bound::Count(3)));
        assert_eq!("20%".parse(), Ok(Bound::Percent(20)));
        for bad in ["", "%", "101%", "-1", "1.5", "3 %"] {
            assert_eq!(bad.parse::<Bound>(), Err(BoundError), "{bad:?}");
        }
        assert_eq!(Bound::Percent(20).of(9), 1);
        assert_eq!(Bound::Count(3).of(1), 3);
    }
}
