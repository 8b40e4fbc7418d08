//! A document: YAML or JSON text as a tree of values with positions, and the reading of plain
//! structs from it.
//!
//! A run reports every problem of every file in one go. A parser that hands values straight to a
//! struct stops at the first misfit, so text becomes a tree first, and a struct is read from the
//! tree field by field: a field that does not fit is found, and the rest is read all the same.
//! Depends on nothing of the crate. Never shows a value in a message, since any may be a secret.

pub mod check;
pub mod duration;
pub mod finding;
pub mod located;
pub mod node;
pub mod path;
mod reader;

pub use duration::DurationText;
pub use finding::{Finding, Findings, Severity};
pub use located::{Ignored, Located, Location};
pub use node::{Fault, Limits, Node, Position, Value};
pub use path::Folders;
