//! How long calls may take.

use std::time::Duration;

use super::raw::RawBudgets;
use crate::provider::document::check::lasting;
use crate::provider::document::{DurationText, Findings, Located};

/// The budgets of calls to a host. Every one ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// TCP, SSH and libvirt handshakes together.
    pub dial: Duration,
    /// An ordinary call. libvirt itself waits 30 s for a busy domain.
    pub call: Duration,
    /// Start of a domain.
    pub start: Duration,
    /// Upload of up to 16 MiB.
    pub small_upload: Duration,
    /// Download of an image.
    pub image_download: Duration,
    /// Upload of an image.
    pub image_upload: Duration,
    /// A transfer without a byte.
    pub transfer_idle: Duration,
    /// Until a started domain runs.
    pub wait_running: Duration,
    /// Between two SSH keepalives. A silent host is dead after four of them.
    pub keepalive: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            dial: Duration::from_secs(10),
            call: Duration::from_secs(45),
            start: Duration::from_secs(90),
            small_upload: Duration::from_mins(1),
            image_download: Duration::from_mins(20),
            image_upload: Duration::from_mins(20),
            transfer_idle: Duration::from_secs(30),
            wait_running: Duration::from_secs(15),
            keepalive: Duration::from_secs(7),
        }
    }
}

impl Budgets {
    /// Reads the block; what is out of bounds is reported, and what is not given has its default.
    pub(super) fn read(raw: Option<&Located<RawBudgets>>, findings: &mut Findings) -> Self {
        let mut budgets = Self::default();
        let Some(raw) = raw.and_then(Located::get) else { return budgets };
        let table: [(&Option<Located<DurationText>>, &mut Duration, u64, u64); 9] = [
            (&raw.dial, &mut budgets.dial, 1, 120),
            (&raw.call, &mut budgets.call, 5, 600),
            (&raw.start, &mut budgets.start, 5, 900),
            (&raw.small_upload, &mut budgets.small_upload, 5, 900),
            (&raw.image_download, &mut budgets.image_download, 10, 86_400),
            (&raw.image_upload, &mut budgets.image_upload, 10, 86_400),
            (&raw.transfer_idle, &mut budgets.transfer_idle, 1, 600),
            (&raw.wait_running, &mut budgets.wait_running, 1, 600),
            (&raw.keepalive, &mut budgets.keepalive, 1, 60),
        ];
        for (field, budget, least, most) in table {
            let range = Duration::from_secs(least)..=Duration::from_secs(most);
            if let Some(given) = field.as_ref().and_then(|field| lasting(field, range, findings)) {
                *budget = given;
            }
        }
        budgets
    }
}
