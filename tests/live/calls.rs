//! Every call against a host that behaves.

use std::io::Read as _;
use std::path::PathBuf;

use egress_plan::plan::Reason;
use egress_plan::provider::error::Class;
use egress_plan::provider::libvirt::host::calls::{AddressSource, Config, UndefineWith, Which, code, state};
use egress_plan::provider::libvirt::host::link::{Link as _, Purpose, Stage};
use egress_plan::provider::libvirt::host::live::LocalLink;
use egress_plan::provider::libvirt::host::target::{LocalTarget, SshTarget};

use crate::{BUDGET, Bench, CLOSING, Pattern, URI, domain_xml, lab, raw_xml, target, unwrap_err, volume_xml};

pub fn domain_life() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    calls.create_volume(&raw_xml("life.raw", 1 << 20)).unwrap();
    let row = calls.define(&domain_xml("life", Some("one"))).unwrap();
    assert_eq!((row.name.as_str(), row.active), ("life", false));

    let mark = calls.metadata(row.uuid, Config::Persistent, URI).unwrap().unwrap();
    assert!(mark.contains("one"), "{mark}");
    assert_eq!(calls.metadata(row.uuid, Config::Persistent, "https://other.test/").unwrap(), None);
    assert_eq!(calls.metadata(row.uuid, Config::Live, URI).unwrap_err().code, code::OPERATION_INVALID);
    assert_eq!(calls.domain_xml(row.uuid, Config::Live).unwrap_err().code, code::OPERATION_INVALID);
    calls.set_metadata(row.uuid, &[Config::Persistent], URI, "m", "<mark>two</mark>").unwrap();
    assert!(calls.metadata(row.uuid, Config::Persistent, URI).unwrap().unwrap().contains("two"));
    assert_eq!(calls.set_metadata(row.uuid, &[], URI, "m", "<mark/>").unwrap_err().code, code::INVALID_ARG);
    assert_eq!(
        calls.set_metadata(row.uuid, &[Config::Persistent], "a\0", "m", "x").unwrap_err().code,
        code::INVALID_ARG
    );

    assert_eq!(calls.list_domains(Which::Persistent).unwrap(), vec![row.clone()]);
    assert_eq!(calls.list_domains(Which::Transient).unwrap(), vec![]);
    assert_eq!(calls.find_domain("life").unwrap(), Some(row.clone()));
    assert_eq!(calls.find_domain("lif").unwrap(), None);
    assert_eq!(calls.domain_state(row.uuid).unwrap().0, state::SHUTOFF);
    assert_eq!(calls.destroy(row.uuid).unwrap_err().code, code::OPERATION_INVALID);
    calls.set_autostart(row.uuid, true).unwrap();

    // An inactive domain's disks have their figures too.
    let stats = calls.domain_stats().unwrap();
    assert_eq!((stats.len(), stats[0].uuid, stats[0].state), (1, row.uuid, state::SHUTOFF));
    let path = format!("{}/life.raw", lab("LAB_POOL_A_DIR"));
    assert_eq!((stats[0].disks[0].path.as_deref(), stats[0].disks[0].capacity), (Some(path.as_str()), 1 << 20));

    let everything = UndefineWith { managed_save: true, snapshots: true, nvram: true, checkpoints: true, tpm: true };
    calls.undefine(row.uuid, everything).unwrap();
    assert!(!calls.domain_exists(row.uuid).unwrap());
    assert_eq!(calls.domain_state(row.uuid).unwrap_err().code, code::NO_DOMAIN);
    let bad = calls.define("<domain").unwrap_err();
    assert!(!bad.dead && bad.code == code::XML_DETAIL, "{bad:?}");
    calls.delete_volume("life.raw").unwrap();
    drop(calls);
    assert!(bench.close() < CLOSING);
}

pub fn running_domain() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    calls.create_volume(&raw_xml("run.raw", 1 << 20)).unwrap();
    let row = calls.define(&domain_xml("run", Some("one"))).unwrap();
    calls.start(row.uuid).unwrap();
    assert_eq!(calls.domain_state(row.uuid).unwrap().0, state::RUNNING);
    assert!(calls.find_domain("run").unwrap().unwrap().active);
    assert!(calls.list_domains(Which::Persistent).unwrap()[0].active);

    calls.set_metadata(row.uuid, &[Config::Live], URI, "m", "<mark>live</mark>").unwrap();
    assert!(calls.metadata(row.uuid, Config::Live, URI).unwrap().unwrap().contains("live"));
    assert!(calls.metadata(row.uuid, Config::Persistent, URI).unwrap().unwrap().contains("one"));
    calls.set_metadata(row.uuid, &[Config::Live, Config::Persistent], URI, "m", "<mark>both</mark>").unwrap();
    for config in [Config::Live, Config::Persistent] {
        assert!(calls.metadata(row.uuid, config, URI).unwrap().unwrap().contains("both"));
        assert!(calls.domain_xml(row.uuid, config).unwrap().contains("<name>run</name>"));
    }
    let stats = calls.domain_stats().unwrap();
    assert_eq!((stats[0].state, stats[0].disks.len(), stats[0].disks[0].capacity), (state::RUNNING, 1, 1 << 20));

    assert_eq!(calls.addresses(row.uuid, AddressSource::Lease, 2).unwrap(), vec![]);
    let agent = calls.addresses(row.uuid, AddressSource::Agent, 2).unwrap_err();
    assert_eq!((agent.code, agent.dead), (code::AGENT_UNRESPONSIVE, false), "{agent:?}");
    if let Ok(found) = calls.addresses(row.uuid, AddressSource::Arp, 2) {
        assert!(found.iter().all(|nic| nic.mac == nic.mac.to_lowercase()), "{found:?}");
    }
    calls.shutdown(row.uuid).unwrap();
    calls.destroy(row.uuid).unwrap();
    calls.undefine(row.uuid, UndefineWith::default()).unwrap();
    calls.delete_volume("run.raw").unwrap();
}

