//! Domains: defining, starting, stopping, undefining, metadata, addresses.

use super::super::super::calls::{AddressSource, Calls, Config, DomainRow, UndefineWith, Which, state};
use super::super::{RecordedDomain, RecordedHost};
use super::{calls, connect, domain_xml, make, refusal, uuid, world};

const ALL: UndefineWith =
    UndefineWith { managed_save: true, snapshots: true, nvram: true, checkpoints: true, tpm: true };

#[test]
fn l21_metadata_is_selected_by_namespace_and_configuration() {
    let mut calls = calls("{}");
    let m = make(&mut *calls, 1);
    assert_eq!(calls.metadata(m, Config::Persistent, "urn:k").unwrap().as_deref(), Some("<mark>whole</mark>"));
    for other in ["urn:K", "urn:k/", "k", "mark"] {
        assert_eq!(calls.metadata(m, Config::Persistent, other).unwrap(), None, "{other}");
    }
    assert_eq!(refusal(calls.metadata(m, Config::Live, "urn:k")), (55, 20));
    assert_eq!(refusal(calls.metadata(uuid(9), Config::Persistent, "urn:k")), (42, 10));
}

#[test]
fn l51_a_live_only_mark_vanishes_at_the_next_stop() {
    let mut calls = calls("{}");
    let m = make(&mut *calls, 1);
    calls.start(m).unwrap();
    calls.set_metadata(m, &[Config::Live], "urn:live", "l", "<l/>").unwrap();
    calls.set_metadata(m, &[Config::Live, Config::Persistent], "urn:both", "b", "<b/>").unwrap();
    assert!(calls.metadata(m, Config::Live, "urn:live").unwrap().is_some());
    assert_eq!(calls.metadata(m, Config::Persistent, "urn:live").unwrap(), None);
    calls.destroy(m).unwrap();
    calls.start(m).unwrap();
    assert_eq!(calls.metadata(m, Config::Live, "urn:live").unwrap(), None);
    assert!(calls.metadata(m, Config::Live, "urn:both").unwrap().is_some());
}

#[test]
fn metadata_is_written_into_all_named_configurations_or_into_none() {
    let mut calls = calls("{}");
    let m = make(&mut *calls, 1);
    for configs in [&[Config::Live][..], &[Config::Persistent, Config::Live]] {
        assert_eq!(refusal(calls.set_metadata(m, configs, "urn:n", "n", "<n/>")), (55, 20));
    }
    assert_eq!(calls.metadata(m, Config::Persistent, "urn:n").unwrap(), None);
    assert_eq!(refusal(calls.set_metadata(m, &[Config::Persistent], "urn:n", "n", "<n>")), (35, 20));
}

#[test]
fn a_name_or_uuid_of_another_domain_is_refused() {
    let mut calls = calls("{}");
    make(&mut *calls, 1);
    let other_uuid = domain_xml(1, "").replace(&uuid(1).to_string(), &uuid(2).to_string());
    let other_name = domain_xml(1, "").replace("m1", "m2");
    for xml in [other_uuid, other_name] {
        assert_eq!(refusal(calls.define(&xml)), (9, 20));
    }
    assert_eq!(refusal(calls.define("<domain")), (35, 20));
}

#[test]
fn a_define_with_name_and_uuid_takes_a_running_domain_over_and_drops_its_metadata() {
    let mut calls = calls("{}");
    let m = make(&mut *calls, 1);
    calls.start(m).unwrap();
    let row = calls.define(&domain_xml(1, "")).unwrap();
    assert_eq!(row, DomainRow { uuid: m, name: "m1".into(), active: true });
    assert_eq!(calls.metadata(m, Config::Persistent, "urn:k").unwrap(), None);
    assert!(calls.metadata(m, Config::Live, "urn:k").unwrap().is_some());
}

#[test]
fn a_kind_of_domain_that_the_host_cannot_run_is_refused_at_define_and_at_start() {
    let mut poor = calls("domainTypes: [qemu]\ndomains: [{name: old, type: kvm}]");
    assert_eq!(refusal(poor.define(&domain_xml(1, ""))), (67, 10));
    assert_eq!(refusal(poor.domain_capabilities("kvm")), (8, 10));
    assert!(poor.domain_capabilities("qemu").unwrap().contains("<value>efi</value>"));
    let old = poor.find_domain("old").unwrap().unwrap();
    assert_eq!(refusal(poor.start(old.uuid)), (67, 10));
}

