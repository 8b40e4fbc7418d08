//! Values that flags take: formats, choices and durations.

use std::time::Duration;

use clap::ValueEnum;
use jiff::SignedDuration;
use jiff::fmt::friendly::SpanParser;

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How messages on stderr are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// For people.
    Human,
    /// The plan as JSON.
    Json,
    /// For a pull request comment or a step summary.
    Markdown,
}

/// How a table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// For people.
    Human,
    /// As JSON.
    Json,
}

/// The formats of an inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InventoryFormat {
    /// Everything that is known of each proxy.
    Json,
    /// One address and port a line.
    List,
    /// Targets for Prometheus.
    #[value(name = "file_sd")]
    FileSd,
    /// `cache_peer` lines for a Squid in front of the fleet.
    SquidPeers,
}

/// How far an apply waits for a machine that it made or started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// Not at all.
    None,
    /// Until the host says that it runs.
    Running,
    /// Until it has an address.
    Address,
}

/// The longest duration that a flag takes.
pub const LONGEST: Duration = Duration::from_hours(7 * 24);

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It does not read as one.
    #[error("expected a duration such as 90s, 10m or 1h30m")]
    Shape,
    /// It is below zero.
    #[error("a duration may not be negative")]
    Negative,
    /// It is zero where that makes no sense.
    #[error("a duration of zero makes no sense here")]
    Zero,
    /// It is longer than [`LONGEST`].
    #[error("a duration may be at most 168h")]
    TooLong,
}

/// Reads a duration from zero to [`LONGEST`].
///
/// # Errors
/// When `text` is no duration, or out of bounds.
pub fn duration(text: &str) -> Result<Duration, DurationError> {
    let parsed: SignedDuration = SpanParser::new().parse_duration(text).map_err(|_| DurationError::Shape)?;
    if parsed.is_negative() {
        return Err(DurationError::Negative);
    }
    let duration = Duration::try_from(parsed).map_err(|_| DurationError::Negative)?;
    if duration > LONGEST {
        return Err(DurationError::TooLong);
    }
    Ok(duration)
}

/// Reads a duration from above zero to [`LONGEST`].
///
/// # Errors
/// When `text` is no duration, or out of bounds.
pub fn positive_duration(text: &str) -> Result<Duration, DurationError> {
    match duration(text) {
        Ok(Duration::ZERO) => Err(DurationError::Zero),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_people_write_it() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("10m", 600), ("1h30m", 5_400), ("168h", 604_800)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for (text, error) in [
            ("", DurationError::Shape),
            ("10", DurationError::Shape),
            ("soon", DurationError::Shape),
            ("1mo", DurationError::Shape),
            ("-5s", DurationError::Negative),
            ("5s ago", DurationError::Negative),
            ("169h", DurationError::TooLong),
            ("99999999999999999999h", DurationError::Shape),
        ] {
            assert_eq!(duration(text), Err(error), "{text:?}");
        }
        assert_eq!(positive_duration("0s"), Err(DurationError::Zero));
    }
}
