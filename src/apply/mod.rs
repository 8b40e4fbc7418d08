//! Carries a plan out. Decides nothing: the plan has.

pub mod event;
mod execute;
pub mod lock;
pub mod outcome;
mod schedule;
mod step;

pub use event::{Event, Listener, Subject};
pub use execute::{Stop, Wait, execute};
pub use outcome::{ActionOutcome, Failure, ImageOutcome, NotStarted, Outcome, StageTime, StepResult};
pub use schedule::Limits;
