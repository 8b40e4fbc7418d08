//! What an error of libvirt means for the run: the one table of classes, reasons and remedies.
//!
//! Nothing that is not listed here is permanent, and nothing permanent is retried.

use super::host::calls::{CallError, Ended, code, part};
use crate::plan::Reason;
use crate::provider::error::{Class, ProviderError};

/// Turns the failure of a call into a failure of the operation that made it.
pub(super) fn classify(operation: &'static str, object: &str, error: &CallError) -> ProviderError {
    let (class, reason, hint) = verdict(error);
    let mut failure = ProviderError::new(class, reason, operation, object, error.message.clone());
    failure.hint = hint.map(str::to_owned).or_else(|| start_pool(reason, &error.message));
    if error.ended == Some(Ended::Budget) {
        failure.message = format!("no answer within the call's budget ({})", failure.message);
    }
    failure
}

/// The command that starts the pool that `storage pool 'default' is not active` names.
fn start_pool(reason: Reason, message: &str) -> Option<String> {
    let pool = message.split('\'').nth(1).filter(|_| reason == Reason::PoolNotActive)?;
    Some(format!("virsh -c qemu:///system pool-start {pool}"))
}

/// Class, reason and remedy of an error.
fn verdict(error: &CallError) -> (Class, Reason, Option<&'static str>) {
    let text = error.message.as_str();
    match error.ended {
        Some(Ended::Cancelled) => return (Class::Cancelled, Reason::Interrupted, None),
        Some(Ended::Budget) => return (Class::Transient, Reason::Timeout, None),
        None => {}
    }
    if error.dead {
        return (Class::Transient, Reason::Unreachable, Some("the link to the host died; the next run looks again"));
    }
    match error.code {
        code::OPERATION_DENIED
        | code::AUTH_FAILED
        | code::AUTH_CANCELLED
        | code::ACCESS_DENIED
        | code::AUTH_UNAVAILABLE => (
            Class::Permanent,
            Reason::Forbidden,
            Some("the SSH user must be a member of the group libvirt, or polkit must allow it org.libvirt.unix.manage"),
        ),
        code::XML_ERROR | code::XML_DETAIL | code::INVALID_ARG => (Class::Permanent, Reason::PermanentError, None),
        code::NO_SUPPORT | code::OPERATION_UNSUPPORTED => (
            Class::Permanent,
            Reason::VersionUnsupported,
            Some("the host's libvirt lacks a call that is needed; 7.2 or later has it"),
        ),
        code::RPC if text.contains("unknown procedure") => (
            Class::Permanent,
            Reason::VersionUnsupported,
            Some("the host's libvirt lacks a call that is needed; 7.2 or later has it"),
        ),
        code::CONFIG_UNSUPPORTED | code::CPU_INCOMPATIBLE => (
            Class::Permanent,
            Reason::VirtualizationUnavailable,
            Some("the host cannot run such a machine; look at hosts[].domainType and hosts[].cpu in the config"),
        ),
        code::NO_STORAGE_POOL => (
            Class::Permanent,
            Reason::PoolNotFound,
            Some("virsh -c qemu:///system pool-list --all shows the pools of the host"),
        ),
        // Where "gone" is the answer that was hoped for, the caller looks at the code first.
        code::NO_DOMAIN | code::NO_STORAGE_VOL => (Class::Transient, Reason::APIError, None),
        code::OPERATION_INVALID if text.contains("pool") && text.contains("not active") => {
            (Class::Permanent, Reason::PoolNotActive, None)
        }
        // Making a qcow2 volume on a full pool comes back as an internal error with qemu-img's text.
        code::SYSTEM_ERROR | code::INTERNAL_ERROR if text.contains("No space left on device") => {
            (Class::Quota, Reason::QuotaExceeded, Some("free space in the pool, or make it larger"))
        }
        code::SYSTEM_ERROR if text.contains("Cannot get interface MTU") => (
            Class::Transient,
            Reason::BridgeNotFound,
            Some("ip link on the host shows its bridges; hosts[].bridge names the one to use"),
        ),
        code::OPERATION_FAILED if text.contains("firmware") => (
            Class::Transient,
            Reason::FirmwareNotFound,
            Some("install the OVMF package on the host, or set firmware: bios for the image"),
        ),
        code::INTERNAL_ERROR if error.domain == part::QEMU && text.contains("MSR 0x10a") => (
            Class::Permanent,
            Reason::VirtualizationUnavailable,
            Some("add cpu: {disable: [arch-capabilities]} to the host in the config"),
        ),
        // QEMU's own words when it cannot open a file, or libvirt's when it tried as QEMU's user before.
        code::INTERNAL_ERROR if text.contains("Permission denied") => may_not_open(),
        code::SYSTEM_ERROR if text.contains("storage file") && text.contains("Permission denied") => may_not_open(),
        _ => (Class::Transient, Reason::TransientError, None),
    }
}

/// Whether a volume's file is in the pool's folder already and the pool knows nothing of it.
pub(super) fn is_unseen_file(error: &CallError) -> bool {
    error.code == code::OPERATION_INVALID && error.message.contains("already exists")
}