#[test]
fn what_a_start_misses_on_the_host_is_found_out_at_start() {
    let uefi = domain_xml(3, "").replace("<os>", "<os firmware='efi'>");
    // libvirt, XML, code and part of the start's refusal; the disk is made only for the others.
    for (file, xml, made, expected) in [
        ("interfaces: [br0]", domain_xml(3, ""), false, (38, 18)),
        ("interfaces: [eth0]", domain_xml(3, ""), true, (38, 0)),
        ("{uefi: false, libvirt: 9.0.0}", uefi.clone(), true, (9, 10)),
    ] {
        let mut calls = calls(file);
        if made {
            make(&mut *calls, 3);
        }
        let m = calls.define(&xml).unwrap().uuid;
        assert_eq!(refusal(calls.start(m)), expected, "{file}");
        assert_eq!(calls.domain_state(m).unwrap(), (state::SHUTOFF, 6), "{file}");
    }
    // From 9.2 on, firmware is chosen at define.
    assert_eq!(refusal(calls("uefi: false").define(&uefi)), (9, 10));
}

#[test]
fn a_start_needs_every_file_below_the_disk() {
    let mut calls = calls(
        "pool:
  volumes:
  - {name: base.qcow2, format: qcow2, capacity: 1 GiB}
  - {name: m1.qcow2, format: qcow2, capacity: 1 GiB, backing: /var/lib/libvirt/images/base.qcow2}",
    );
    let m = calls.define(&domain_xml(1, "")).unwrap().uuid;
    calls.delete_volume("base.qcow2").unwrap();
    let refused = calls.start(m).unwrap_err();
    assert_eq!((refused.code, refused.domain), (38, 18));
    assert!(refused.message.contains("backing file"), "{refused}");
}

#[test]
fn a_running_domain_is_not_started_again_and_a_stopped_one_not_stopped() {
    let mut calls = calls("{}");
    let m = make(&mut *calls, 1);
    assert_eq!(refusal(calls.destroy(m)), (55, 20));
    assert_eq!(refusal(calls.shutdown(m)), (55, 10));
    calls.start(m).unwrap();
    assert_eq!(refusal(calls.start(m)), (55, 10));
    assert_eq!(calls.domain_state(m).unwrap(), (state::RUNNING, 1));
    calls.destroy(m).unwrap();
    assert_eq!(calls.domain_state(m).unwrap(), (state::SHUTOFF, 2));
}

#[test]
fn a_guest_may_ignore_that_it_is_asked_to_power_off() {
    let world = world("domains: [{name: deaf, state: running, ignoresShutdown: true}]");
    let mut calls = connect(&world);
    let deaf = calls.find_domain("deaf").unwrap().unwrap().uuid;
    calls.shutdown(deaf).unwrap();
    assert_eq!(calls.domain_state(deaf).unwrap(), (state::RUNNING, 1));
    world.lock().unwrap().edit(|host| host.domains[0].ignores_shutdown = false);
    calls.shutdown(deaf).unwrap();
    assert_eq!(calls.domain_state(deaf).unwrap(), (state::SHUTOFF, 1));
}

#[test]
fn l12_a_paused_domain_hears_neither_shutdown_nor_agent() {
    let mut calls = calls("domains: [{name: p, state: paused, reason: 5}]");
    let p = calls.find_domain("p").unwrap().unwrap().uuid;
    assert_eq!(calls.domain_state(p).unwrap(), (state::PAUSED, 5));
    assert_eq!(refusal(calls.shutdown(p)), (55, 10));
    assert_eq!(refusal(calls.start(p)), (55, 10));
    assert_eq!(refusal(calls.addresses(p, AddressSource::Agent, 1)), (55, 10));
    assert_eq!(calls.addresses(p, AddressSource::Lease, 1).unwrap(), []);
    calls.destroy(p).unwrap();
}

#[test]
fn l33_undefine_is_refused_without_the_flag_for_what_the_domain_has() {
    let has = |change: fn(&mut RecordedDomain)| {
        let mut domain = RecordedDomain { name: "m".into(), ..RecordedDomain::default() };
        change(&mut domain);
        domain
    };
    for (domain, lacking) in [
        (has(|d| d.nvram = true), UndefineWith { nvram: false, ..ALL }),
        (has(|d| d.managed_save = true), UndefineWith { managed_save: false, ..ALL }),
        (has(|d| d.snapshots = 2), UndefineWith { snapshots: false, ..ALL }),
        (has(|d| d.checkpoints = 1), UndefineWith { checkpoints: false, ..ALL }),
    ] {
        let host = RecordedHost { domains: vec![domain.clone()], ..RecordedHost::default() };
        let mut calls = connect(&super::Arc::new(super::Mutex::new(super::World::new(host))));
        let m = calls.find_domain("m").unwrap().unwrap().uuid;
        assert_eq!(refusal(calls.undefine(m, lacking)), (55, 10), "{domain:?}");
        calls.undefine(m, ALL).unwrap();
        assert!(!calls.domain_exists(m).unwrap());
        assert_eq!(refusal(calls.undefine(m, ALL)), (42, 10));
    }
}