pub fn transient_domain() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    calls.create_volume(&raw_xml("tran.raw", 1 << 20)).unwrap();
    let row = calls.define(&domain_xml("tran", Some("one"))).unwrap();
    calls.start(row.uuid).unwrap();
    calls.undefine(row.uuid, UndefineWith::default()).unwrap();
    assert_eq!(calls.list_domains(Which::Persistent).unwrap(), vec![]);
    assert_eq!(calls.list_domains(Which::Transient).unwrap()[0].uuid, row.uuid);
    assert!(calls.metadata(row.uuid, Config::Live, URI).unwrap().unwrap().contains("one"));
    assert_eq!(calls.metadata(row.uuid, Config::Persistent, URI).unwrap_err().code, code::OPERATION_INVALID);
    calls.destroy(row.uuid).unwrap();
    assert!(!calls.domain_exists(row.uuid).unwrap());
    assert_eq!(calls.undefine(row.uuid, UndefineWith::default()).unwrap_err().code, code::NO_DOMAIN);
    calls.delete_volume("tran.raw").unwrap();
}

pub fn volumes() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    let folder = lab("LAB_POOL_A_DIR");
    calls.create_volume(&raw_xml("base.raw", 3 << 20)).unwrap();
    assert_eq!(calls.create_volume(&raw_xml("base.raw", 1)).unwrap_err().code, code::STORAGE_VOL_EXIST);
    let backing = format!(
        "<compat>1.1</compat></target><backingStore><path>{folder}/base.raw</path><format type='raw'/></backingStore>"
    );
    calls.create_volume(&volume_xml("over.qcow2", 5 << 20, "qcow2", &backing)).unwrap();

    let base = calls.volume("base.raw").unwrap().unwrap();
    assert_eq!(
        (base.format.as_str(), base.capacity, base.physical, base.mode),
        ("raw", 3 << 20, Some(3 << 20), Some(0o600))
    );
    assert_eq!((base.path.as_str(), base.backing), (format!("{folder}/base.raw").as_str(), None));
    assert!(base.modified.is_some());
    let over = calls.volume("over.qcow2").unwrap().unwrap();
    assert_eq!((over.format.as_str(), over.capacity), ("qcow2", 5 << 20));
    assert_eq!(over.backing, Some(format!("{folder}/base.raw")));
    assert_eq!(over.physical, Some(std::fs::metadata(format!("{folder}/over.qcow2")).unwrap().len()));

    calls.refresh_pool().unwrap();
    let mut names = calls.volume_names().unwrap();
    names.sort();
    assert_eq!(names, ["base.raw", "over.qcow2"]);
    // Removed behind libvirt's back, and never there.
    std::fs::remove_file(format!("{folder}/over.qcow2")).unwrap();
    let behind = calls.volume("over.qcow2");
    assert!(matches!(behind, Ok(None)), "{behind:?}");
    assert_eq!(calls.volume("none").unwrap(), None);
    assert_eq!(calls.delete_volume("none").unwrap_err().code, code::NO_STORAGE_VOL);
    calls.delete_volume("over.qcow2").unwrap();
    calls.delete_volume("base.raw").unwrap();

    let pool = calls.pool().unwrap();
    assert_eq!((pool.kind.as_str(), pool.path.as_str(), pool.active), ("dir", folder.as_str(), true));
    assert!(pool.available > 0 && pool.capacity >= pool.available && !pool.uuid.is_empty());
    let elsewhere = Bench::new(SshTarget { pool: "none".to_owned(), ..target() });
    assert_eq!(elsewhere.open().calls.pool().unwrap_err().code, code::NO_STORAGE_POOL);
}

