//! Recording: what a file holds of a host, and that serving it records the same again.

use super::super::super::calls::{Calls, Config};
use super::super::{MARK_NAMESPACE, RecordedHost, record};
use super::{connect, domain_xml, host, make, uuid, world};

const PLAIN: &str = include_str!("../../../../../../tests/fixtures/recorded/plain.yaml");

fn taken(calls: &mut dyn Calls) -> RecordedHost {
    let now = "2026-11-20T12:00:00Z".parse().unwrap();
    record(calls, "br0", &["kvm", "qemu"], now).unwrap()
}

fn mark() -> String {
    format!("<e:instance xmlns:e='{MARK_NAMESPACE}'><e:fleet>lab</e:fleet></e:instance>")
}

/// A host with all kinds of machines: ours on and off, ours transient, others.
fn lively() -> super::Arc<super::Mutex<super::World>> {
    let world = world(PLAIN);
    let mut calls = connect(&world);
    for number in 1..=3 {
        let m = make(&mut *calls, number);
        calls.define(&domain_xml(number, &mark()).replace("<os>", "<os firmware='efi'>")).unwrap();
        if number > 1 {
            calls.start(m).unwrap();
            calls.set_metadata(m, &[Config::Live], "urn:live", "l", "<l>CANARY-live</l>").unwrap();
        }
    }
    let with_nvram = super::super::super::calls::UndefineWith { nvram: true, ..Default::default() };
    calls.undefine(uuid(3), with_nvram).unwrap();
    world
}

#[test]
fn record_serve_record_is_a_fixpoint() {
    for world in [world(PLAIN), lively(), world("pool: {missing: true}"), world("pool: {active: false}")] {
        let first = taken(&mut *connect(&world));
        let text = first.to_yaml().unwrap();
        let served = super::Arc::new(super::Mutex::new(super::World::new(host(&text))));
        let second = taken(&mut *connect(&served));
        assert_eq!(second, first);
        assert_eq!(second.to_yaml().unwrap(), text);
    }
}

#[test]
fn what_is_saved_is_what_would_be_recorded_of_our_machines() {
    let world = lively();
    let recorded = taken(&mut *connect(&world));
    let saved = world.lock().unwrap().to_file();
    let ours = |host: &RecordedHost| {
        host.domains
            .iter()
            .filter(|d| d.xml.is_some())
            .map(|d| (d.xml.clone(), d.addresses.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ours(&saved), ours(&recorded));
    assert_eq!(ours(&saved).len(), 3);
}

#[test]
fn c10_no_byte_of_a_foreign_machine_but_names_and_disk_paths_is_recorded() {
    let world = world(PLAIN);
    let mut calls = connect(&world);
    let foreign = "<domain type='kvm'><name>cloud</name><title>CANARY-1</title>
        <metadata><n:instance xmlns:n='urn:nova'><n:name>CANARY-2 😀</n:name></n:instance></metadata>
        <devices>
        <disk type='network'><auth username='CANARY-3'><secret type='ceph' uuid='CANARY-4'/></auth>
        <source protocol='rbd' name='CANARY-5'/></disk>
        <disk type='file' device='cdrom'><target dev='sda'/></disk>
        <disk type='file'><source file='/srv/cloud.raw'/></disk>
        <interface type='bridge'><mac address='52:54:00:aa:bb:cc'/><source bridge='br0'/><rom bar='off' file=''/></interface>
        <graphics type='vnc' passwd='CANARY-6'/></devices></domain>";
    calls.define(foreign).unwrap();
    for text in [taken(&mut *calls).to_yaml().unwrap(), world.lock().unwrap().to_file().to_yaml().unwrap()] {
        assert!(!text.contains("CANARY"), "{text}");
        for kept in ["cloud", "/srv/cloud.raw", "urn:nova", "52:54:00:aa:bb:cc"] {
            assert!(text.contains(kept), "{kept}\n{text}");
        }
    }
}

#[test]
fn our_own_xml_is_recorded_without_secrets() {
    let world = world("interfaces: [br0]");
    let mut calls = connect(&world);
    let secrets = "<graphics type='vnc' port='1' passwd='CANARY-1'/>
        <disk type='network'><auth username='CANARY-2'/><source protocol='https' name='x' query='t=CANARY-3'/></disk>
        <disk type='file'><source file='/x'><encryption><secret uuid='CANARY-4'/></encryption></source></disk></devices>
        <q:commandline xmlns:q='urn:q'><q:arg value='CANARY-5'/></q:commandline>
        <sysinfo type='fwcfg'><entry name='opt/x'>CANARY-6</entry></sysinfo>
        <sysinfo type='smbios'><system><entry name='serial'>ds=nocloud</entry></system>
        <oemStrings><entry>CANARY-7</entry></oemStrings></sysinfo>
        <description>CANARY-8</description>";
    let other = "<o:x xmlns:o='urn:o'>CANARY-9</o:x>";
    let xml = domain_xml(1, &format!("{}{other}", mark())).replace("</devices>", secrets);
    let m = calls.define(&xml).unwrap().uuid;
    assert!(calls.domain_xml(m, Config::Persistent).unwrap().contains("CANARY-9"));
    let text = taken(&mut *calls).to_yaml().unwrap();
    assert!(!text.contains("CANARY"), "{text}");
    for kept in ["ds=nocloud", "urn:o", "<e:fleet>lab</e:fleet>", "52:54:00:00:00:01", "vnc"] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
}

#[test]
fn a_mark_in_one_configuration_alone_is_recorded_with_both() {
    let world = lively();
    let mut calls = connect(&world);
    calls.define(&domain_xml(2, "")).unwrap();
    let recorded = taken(&mut *calls);
    let machine = recorded.domains.iter().find(|domain| domain.name == "m2").unwrap();
    assert!(!machine.xml.as_ref().unwrap().to_string().contains(MARK_NAMESPACE));
    assert!(machine.live_xml.as_ref().unwrap().to_string().contains(MARK_NAMESPACE));
}

#[test]
fn l13_a_call_that_fails_ends_the_recording() {
    let world = lively();
    let mut calls = connect(&world);
    taken(&mut *calls);
    let count = world.lock().unwrap().calls().len();
    let before = world.lock().unwrap().calls().iter().position(|called| called.call == "domain_capabilities").unwrap();
    let now = "2026-11-20T12:00:00Z".parse().unwrap();
    for nth in 1..=u64::try_from(count - before).unwrap() {
        world.lock().unwrap().fail(super::super::Rule::nth(nth, super::super::Effect::CutBefore));
        assert!(record(&mut *connect(&world), "br0", &["kvm", "qemu"], now).unwrap_err().dead, "call {nth}");
        world.lock().unwrap().heal();
    }
}
