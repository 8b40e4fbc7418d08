//! Recorded hosts of any text: what is read is the same after it was written, and a host can be made
//! of it.
#![no_main]

use std::path::Path;

use egress_plan::provider::libvirt::host::recorded::{RecordedHost, World};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(host) = RecordedHost::parse(text, Path::new("h1.yaml")) else { return };
    let written = host.to_yaml().expect("a host can be written");
    let again = RecordedHost::parse(&written, Path::new("h1.yaml")).expect("what is written can be read");
    assert_eq!(again.to_yaml().expect("a host can be written"), written);
    let _ = World::new(host).to_file();
});
