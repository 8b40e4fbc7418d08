//! What a manifest resolves to.

use super::*;
use crate::plan::UserData;
use crate::provider::document::{Findings, Folders, Limits, Node};

const BLOCK: &str = "\
images:
  debian-13: {url: 'https://a.example/d.qcow2', checksum: 'sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}
machineTypes:
  small: {vcpus: 1, memoryMiB: 1024}
diskOvercommit: 2
hosts:
- {name: h1, recorded: a.yaml, bridge: br0}
- {name: h2, recorded: b.yaml, bridge: br0}
";

fn config(text: &str) -> LibvirtConfig {
    let node = Node::parse(text, 0, Limits::CONFIG).expect("YAML").expect("a document");
    let mut findings = Findings::default();
    let block = node.read("libvirt", &mut findings);
    let folders = Folders { config: "/c".into(), home: None };
    let (_, config) = LibvirtConfig::read(&"lab".parse().expect("a label"), &block, &folders, &mut findings);
    config.unwrap_or_else(|| panic!("{findings:?}"))
}

fn spec() -> MachineSpec {
    MachineSpec {
        image: "debian-13".to_owned(),
        machine_type: "small".to_owned(),
        user_data: Some(UserData::new(b"#cloud-config\n".to_vec())),
        network: Some(Network {
            addresses: vec!["2001:DB8::1/64".parse().expect("a CIDR")],
            gateway: None,
            nameservers: Vec::new(),
        }),
    }
}

fn resolved(config: &LibvirtConfig, place: &str, spec: &MachineSpec) -> Result<Resolved, Vec<Unresolved>> {
    let fleet = "f".parse().expect("a label");
    let key = "n/p".parse().expect("a key");
    resolve(config, &fleet, &place.parse().expect("a place"), &key, spec, &BTreeMap::new())
}

#[test]
fn a_machine_is_resolved_without_a_host() {
    let made = resolved(&config(BLOCK), "lab/h1", &spec()).expect("resolved");
    assert_eq!(made.summary, "small (1 vCPU, 1024 MiB), debian-13, 10 GiB disk");
    assert_eq!((made.disk_bytes, made.reserve_bytes), (10 * GIB, 5 * GIB));
    assert_eq!(made.image.id.len(), 32);
    assert_eq!(
        made.spec.parts.keys().map(String::as_str).collect::<Vec<_>>(),
        ["image", "machine-type", "network", "user-data"]
    );
    assert!(!made.catalogue.parts.contains_key("vendor-data"));
}

#[test]
fn every_field_that_cannot_be_resolved_is_named() {
    let bad = MachineSpec { image: "alpine".to_owned(), machine_type: "huge".to_owned(), ..spec() };
    let problems = resolved(&config(BLOCK), "lab/h9", &bad).expect_err("unresolved");
    assert_eq!(
        problems,
        [
            ("placement.zone", "unknown zone \"h9\"; known are h1, h2".to_owned()),
            ("placement.machineType", "unknown machine type \"huge\"; known are small".to_owned()),
            ("placement.image", "unknown image \"alpine\"; known are debian-13".to_owned()),
        ]
    );
}

#[test]
fn the_spec_hash_is_the_same_on_every_host_and_the_name_is_not() {
    let config = config(BLOCK);
    let (one, two) =
        (resolved(&config, "lab/h1", &spec()).expect("one"), resolved(&config, "lab/h2", &spec()).expect("two"));
    assert_eq!(one.spec, two.spec);
    assert_eq!(one.catalogue, two.catalogue);
    assert_ne!(one.instance, two.instance);
}

#[test]
fn each_field_of_the_config_changes_the_catalogue_and_never_the_spec() {
    let base = resolved(&config(BLOCK), "lab/h1", &spec()).expect("base");
    for (part, from, to) in [
        ("image", "d.qcow2", "e.qcow2"),
        ("firmware", "url:", "firmware: bios, url:"),
        ("vcpus", "vcpus: 1", "vcpus: 2"),
        ("memory", "1024", "2048"),
        ("disk", "diskOvercommit: 2", "diskSizeGb: 20"),
        ("bridge", "br0", "br1"),
        ("cpu", "bridge: br0", "bridge: br0, cpu: {disable: [x]}"),
        ("vendor-data", "diskOvercommit: 2", "vendorData: \"#!/bin/sh\\nls\\n\""),
    ] {
        let other = resolved(&config(&BLOCK.replacen(from, to, 1)), "lab/h1", &spec()).expect(part);
        assert_eq!(base.spec, other.spec, "{part}");
        assert_eq!(base.catalogue.changes(&other.catalogue).iter().map(|c| c.name).collect::<Vec<_>>(), [part]);
    }
    let same = BLOCK.replacen("diskOvercommit: 2", "diskOvercommit: 2\ninstallGuestAgent: false", 1);
    assert_eq!(base.catalogue, resolved(&config(&same), "lab/h1", &spec()).expect("same").catalogue);
}

#[test]
fn r20_each_field_of_the_manifest_changes_the_spec_and_spelling_does_not() {
    let config = config(&BLOCK.replacen("small:", "large: {vcpus: 2, memoryMiB: 64}\n  small:", 1));
    let base = resolved(&config, "lab/h1", &spec()).expect("base");
    let network = spec().network.expect("a network");
    let others = [
        ("machine-type", MachineSpec { machine_type: "large".to_owned(), ..spec() }),
        ("user-data", MachineSpec { user_data: None, ..spec() }),
        ("user-data", MachineSpec { user_data: Some(UserData::new(Vec::new())), ..spec() }),
        ("network", MachineSpec { network: None, ..spec() }),
        (
            "network",
            MachineSpec { network: Some(Network { gateway: "2001:db8::2".parse().ok(), ..network }), ..spec() },
        ),
    ];
    for (part, other) in others {
        let other = resolved(&config, "lab/h1", &other).expect(part);
        assert_eq!(base.spec.changes(&other.spec).iter().map(|c| c.name).collect::<Vec<_>>(), [part]);
    }
    // Version 1 of the table: the hash that marks in the field hold. It never changes.
    assert_eq!(base.spec.hash, "c83b2e697d282c42207bcfc0c4c84272b1dbf491ebe8e6945b166af8a52ca14c");
    assert_eq!(base.catalogue.hash, "f336ceee0a92124a800628881904a4ee92f25413185533e20b12f8bd6847c104");
}
