//! Sizes of machines.

use super::raw::RawMachineType;
use crate::provider::document::check::{REQUIRED, required, within};
use crate::provider::document::{Findings, Located};

/// A size of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineType {
    /// Virtual CPUs, 1 to 512.
    pub vcpus: u32,
    /// Memory in MiB, 64 to 4,194,304.
    pub memory_mib: u64,
}

impl MachineType {
    pub(super) fn read(raw: &Located<RawMachineType>, findings: &mut Findings) -> Option<Self> {
        let at = &raw.at;
        let raw = raw.get()?;
        let vcpus = required(raw.vcpus.as_ref(), at, "vcpus", REQUIRED, findings);
        let vcpus = vcpus.and_then(|field| within(field, 1..=512, findings));
        let memory_mib = required(raw.memory_mib.as_ref(), at, "memoryMiB", REQUIRED, findings);
        let memory_mib = memory_mib.and_then(|field| within(field, 64..=4_194_304, findings));
        Some(Self { vcpus: vcpus?, memory_mib: memory_mib? })
    }
}
