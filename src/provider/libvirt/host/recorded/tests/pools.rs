//! The pool: names, refreshes, figures that are cached, and pools that do not work.

use super::super::super::calls::Calls;
use super::{FOLDER, calls, connect, refusal, volume_xml, world};

fn free(calls: &mut dyn Calls) -> u64 {
    calls.pool().unwrap().available
}

#[test]
fn a_volume_is_made_as_its_xml_says() {
    let mut calls = calls("recordedAt: 2026-11-20T10:00:00Z");
    calls.create_volume(&volume_xml("a.raw", 1 << 20, 0, "raw", None)).unwrap();
    let a = calls.volume("a.raw").unwrap().unwrap();
    assert_eq!((a.capacity, a.allocation, a.physical), (1 << 20, 0, Some(1 << 20)));
    assert_eq!((a.format.as_str(), a.mode, a.path), ("raw", Some(0o600), format!("{FOLDER}/a.raw")));
    assert_eq!(a.modified.unwrap().to_string(), "2026-11-20T10:00:01Z");
    calls.create_volume("<volume><name>full</name><capacity unit='KiB'>4</capacity></volume>").unwrap();
    assert_eq!(calls.volume("full").unwrap().unwrap().allocation, 4096);
    calls.create_volume(&volume_xml("zero", 0, 0, "raw", None)).unwrap();
    calls.create_volume(&volume_xml("q", 1 << 30, 0, "qcow2", None)).unwrap();
    let q = calls.volume("q").unwrap().unwrap();
    assert!(q.capacity == 1 << 30 && q.physical.unwrap() < 1 << 20, "{q:?}");
    assert_eq!(calls.volume_names().unwrap(), ["zero", "q", "full", "a.raw"]);
}

#[test]
fn names_that_the_daemon_refuses_are_refused_with_its_codes() {
    let mut calls = calls("{}");
    for (name, expected) in
        [("a/b", (55, 18)), (".", (55, 18)), ("..", (55, 18)), ("", (27, 18)), (&"x".repeat(256), (38, 18))]
    {
        assert_eq!(refusal(calls.create_volume(&volume_xml(name, 1, 0, "raw", None))), expected, "{name}");
    }
    calls.create_volume(&volume_xml(&"x".repeat(255), 1, 0, "raw", None)).unwrap();
    assert_eq!(refusal(calls.create_volume("<volume>")), (35, 18));
}

#[test]
fn exactly_one_of_several_creations_of_one_name_succeeds() {
    let mut calls = calls("{}");
    let results = (0..8).map(|_| calls.create_volume(&volume_xml("lock", 0, 0, "raw", None)));
    let refused = results.filter_map(Result::err).map(|error| (error.code, error.domain)).collect::<Vec<_>>();
    assert_eq!(refused, [(90, 18); 7]);
}

#[test]
fn a_file_that_libvirt_has_not_seen_is_there_and_not_there_until_a_refresh() {
    let mut calls = calls("pool: {volumes: [{name: f.raw, capacity: 100, unseen: true}]}");
    assert_eq!(calls.volume("f.raw").unwrap(), None);
    assert_eq!(refusal(calls.delete_volume("f.raw")), (50, 18));
    assert_eq!(refusal(calls.create_volume(&volume_xml("f.raw", 1, 0, "raw", None))), (55, 18));
    calls.refresh_pool().unwrap();
    assert_eq!(calls.volume("f.raw").unwrap().unwrap().capacity, 100);
    assert_eq!(refusal(calls.create_volume(&volume_xml("f.raw", 1, 0, "raw", None))), (90, 18));
}

#[test]
fn l32_a_file_that_went_past_libvirt_is_listed_until_a_refresh() {
    let world = world("pool: {volumes: [{name: a.raw, capacity: 1 MiB, allocation: 1 MiB}]}");
    let mut calls = connect(&world);
    world.lock().unwrap().lose_file("a.raw");
    assert_eq!(calls.volume_names().unwrap(), ["a.raw"]);
    assert_eq!(calls.volume("a.raw").unwrap(), None);
    assert_eq!(refusal(calls.upload("a.raw", &mut &b"x"[..], 1, &mut |_| {})), (38, 38));
    calls.delete_volume("a.raw").unwrap();
    assert_eq!(refusal(calls.delete_volume("a.raw")), (50, 18));
}

