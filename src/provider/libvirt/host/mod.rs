//! One host: the way to it, the calls made on it, and the two kinds of host that answer them.

pub mod bridge;
pub mod calls;
#[cfg(feature = "libvirt")]
mod connection;
pub mod host_key;
pub mod host_name;
pub mod keys;
pub mod known_hosts;
pub mod link;
#[cfg(feature = "libvirt")]
pub mod live;
pub mod progress;
#[cfg(feature = "libvirt")]
mod raw;
pub mod recorded;
pub mod ssh;
pub mod storage_xml;
pub mod target;
#[cfg(test)]
mod test_keys;
pub mod traced;
