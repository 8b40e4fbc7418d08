//! The pure heart: what is wanted and what is there go in, what to do comes out.
//!
//! Nothing here does I/O, reads a clock, draws a random number or waits; `clippy.toml` sees to it.
//! This module depends on no other of the crate.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod change;
pub mod desired;
mod draft;
mod existing;
pub mod fingerprint;
#[cfg(test)]
mod fixture;
mod guard;
mod hold;
pub mod lint;
pub mod name;
pub mod observed;
mod orphan;
mod planner;
pub mod policy;
pub mod reason;
mod room;
pub mod saved;
pub mod selection;
pub mod selector;
mod static_address;
#[cfg(test)]
mod tests;
mod units;
mod wanted;
mod withhold;

pub use change::{
    Action, ActionId, ActionKind, Counts, Expect, Guard, Held, HostSummary, ImageAction, Make, MarkUpdate, Plan,
    Refusal, Verdict,
};
pub use desired::{Desired, HostSettings, ImageNeed, MachineSpec, Managed, Mode, Network, Proxy, Resolved, UserData};
pub use fingerprint::Fingerprint;
pub use name::{HostRef, Label, NameError, ProxyKey};
pub use observed::{
    Address, BaseImage, HostState, HostTrouble, HostView, Instance, Leftover, LockHolder, Mark, MarkState, Observed,
    Power, Standing, Store,
};
pub use planner::plan;
pub use policy::{Bound, OnCatalogueChange, Policy};
pub use reason::Reason;
pub use selection::{Selection, Target, TargetError};
pub use selector::{LabelSelector, SelectorError};
