//! The few calls of the C library that the `virt` crate does not wrap, or wraps wrongly.
//!
//! The crate's `Domain::state` never fails, its bulk statistics cannot be read, its address listing
//! leaks, and it has no agent timeout. Everything unsafe of this program is in this file. Functions
//! here make one call each and copy what it returns before they free it.

#![expect(unsafe_code, reason = "these calls of the C library have no sound wrapper in the crate")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr;

use uuid::Uuid;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::Error;
use virt_sys as sys;

/// Bulk figures of one domain, by the names that libvirt gives them.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The domain's UUID.
    pub uuid: Uuid,
    /// Numbers: `state.state`, `block.count`, `block.0.capacity`…
    pub numbers: BTreeMap<String, u64>,
    /// Texts: `block.0.path`…
    pub texts: BTreeMap<String, String>,
}

/// One interface: its MAC, where it has one, and its addresses as text.
pub type Interface = (Option<String>, Vec<String>);

/// State and reason of a domain.
pub fn domain_state(domain: &Domain) -> Result<(i32, i32), Error> {
    let (mut state, mut reason): (c_int, c_int) = (0, 0);
    // SAFETY: the handle is alive for the call, and both pointers lead to integers of this frame.
    let outcome = unsafe { sys::virDomainGetState(domain.as_ptr(), &raw mut state, &raw mut reason, 0) };
    if outcome < 0 { Err(Error::last_error()) } else { Ok((state, reason)) }
}

/// How long the guest agent may take for one answer, in seconds.
pub fn set_agent_timeout(domain: &Domain, seconds: i32) -> Result<(), Error> {
    // SAFETY: the handle is alive for the call; the rest are plain numbers.
    let outcome = unsafe { sys::virDomainAgentSetResponseTimeout(domain.as_ptr(), seconds, 0) };
    if outcome < 0 { Err(Error::last_error()) } else { Ok(()) }
}

/// State and block figures of all domains. A domain that is busy with a job is not waited for: it
/// comes with its state, and its disks may lack their figures.
pub fn all_figures(connect: &Connect) -> Result<Vec<Figures>, Error> {
    let mut records: *mut sys::virDomainStatsRecordPtr = ptr::null_mut();
    let wanted = sys::VIR_DOMAIN_STATS_STATE | sys::VIR_DOMAIN_STATS_BLOCK;
    let flags = sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT;
    // SAFETY: the handle is alive for the call, and `records` leads to a pointer of this frame.
    let count = unsafe { sys::virConnectGetAllDomainStats(connect.as_ptr(), wanted, &raw mut records, flags) };
    let Ok(count) = usize::try_from(count) else { return Err(Error::last_error()) };
    if records.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the call succeeded, so it set `records` to an array of `count` pointers, each to a
    // record that stays valid until the list is freed below.
    let figures = unsafe {
        std::slice::from_raw_parts(records, count)
            .iter()
            .filter(|record| !record.is_null())
            .map(|record| read_record(&**record))
            .collect()
    };
    // SAFETY: the list is the library's, is freed once, and nothing copied points into it.
    unsafe { sys::virDomainStatsRecordListFree(records) };
    Ok(figures)
}

/// # Safety
/// The record is one that the library returned and has not freed.
unsafe fn read_record(record: &sys::virDomainStatsRecord) -> Figures {
    let mut bytes = [0_u8; 16];
    // SAFETY: the record holds a domain, and the buffer has the 16 bytes of a UUID.
    unsafe { sys::virDomainGetUUID(record.dom, bytes.as_mut_ptr()) };
    let mut figures = Figures { uuid: Uuid::from_bytes(bytes), ..Figures::default() };
    let count = usize::try_from(record.nparams).unwrap_or(0);
    if record.params.is_null() || count == 0 {
        return figures;
    }
    // SAFETY: `params` is an array of `nparams` entries that lives as long as the record.
    for entry in unsafe { std::slice::from_raw_parts(record.params, count) } {
        // SAFETY: names are NUL-terminated within their array.
        let Some(name) = (unsafe { text(entry.field.as_ptr()) }) else { continue };
        let kind = c_uint::try_from(entry.type_).unwrap_or(0);
        // SAFETY: `type_` says which member of the union is set.
        let number = unsafe {
            match kind {
                sys::VIR_TYPED_PARAM_INT => u64::try_from(entry.value.i).ok(),
                sys::VIR_TYPED_PARAM_UINT => Some(u64::from(entry.value.ui)),
                sys::VIR_TYPED_PARAM_LLONG => u64::try_from(entry.value.l).ok(),
                sys::VIR_TYPED_PARAM_ULLONG => Some(entry.value.ul),
                sys::VIR_TYPED_PARAM_STRING => {
                    if let Some(value) = text(entry.value.s) {
                        figures.texts.insert(name.clone(), value);
                    }
                    None
                }
                _ => None,
            }
        };
        if let Some(number) = number {
            figures.numbers.insert(name, number);
        }
    }
    figures
}

/// Interfaces and addresses of a domain from one source (`virDomainInterfaceAddressesSource`).
pub fn interface_addresses(domain: &Domain, source: c_uint) -> Result<Vec<Interface>, Error> {
    let mut list: *mut sys::virDomainInterfacePtr = ptr::null_mut();
    // SAFETY: the handle is alive for the call, and `list` leads to a pointer of this frame.
    let count = unsafe { sys::virDomainInterfaceAddresses(domain.as_ptr(), &raw mut list, source, 0) };
    let Ok(count) = usize::try_from(count) else { return Err(Error::last_error()) };
    if list.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the call succeeded, so it set `list` to an array of `count` interfaces. Each is read
    // and then freed once, and the array, which is the caller's to free, after them.
    unsafe {
        let mut interfaces = Vec::with_capacity(count);
        for interface in std::slice::from_raw_parts(list, count) {
            if !interface.is_null() {
                interfaces.push(read_interface(&**interface));
                sys::virDomainInterfaceFree(*interface);
            }
        }
        libc::free(list.cast());
        Ok(interfaces)
    }
}

/// # Safety
/// The interface is one that the library returned and has not freed.
unsafe fn read_interface(interface: &sys::virDomainInterface) -> Interface {
    // SAFETY: the MAC is NUL-terminated, or null for an interface that has none.
    let mac = unsafe { text(interface.hwaddr) };
    let count = usize::try_from(interface.naddrs).unwrap_or(0);
    if interface.addrs.is_null() || count == 0 {
        return (mac, Vec::new());
    }
    // SAFETY: `addrs` is an array of `naddrs` entries that lives as long as the interface, and each
    // address is NUL-terminated.
    let addresses =
        unsafe { std::slice::from_raw_parts(interface.addrs, count).iter().filter_map(|a| text(a.addr)).collect() };
    (mac, addresses)
}

/// # Safety
/// The pointer is null or leads to a NUL-terminated string.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: as the caller promises.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
