//! Checks that many fields share: bounds, and texts that parse.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::duration::{DurationText, show_duration};
use super::finding::Findings;
use super::located::{Located, Location};

/// The field, which has to be there; a missing one is reported where its owner is.
pub fn required<'a, T>(
    field: Option<&'a Located<T>>,
    owner: &Location,
    name: &str,
    message: &str,
    findings: &mut Findings,
) -> Option<&'a Located<T>> {
    if field.is_none() {
        findings.missing(owner, name, message);
    }
    field
}

/// What a field that is required and needs no more words says.
pub const REQUIRED: &str = "this field is required";

/// The number, when it is within `range`; what is not is reported.
pub fn within<N: TryFrom<i64>>(field: &Located<i64>, range: RangeInclusive<i64>, findings: &mut Findings) -> Option<N> {
    let number = *field.get()?;
    if !range.contains(&number) {
        findings.error(&field.at, format!("{number} is out of bounds; use {} to {}", range.start(), range.end()));
        return None;
    }
    N::try_from(number).ok()
}

/// The duration, when it is within `range`; what is not is reported.
pub fn lasting(
    field: &Located<DurationText>,
    range: RangeInclusive<Duration>,
    findings: &mut Findings,
) -> Option<Duration> {
    let DurationText(duration) = *field.get()?;
    if !range.contains(&duration) {
        findings.error(
            &field.at,
            format!(
                "{} is out of bounds; use {} to {}",
                show_duration(duration),
                show_duration(*range.start()),
                show_duration(*range.end())
            ),
        );
        return None;
    }
    Some(duration)
}

/// The text as what it parses to; a text that does not parse is reported in its type's own words.
pub fn parsed<T>(field: &Located<String>, findings: &mut Findings) -> Option<T>
where
    T: FromStr,
    T::Err: Display,
{
    match field.get()?.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            findings.error(&field.at, error.to_string());
            None
        }
    }
}

/// `known are a, b, c`, or that there are none: the end of a message about an unknown name.
pub fn known<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "none is defined".to_owned() } else { format!("known are {}", names.join(", ")) }
}

/// A text of a document as a message quotes it: short, and without control characters.
#[must_use]
pub fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}
