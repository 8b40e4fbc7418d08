//! The planner's rules, a file each subject.

mod guards;
mod held;
mod linting;
mod machines;
mod model;
mod moves;
mod properties;
mod room;
mod saving;
mod selecting;
mod unknown;