#[test]
fn a_flag_that_the_server_does_not_know_is_refused() {
    let mut old = calls("{libvirt: 8.8.0, domains: [{name: m}]}");
    let m = old.find_domain("m").unwrap().unwrap().uuid;
    assert_eq!(refusal(old.undefine(m, ALL)), (8, 10));
    old.undefine(m, UndefineWith { tpm: false, ..ALL }).unwrap();
}

#[test]
fn the_first_start_with_uefi_makes_an_nvram_file() {
    let mut calls = calls("{}");
    make(&mut *calls, 1);
    let m = calls.define(&domain_xml(1, "").replace("<os>", "<os firmware='efi'>")).unwrap().uuid;
    calls.undefine(m, UndefineWith::default()).unwrap();
    calls.define(&domain_xml(1, "").replace("<os>", "<os firmware='efi'>")).unwrap();
    calls.start(m).unwrap();
    // Running or not, the file is in the way.
    assert_eq!(refusal(calls.undefine(m, UndefineWith::default())), (55, 10));
    calls.destroy(m).unwrap();
    assert_eq!(refusal(calls.undefine(m, UndefineWith::default())), (55, 10));
    calls.undefine(m, UndefineWith { nvram: true, ..UndefineWith::default() }).unwrap();
}

#[test]
fn c19_a_running_domain_that_is_undefined_turns_transient_and_vanishes_when_it_stops() {
    let mut calls = calls("{}");
    let m = make(&mut *calls, 1);
    calls.start(m).unwrap();
    assert_eq!(calls.list_domains(Which::Persistent).unwrap().len(), 1);
    calls.undefine(m, ALL).unwrap();
    assert_eq!(calls.list_domains(Which::Persistent).unwrap(), []);
    assert_eq!(calls.list_domains(Which::Transient).unwrap().len(), 1);
    assert_eq!(refusal(calls.metadata(m, Config::Persistent, "urn:k")), (55, 20));
    for configs in [&[Config::Persistent][..], &[Config::Live, Config::Persistent]] {
        assert_eq!(refusal(calls.set_metadata(m, configs, "urn:n", "n", "<n/>")), (55, 20));
    }
    assert!(calls.metadata(m, Config::Live, "urn:k").unwrap().is_some());
    assert_eq!(refusal(calls.undefine(m, ALL)), (55, 10));
    assert_eq!(refusal(calls.set_autostart(m, true)), (55, 10));
    // Another domain may not take the name, and a define of the same makes it persistent again.
    let other = domain_xml(1, "").replace(&uuid(1).to_string(), &uuid(2).to_string());
    assert_eq!(refusal(calls.define(&other)), (9, 20));
    calls.destroy(m).unwrap();
    assert!(!calls.domain_exists(m).unwrap());
    assert_eq!(calls.find_domain("m1").unwrap(), None);
}

#[test]
fn a_domain_that_is_gone_is_not_found_by_any_call() {
    let mut calls = calls("{}");
    let gone = uuid(7);
    let both = [Config::Live, Config::Persistent];
    for refused in [
        refusal(calls.start(gone)),
        refusal(calls.shutdown(gone)),
        refusal(calls.destroy(gone)),
        refusal(calls.undefine(gone, ALL)),
        refusal(calls.set_autostart(gone, true)),
        refusal(calls.domain_state(gone)),
        refusal(calls.domain_xml(gone, Config::Persistent)),
        refusal(calls.set_metadata(gone, &both, "urn:k", "k", "<k/>")),
        refusal(calls.addresses(gone, AddressSource::Agent, 1)),
    ] {
        assert_eq!(refused, (42, 10));
    }
}