#[test]
fn l28_figures_are_those_of_the_last_refresh_with_what_was_made_since() {
    let world = world("pool: {capacity: 10 GiB, available: 8 GiB, free: 5 GiB}");
    let mut calls = connect(&world);
    assert_eq!(free(&mut *calls), 8 << 30);
    calls.create_volume(&volume_xml("a", 1 << 30, 1 << 30, "raw", None)).unwrap();
    assert_eq!(free(&mut *calls), 7 << 30);
    calls.refresh_pool().unwrap();
    assert_eq!(free(&mut *calls), 4 << 30);
    calls.delete_volume("a").unwrap();
    assert_eq!(free(&mut *calls), 5 << 30);
}

#[test]
fn a_full_pool_refuses_what_takes_room_and_nothing_else() {
    let mut calls = calls("pool: {capacity: 1 GiB, available: 4096}");
    assert_eq!(refusal(calls.create_volume(&volume_xml("a", 8192, 8192, "raw", None))), (38, 18));
    // Measured: qemu-img's failure has no code of its own.
    assert_eq!(refusal(calls.create_volume(&volume_xml("q", 8192, 0, "qcow2", None))), (1, 0));
    calls.create_volume(&volume_xml("sparse", 1 << 40, 0, "raw", None)).unwrap();
    assert_eq!(calls.volume_names().unwrap(), ["sparse"]);
}

#[test]
fn l29_an_overlay_may_be_shorter_than_its_base_and_needs_the_base_only_when_made() {
    let mut calls = calls("pool: {volumes: [{name: base, format: qcow2, capacity: 2 GiB}]}");
    let base = format!("{FOLDER}/base");
    calls.create_volume(&volume_xml("short", 1 << 20, 0, "qcow2", Some(&base))).unwrap();
    let short = calls.volume("short").unwrap().unwrap();
    assert_eq!((short.capacity, short.backing.as_deref()), (1 << 20, Some(base.as_str())));
    let same = "<volume><name>same</name><target><format type='qcow2'/></target>
        <backingStore><path>/var/lib/libvirt/images/base</path></backingStore></volume>";
    calls.create_volume(same).unwrap();
    assert_eq!(calls.volume("same").unwrap().unwrap().capacity, 2 << 30);
    calls.delete_volume("base").unwrap();
    calls.refresh_pool().unwrap();
    assert_eq!(calls.volume("short").unwrap().unwrap().backing.as_deref(), Some(base.as_str()));
    assert_eq!(refusal(calls.create_volume(&volume_xml("late", 1, 0, "qcow2", Some(&base)))), (38, 18));
}

#[test]
fn an_inactive_pool_tells_its_last_figures_and_refuses_the_rest() {
    let mut calls = calls("pool: {active: false, capacity: 10 GiB, available: 3 GiB}");
    let info = calls.pool().unwrap();
    assert_eq!((info.active, info.capacity, info.available), (false, 10 << 30, 3 << 30));
    for refused in [
        refusal(calls.volume_names()),
        refusal(calls.volume("a")),
        refusal(calls.refresh_pool()),
        refusal(calls.create_volume(&volume_xml("a", 1, 0, "raw", None))),
        refusal(calls.delete_volume("a")),
        refusal(calls.upload("a", &mut &b""[..], 0, &mut |_| {})),
    ] {
        assert_eq!(refused, (55, 18));
    }
}

#[test]
fn a_refresh_of_a_pool_whose_folder_is_gone_makes_it_inactive() {
    let mut calls = calls("pool: {folderGone: true, volumes: [{name: a}]}");
    assert_eq!(calls.volume_names().unwrap(), ["a"]);
    assert_eq!(refusal(calls.refresh_pool()), (38, 0));
    assert!(!calls.pool().unwrap().active);
    assert_eq!(refusal(calls.volume_names()), (55, 18));
}

#[test]
fn a_busy_pool_refuses_a_refresh_for_a_while() {
    let mut calls = calls("pool: {name: images, busyRefreshes: 2}");
    for _ in 0..2 {
        let refused = calls.refresh_pool().unwrap_err();
        assert_eq!((refused.code, refused.domain), (1, 18));
        assert_eq!(refused.message, "internal error: pool 'images' has asynchronous jobs running");
    }
    calls.refresh_pool().unwrap();
}

#[test]
fn a_pool_that_does_not_exist_is_not_found() {
    let mut calls = calls("pool: {missing: true}");
    assert_eq!(refusal(calls.pool()), (49, 18));
    assert_eq!(refusal(calls.volume_names()), (49, 18));
}

#[test]
fn two_hosts_written_by_hand_are_not_one_pool() {
    let mut one = calls("hostname: one");
    let mut two = calls("hostname: two");
    assert_ne!(one.pool().unwrap().uuid, two.pool().unwrap().uuid);
    assert_eq!(one.pool().unwrap().uuid, calls("hostname: one").pool().unwrap().uuid);
}
