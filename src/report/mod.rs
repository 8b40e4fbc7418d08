//! Everything that is shown or written, from plain data.
//!
//! Depends on `plan`, on the types of `provider` and on the outcome and the events of `apply`.
//! Reads no host and decides nothing. Functions return text or write to what they are given; only
//! [`progress`] owns a terminal. Text from anywhere may hold control characters, so all of it passes
//! through [`words::line`] on its way out.

pub mod check;
pub mod document;
#[cfg(test)]
mod fixture;
pub mod human;
pub mod images;
pub mod inventory;
pub mod json;
pub mod markdown;
pub mod progress;
pub mod prune;
pub mod status;
pub mod style;
mod table;
pub mod words;

pub use document::{HostFigures, Memory, Report, ReportInput, RunInfo, RunResult};
pub use inventory::Inventory;
pub use progress::Progress;
pub use style::Style;
