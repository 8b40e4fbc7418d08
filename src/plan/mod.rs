//! The pure heart: what is wanted and what is there go in, what to do comes out.
//!
//! Nothing here does I/O, reads a clock, draws a random number or waits; `clippy.toml` sees to it.
//! This module depends on no other of the crate.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod change;
pub mod desired;
pub mod fingerprint;
pub mod name;
pub mod observed;
pub mod policy;
pub mod reason;

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
pub use policy::{Bound, OnCatalogueChange, Policy};
pub use reason::Reason;
