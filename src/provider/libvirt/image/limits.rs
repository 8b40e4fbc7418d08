//! The budgets of a download.

use std::time::Duration;

/// Bounds of a download. None means "infinite" nowhere (L43).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For a connection to be made, TLS included.
    pub connect: Duration,
    /// Without a byte.
    pub stall: Duration,
    /// For the whole of it: every attempt and every pause.
    pub total: Duration,
    /// How often a download is tried, the first time included.
    pub attempts: u32,
    /// The first pause between two attempts; each later one is about twice as long.
    pub pause: Duration,
    /// The longest pause, and the longest that a server's `Retry-After` is heeded.
    pub longest_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            total: Duration::from_mins(20),
            attempts: 5,
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
        }
    }
}
