//! Names of volumes: a reader accepts exactly what its writer makes, and no name is two things.
#![no_main]

use egress_plan::provider::libvirt::naming::{
    BaseName, LockName, ProofName, disk_owner, looks_like_instance, looks_like_ours, overlay_name, parse_disk,
    seed_name,
};
use libfuzzer_sys::fuzz_target;
use uuid::Uuid;

fuzz_target!(|name: &str| {
    let base = BaseName::parse(name);
    let proof = ProofName::parse(name);
    let lock = LockName::parse(name);
    let disk = disk_owner(name);
    let kinds = [base.is_some(), proof.is_some(), lock.is_some(), disk.is_some()];
    assert!(kinds.iter().filter(|is| **is).count() <= 1, "{name:?} is several things: {kinds:?}");
    assert_eq!(looks_like_ours(name), disk.is_some());
    let written = [base.map(|it| it.to_string()), proof.map(|it| it.to_string()), lock.map(|it| it.to_string())];
    for again in written.into_iter().flatten() {
        assert_eq!(again, name);
    }
    if let Some(domain) = disk {
        assert!(looks_like_instance(domain), "{domain:?}");
        // The eight digits in the name make the UUID of the only domain that may own it.
        let digits = name[domain.len() + 1..].get(..8).expect("a disk's name has digits");
        let uuid = Uuid::parse_str(&format!("{digits}-0000-4000-8000-000000000000")).expect("hex");
        assert!(parse_disk(domain, uuid, name).is_some(), "{name:?}");
        assert!([overlay_name(domain, uuid), seed_name(domain, uuid)].iter().any(|made| made == name));
    }
});