#[test]
fn a_saved_domain_is_restored_by_a_start() {
    let mut calls = calls("domains: [{name: s, reason: 5, managedSave: true}]");
    let s = calls.find_domain("s").unwrap().unwrap().uuid;
    calls.start(s).unwrap();
    assert_eq!(calls.domain_state(s).unwrap(), (state::RUNNING, 3));
    calls.destroy(s).unwrap();
    calls.undefine(s, UndefineWith::default()).unwrap();
}

#[test]
fn a_started_machine_gets_an_address_that_follows_from_its_mac() {
    let address = || {
        let mut calls = calls("guestRange: 198.51.100.0/24");
        let m = make(&mut *calls, 1);
        assert_eq!(refusal(calls.addresses(m, AddressSource::Agent, 1)), (55, 20));
        calls.start(m).unwrap();
        let nics = calls.addresses(m, AddressSource::Agent, 1).unwrap();
        assert_eq!(nics[0].mac, "52:54:00:00:00:01");
        nics[0].addresses.clone()
    };
    let first = address();
    assert!(first[0].to_string().starts_with("198.51.100."), "{first:?}");
    assert_eq!(first, address());
}

#[test]
fn no_two_machines_get_one_address_while_the_range_lasts() {
    let mut calls = calls("guestRange: 198.51.100.0/28");
    let mut seen = std::collections::BTreeSet::new();
    for number in 1..=14 {
        let m = make(&mut *calls, number);
        calls.start(m).unwrap();
        seen.extend(calls.addresses(m, AddressSource::Agent, 1).unwrap().remove(0).addresses);
    }
    // Of sixteen, the network's, the router's and the broadcast address are not given out.
    assert_eq!(seen.len(), 13, "{seen:?}");
}

#[test]
fn l10_the_agent_answers_as_the_file_says() {
    let mut calls = calls(
        "domains:
- name: booting
  state: running
  metadata: [{uri: 'https://egress-plan.dev/ns/libvirt/1', xml: <instance xmlns='https://egress-plan.dev/ns/libvirt/1'/>}]
  addresses: {lease: [{mac: '52:54:00:00:00:01', addresses: [192.0.2.9]}]}
- {name: bare, state: running}",
    );
    let booting = calls.find_domain("booting").unwrap().unwrap().uuid;
    assert_eq!(refusal(calls.addresses(booting, AddressSource::Agent, 1)), (86, 10));
    assert_eq!(calls.addresses(booting, AddressSource::Lease, 1).unwrap()[0].addresses.len(), 1);
    assert_eq!(calls.addresses(booting, AddressSource::Arp, 1).unwrap(), []);
    let bare = calls.find_domain("bare").unwrap().unwrap().uuid;
    assert_eq!(refusal(calls.addresses(bare, AddressSource::Agent, 1)), (74, 10));
}

#[test]
fn states_without_a_name_are_served_as_they_are() {
    let mut calls = calls("domains: [{name: odd, state: '42', reason: 7}, {name: asleep, state: pmsuspended}]");
    let odd = calls.find_domain("odd").unwrap().unwrap();
    assert_eq!((calls.domain_state(odd.uuid).unwrap(), odd.active), ((42, 7), true));
    let stats = calls.domain_stats().unwrap();
    assert!(stats.iter().any(|stats| stats.state == state::PMSUSPENDED));
}

#[test]
fn disk_figures_of_a_running_domain_say_nothing_of_its_file() {
    let mut calls = calls(
        "pool: {volumes: [{name: m1.qcow2, format: qcow2, capacity: 1 GiB, allocation: 5 MiB}]}
domains: [{name: other, state: running, disks: [{path: /dev/sdb, capacity: 8, allocation: 4}]}]",
    );
    let m = calls.define(&domain_xml(1, "")).unwrap().uuid;
    let figures = |calls: &mut dyn Calls, uuid| {
        let stats = calls.domain_stats().unwrap().into_iter().find(|stats| stats.uuid == uuid).unwrap();
        (stats.disks[0].capacity, stats.disks[0].allocation)
    };
    assert_eq!(figures(&mut *calls, m), (1 << 30, 5 << 20));
    calls.start(m).unwrap();
    assert_eq!(figures(&mut *calls, m), (1 << 30, 0));
    let other = calls.find_domain("other").unwrap().unwrap().uuid;
    assert_eq!(figures(&mut *calls, other), (8, 4));
}

#[test]
fn autostart_is_kept_until_the_domain_goes() {
    let world = world("{}");
    let mut calls = connect(&world);
    let m = make(&mut *calls, 1);
    calls.set_autostart(m, true).unwrap();
    assert!(world.lock().unwrap().to_file().domains[0].autostart);
}
