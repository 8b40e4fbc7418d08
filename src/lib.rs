//! `egress-plan` keeps a fleet of egress proxy machines equal to what a Git repository says.
//!
//! Five nouns carry everything: [`plan::Desired`], [`plan::Observed`], [`plan::Policy`],
//! [`plan::Plan`] and the outcome of a run. A manifest becomes a machine in this order: `load`
//! reads text, `plan` compares it with what the providers observed, `apply` carries the plan out
//! through a provider, `report` tells of it. `run` holds one file a command and is the only place
//! that sees all of them. `docs/ARCHITECTURE.md` reads on.

pub mod apply;
pub mod cli;
pub mod cluster;
pub mod load;
pub mod plan;
pub mod provider;
pub mod report;
pub mod run;