/// A file of a machine that the host's rules keep from QEMU.
fn may_not_open() -> (Class, Reason, Option<&'static str>) {
    (
        Class::Transient,
        Reason::APIError,
        Some(
            "QEMU may not open a file: each part of the pool's path needs to be readable by its user, and AppArmor or SELinux must know the path",
        ),
    )
}

/// Whether the pool was busy with another client's job (R9): it is free again in a moment.
pub(super) fn is_busy_pool(error: &CallError) -> bool {
    error.code == code::INTERNAL_ERROR && error.message.contains("asynchronous jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32, domain: i32, message: &str) -> CallError {
        CallError { code, domain, message: message.to_owned(), dead: false, ended: None }
    }

    #[test]
    fn l40_each_known_error_has_its_class_and_reason() {
        let table = [
            (29, 10, "read only", Class::Permanent, Reason::Forbidden),
            (45, 7, "denied", Class::Permanent, Reason::Forbidden),
            (94, 60, "no polkit agent", Class::Permanent, Reason::Forbidden),
            (35, 20, "xml", Class::Permanent, Reason::PermanentError),
            (27, 20, "xml", Class::Permanent, Reason::PermanentError),
            (8, 20, "flags", Class::Permanent, Reason::PermanentError),
            (3, 10, "no", Class::Permanent, Reason::VersionUnsupported),
            (39, 7, "unknown procedure: 400", Class::Permanent, Reason::VersionUnsupported),
            (39, 7, "too big", Class::Transient, Reason::TransientError),
            (67, 10, "machine", Class::Permanent, Reason::VirtualizationUnavailable),
            (91, 31, "cpu", Class::Permanent, Reason::VirtualizationUnavailable),
            (49, 18, "no pool", Class::Permanent, Reason::PoolNotFound),
            (42, 10, "no domain", Class::Transient, Reason::APIError),
            (50, 18, "no vol", Class::Transient, Reason::APIError),
            (55, 18, "storage pool 'p' is not active", Class::Permanent, Reason::PoolNotActive),
            (38, 18, "cannot write: No space left on device", Class::Quota, Reason::QuotaExceeded),
            (1, 0, "unexpected exit status 1: qemu-img: No space left on device", Class::Quota, Reason::QuotaExceeded),
            (38, 0, "Cannot get interface MTU on 'br9': No such device", Class::Transient, Reason::BridgeNotFound),
            (9, 10, "Unable to find any firmware to satisfy 'efi'", Class::Transient, Reason::FirmwareNotFound),
            (1, 10, "failed to set MSR 0x10a", Class::Permanent, Reason::VirtualizationUnavailable),
            (1, 18, "pool 'p' has asynchronous jobs running.", Class::Transient, Reason::TransientError),
            (1, 10, "Could not open '/p/d.qcow2': Permission denied", Class::Transient, Reason::APIError),
            (
                38,
                18,
                "Cannot access storage file '/p/d.qcow2' (as uid:64055, gid:108): Permission denied",
                Class::Transient,
                Reason::APIError,
            ),
            (38, 7, "Failed to connect socket: Permission denied", Class::Transient, Reason::TransientError),
            (9999, 9999, "whatever", Class::Transient, Reason::TransientError),
        ];
        for (code, domain, text, class, reason) in table {
            let failure = classify("try", "it", &error(code, domain, text));
            assert_eq!((failure.class, failure.reason), (class, reason), "{code}/{domain} {text}");
        }
    }

    #[test]
    fn r11_a_file_that_qemu_may_not_open_is_told_with_what_may_keep_it_from_it() {
        for (code, text) in [
            (1, "qemu unexpectedly closed the monitor: Could not open '/p/d.qcow2': Permission denied"),
            (38, "Cannot access storage file '/p/d.qcow2' (as uid:64055, gid:108): Permission denied"),
        ] {
            let hint = classify("start", "d", &error(code, 10, text)).hint.unwrap_or_default();
            assert!(hint.contains("AppArmor") && hint.contains("pool's path"), "{text}: {hint}");
        }
        let other = classify("list", "", &error(38, 7, "Failed to connect socket: Permission denied"));
        assert_eq!(other.hint, None, "it is about no file of a machine");
    }

    #[test]
    fn c06_a_stopped_pool_is_told_with_the_command_that_starts_it() {
        let failure = classify("list", "", &error(55, 18, "storage pool 'fast' is not active"));
        assert_eq!(failure.hint.as_deref(), Some("virsh -c qemu:///system pool-start fast"));
        assert_eq!(classify("list", "", &error(55, 10, "domain 'd' is not active")).hint, None);
    }

    #[test]
    fn a_lost_connection_is_transient() {
        let lost = CallError { dead: true, ..error(38, 7, "End of file while reading data") };
        let failure = classify("start", "d", &lost);
        assert_eq!(failure.class, Class::Transient);
        assert_eq!(failure.reason, Reason::Unreachable);
    }
}
