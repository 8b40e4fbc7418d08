//! One test a rule of the real daemon; each was tried there by hand first.

mod domains;
mod faults;
mod files;
mod pools;
mod recording;
mod uploads;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use uuid::Uuid;

use super::super::calls::{CallError, CallResult, Calls};
use super::super::link::{Link, Opened, Purpose};
use super::{RecordedHost, RecordedLink, World};

/// The folder of the pool.
const FOLDER: &str = "/var/lib/libvirt/images";

/// A host from a file's text.
fn host(yaml: &str) -> RecordedHost {
    RecordedHost::parse(yaml, Path::new("test.yaml")).unwrap()
}

/// A world from a file's text.
fn world(yaml: &str) -> Arc<Mutex<World>> {
    Arc::new(Mutex::new(World::new(host(yaml))))
}

/// A connection, and how to end it.
fn opened(world: &Arc<Mutex<World>>) -> Opened {
    let link = RecordedLink::new(Arc::clone(world));
    link.open(Purpose::Calls, Duration::from_secs(1)).now_or_never().unwrap().unwrap()
}

/// A connection.
fn connect(world: &Arc<Mutex<World>>) -> Box<dyn Calls> {
    opened(world).calls
}

/// A connection to a host of its own.
fn calls(yaml: &str) -> Box<dyn Calls> {
    connect(&world(yaml))
}

/// The UUID of test machine `number`.
fn uuid(number: u8) -> Uuid {
    Uuid::parse_str(&format!("00000000-0000-4000-8000-0000000000{number:02x}")).unwrap()
}

/// XML of test machine `number`: a disk of the pool, a NIC on br0, an agent.
fn domain_xml(number: u8, metadata: &str) -> String {
    format!(
        "<domain type='kvm'><name>m{number}</name><uuid>{}</uuid><metadata>{metadata}</metadata>
        <os><type>hvm</type></os><devices>
        <disk type='file'><source file='{FOLDER}/m{number}.qcow2'/><target dev='vda'/></disk>
        <interface type='bridge'><mac address='52:54:00:00:00:{number:02x}'/><source bridge='br0'/></interface>
        <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
        </devices></domain>",
        uuid(number)
    )
}

/// XML of a volume.
fn volume_xml(name: &str, capacity: u64, allocation: u64, format: &str, backing: Option<&str>) -> String {
    let backing = backing.map_or_else(String::new, |path| {
        format!("<backingStore><path>{path}</path><format type='qcow2'/></backingStore>")
    });
    format!(
        "<volume><name>{name}</name><capacity>{capacity}</capacity><allocation>{allocation}</allocation>
        <target><format type='{format}'/></target>{backing}</volume>"
    )
}

/// Defines test machine `number` with its disk.
fn make(calls: &mut dyn Calls, number: u8) -> Uuid {
    calls.create_volume(&volume_xml(&format!("m{number}.qcow2"), 1 << 30, 0, "qcow2", None)).unwrap();
    calls.define(&domain_xml(number, "<k:mark xmlns:k='urn:k'>whole</k:mark>")).unwrap().uuid
}

/// Code and part of a refusal.
fn refusal<T: std::fmt::Debug>(result: CallResult<T>) -> (i32, i32) {
    let CallError { code, domain, dead, .. } = result.unwrap_err();
    assert!(!dead, "{code}/{domain}");
    (code, domain)
}
