//! Providers: what turns a plan into machines, and hosts into observations.

pub mod error;
pub mod libvirt;