pub fn upload() {
    const LENGTH: u64 = 48 * 1024 * 1024 + 13;
    let bench = Bench::new(target());
    let mut calls = bench.try_open(Purpose::Upload).map_err(|error| error.message).unwrap().calls;
    let path = format!("{}/up.raw", lab("LAB_POOL_A_DIR"));
    for length in [0, 1, LENGTH] {
        calls.create_volume(&raw_xml("up.raw", 0)).unwrap();
        let mut told = 0;
        calls.upload("up.raw", &mut Pattern(length), length, &mut |bytes| told = bytes).unwrap();
        assert_eq!((told, std::fs::metadata(&path).unwrap().len()), (length, length));
        assert_eq!(calls.volume("up.raw").unwrap().unwrap().physical, Some(length));
        let mut expected = vec![0; usize::try_from(length).unwrap()];
        Pattern(length).read_exact(&mut expected).unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
        calls.delete_volume("up.raw").unwrap();
    }
    // A source that ends early or fails is an error, and the connection lives on.
    calls.create_volume(&raw_xml("up.raw", 0)).unwrap();
    let short = calls.upload("up.raw", &mut [1_u8; 10].as_slice(), 20, &mut |_| ()).unwrap_err();
    assert!(!short.dead && short.message.contains("10 of 20 bytes"), "{short:?}");
    assert_eq!(calls.upload("none", &mut Pattern(1), 1, &mut |_| ()).unwrap_err().code, code::NO_STORAGE_VOL);
    calls.delete_volume("up.raw").unwrap();
}

pub fn facts() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    assert!(calls.libvirt_version().unwrap() >= 7_002_000);
    assert!(calls.hypervisor_version().unwrap() >= 1_000_000);
    assert!(!calls.hostname().unwrap().is_empty());
    assert!(calls.domain_capabilities("qemu").unwrap().contains("<domainCapabilities>"));
    let none = calls.domain_capabilities("xen").unwrap_err();
    assert!([code::INVALID_ARG, code::CONFIG_UNSUPPORTED].contains(&none.code), "{none:?}");
    assert_ne!(calls.interface_exists(&lab("LAB_BRIDGE")).unwrap(), Some(false));
    assert_ne!(calls.interface_exists("br-none").unwrap(), Some(true));
}

pub fn client_keys() {
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("pem");
    std::fs::copy(lab("LAB_RSA_KEY"), &pem).unwrap();
    let convert = |format: &str| {
        let mut keygen = std::process::Command::new("ssh-keygen");
        keygen.args(["-q", "-p", "-P", "", "-N", "", "-m", format, "-f"]).arg(&pem);
        assert!(keygen.output().unwrap().status.success());
        std::fs::read_to_string(&pem).unwrap()
    };
    let reach = |key_file: PathBuf| Bench::new(SshTarget { key_file, ..target() }).open().calls.hostname().unwrap();
    reach(PathBuf::from(lab("LAB_RSA_KEY")));
    assert!(convert("PEM").starts_with("-----BEGIN RSA PRIVATE KEY"));
    reach(pem.clone());
    assert!(convert("PKCS8").starts_with("-----BEGIN PRIVATE KEY"));
    reach(pem.clone());
}

pub fn sockets() {
    let missing = "/run/libvirt/virtqemud-sock".to_owned();
    let both = SshTarget { sockets: vec![missing.clone(), lab("LAB_SOCKET")], ..target() };
    Bench::new(both).open().calls.hostname().unwrap();
    let none = Bench::new(SshTarget { sockets: vec![missing], ..target() });
    let error = unwrap_err(none.try_open(Purpose::Calls));
    assert_eq!((error.stage, error.class, error.reason), (Stage::Socket, Class::Transient, Reason::Unreachable));
    assert!(error.message.contains("virtqemud-sock") && error.hint.unwrap().contains("AllowStreamLocalForwarding"));
}

pub fn stranger() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("known_hosts");
    std::fs::write(&empty, "").unwrap();
    let error = unwrap_err(Bench::new(SshTarget { known_hosts: Some(empty), ..target() }).try_open(Purpose::Calls));
    assert_eq!((error.class, error.reason), (Class::Permanent, Reason::HostKeyMismatch));
    let nobody = Bench::new(SshTarget { user: "nobody-of-that-name".to_owned(), ..target() });
    assert_eq!(unwrap_err(nobody.try_open(Purpose::Calls)).reason, Reason::Unauthorized);
}

pub fn local() {
    let bench = Bench::new(target());
    let link =
        LocalLink::new(LocalTarget { sockets: vec!["/none".to_owned(), lab("LAB_SOCKET")], pool: lab("LAB_POOL_A") });
    let mut calls = bench.runtime.block_on(link.open(Purpose::Calls, BUDGET)).map_err(|e| e.message).unwrap().calls;
    assert!(calls.pool().unwrap().active);
    bench.runtime.block_on(link.close());
    assert!(calls.hostname().unwrap_err().dead);
    assert!(bench.runtime.block_on(link.open(Purpose::Calls, BUDGET)).is_err(), "closed is closed");
}
