//! The recorded host: a file that answers for a host, obeying the real rules.
//!
//! A lenient fake hides bugs, so each rule here was tried against a real daemon, and its refusals
//! carry the real codes. `file` is what is on disk, `world` what that becomes in memory, `link` the
//! way to it, `fault` what tests do to it, and `record` makes a file of a live host.
//!
//! It does no I/O but for reading and writing its file, draws nothing at random and reads no clock.
//! It depends on the seam (`calls`, `link`) and on nothing else of the provider.

mod config;
mod connection;
mod describe;
mod domain;
mod error;
mod fault;
mod file;
mod link;
mod metadata;
mod pool;
mod probe;
mod record;
mod scalar;
mod upload;
mod volume_xml;
mod world;
mod xml;

#[cfg(test)]
mod tests;

pub use describe::MARK_NAMESPACE;
pub use fault::{Called, Effect, OPEN, Point, Rule};
pub use file::{
    FORMAT, FileError, RecordedAddresses, RecordedDisk, RecordedDomain, RecordedHost, RecordedInterface,
    RecordedMetadata, RecordedNic, RecordedPool, RecordedVolume, Unreachable,
};
pub use link::RecordedLink;
pub use record::record;
pub use scalar::{Bytes, DomainState, DomainXml, ElementXml, FileMode, NotADomain, ScalarError, Version};
pub use world::World;
