//! The refusals of a recorded host, with the codes and nearly the words that libvirt uses.

use super::super::calls::{CallError, code, part};

fn refusal(code: i32, domain: i32, message: impl Into<String>) -> CallError {
    CallError { code, domain, message: message.into(), dead: false, ended: None }
}

/// 55: the object is in the wrong state for what was asked.
pub(super) fn invalid(domain: i32, what: impl AsRef<str>) -> CallError {
    refusal(code::OPERATION_INVALID, domain, format!("Requested operation is not valid: {}", what.as_ref()))
}

/// 38: the host's kernel refused.
pub(super) fn system(domain: i32, what: impl Into<String>) -> CallError {
    refusal(code::SYSTEM_ERROR, domain, what)
}

/// 1: libvirt's name for what it has no name for.
pub(super) fn internal(domain: i32, what: impl AsRef<str>) -> CallError {
    refusal(code::INTERNAL_ERROR, domain, format!("internal error: {}", what.as_ref()))
}

/// 27: XML that is well-formed and lacks something.
pub(super) fn xml(domain: i32, what: impl AsRef<str>) -> CallError {
    refusal(code::XML_ERROR, domain, format!("XML error: {}", what.as_ref()))
}

/// 35: text that is no XML.
pub(super) fn malformed(domain: i32, what: impl Into<String>) -> CallError {
    refusal(code::XML_DETAIL, domain, what)
}

/// 67: the host cannot run it.
pub(super) fn unsupported(domain: i32, what: impl AsRef<str>) -> CallError {
    refusal(code::CONFIG_UNSUPPORTED, domain, format!("unsupported configuration: {}", what.as_ref()))
}

/// Any other refusal.
pub(super) fn other(code: i32, domain: i32, what: impl Into<String>) -> CallError {
    refusal(code, domain, what)
}

/// 50: the pool holds no volume of that name.
pub(super) fn no_volume(name: &str) -> CallError {
    refusal(
        code::NO_STORAGE_VOL,
        part::STORAGE,
        format!("Storage volume not found: no storage vol with matching name '{name}'"),
    )
}

/// What every call on a closed connection gets.
pub(super) fn closed() -> CallError {
    CallError { dead: true, ..internal(part::RPC, "client socket is closed") }
}

/// What a call gets whose connection ends while it waits for the answer.
pub(super) fn cut() -> CallError {
    CallError { dead: true, ..system(part::RPC, "End of file while reading data: Input/output error") }
}
