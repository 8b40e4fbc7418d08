//! The libvirt provider: machines on KVM hosts that are reached over SSH.

pub mod host;
