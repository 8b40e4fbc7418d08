//! Connections that end, faults on demand, hosts that do not answer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;

use super::super::super::calls::{CallError, Calls};
use super::super::super::link::{Link, Purpose, Stage};
use super::super::{Effect, OPEN, RecordedLink, Rule};
use super::{calls, connect, domain_xml, make, opened, refusal, uuid, volume_xml, world};
use crate::plan::Reason;
use crate::provider::error::Class;

fn dead(error: &CallError) -> (i32, i32, bool) {
    (error.code, error.domain, error.dead)
}

#[test]
fn l03_a_killed_connection_refuses_every_call_and_others_go_on() {
    let world = world("{}");
    let mut one = opened(&world);
    let mut two = connect(&world);
    one.calls.hostname().unwrap();
    (one.kill)();
    (one.kill)();
    for _ in 0..2 {
        let refused = one.calls.create_volume(&volume_xml("v", 0, 0, "raw", None)).unwrap_err();
        assert_eq!(dead(&refused), (1, 7, true));
        assert_eq!(refused.message, "internal error: client socket is closed");
    }
    assert_eq!(two.volume("v").unwrap(), None);
}

#[test]
fn l01_closing_the_way_ends_its_connections_and_opens_no_more() {
    let world = world("{}");
    let link = RecordedLink::new(Arc::clone(&world));
    let open = || link.open(Purpose::Upload, Duration::from_secs(1)).now_or_never().unwrap();
    let mut one = open().unwrap();
    link.close().now_or_never().unwrap();
    assert!(one.calls.hostname().unwrap_err().dead);
    assert!(open().is_err());
    connect(&world).hostname().unwrap();
}

#[test]
fn a_host_that_is_recorded_as_unreachable_fails_as_a_live_one() {
    for (reason, stage, class) in [
        (Reason::CredentialsUnavailable, Stage::Credentials, Class::Transient),
        (Reason::Unreachable, Stage::Tcp, Class::Transient),
        (Reason::Timeout, Stage::Tcp, Class::Transient),
        (Reason::HostKeyMismatch, Stage::Ssh, Class::Permanent),
        (Reason::Unauthorized, Stage::Ssh, Class::Permanent),
        (Reason::Forbidden, Stage::Libvirt, Class::Permanent),
    ] {
        let world = world(&format!("unreachable: {{reason: {reason:?}, message: no answer, hint: look}}"));
        let opened = RecordedLink::new(world).open(Purpose::Calls, Duration::from_secs(1)).now_or_never().unwrap();
        let error = opened.err().unwrap();
        assert_eq!((error.reason, error.stage, error.class), (reason, stage, class));
        assert_eq!((error.message.as_str(), error.hint.as_deref()), ("no answer", Some("look")));
    }
}

#[test]
fn a_call_can_be_made_to_fail_before_it_acts() {
    let world = world("{}");
    let mut calls = connect(&world);
    let busy = CallError { code: 68, domain: 10, message: "busy".into(), dead: false, ended: None };
    world.lock().unwrap().fail(Rule::nth(2, Effect::Refuse(busy)).of("create_volume"));
    let create = |calls: &mut dyn Calls, name| calls.create_volume(&volume_xml(name, 0, 0, "raw", None));
    create(&mut *calls, "a").unwrap();
    assert_eq!(refusal(create(&mut *calls, "b")), (68, 10));
    create(&mut *calls, "c").unwrap();
    assert_eq!(calls.volume_names().unwrap(), ["c", "a"]);
}

#[test]
fn a_cut_before_leaves_the_host_as_it_was_and_a_cut_after_does_not() {
    for (effect, happened) in [(Effect::CutBefore, false), (Effect::CutAfter, true)] {
        let world = world("{}");
        let mut calls = connect(&world);
        world.lock().unwrap().fail(Rule::nth(3, effect));
        calls.hostname().unwrap();
        calls.pool().unwrap();
        let lost = calls.define(&domain_xml(1, "")).unwrap_err();
        assert_eq!(dead(&lost), (38, 7, true));
        assert_eq!(dead(&calls.hostname().unwrap_err()), (1, 7, true));
        assert_eq!(connect(&world).domain_exists(uuid(1)).unwrap(), happened);
    }
}

#[test]
fn rules_are_limited_by_call_object_and_change() {
    let world = world("{}");
    let mut calls = connect(&world);
    let no = CallError { code: 1, domain: 10, message: "no".into(), dead: false, ended: None };
    world.lock().unwrap().fail(Rule::always(Effect::Refuse(no.clone())).on("b"));
    world.lock().unwrap().fail(Rule::nth(3, Effect::Refuse(no)).changing());
    let create = |calls: &mut dyn Calls, name| calls.create_volume(&volume_xml(name, 0, 0, "raw", None)).is_ok();
    assert!(create(&mut *calls, "a"));
    assert!(!create(&mut *calls, "b"));
    calls.pool().unwrap();
    assert!(!create(&mut *calls, "c"), "the third change");
    assert!(calls.volume("b").is_err());
    world.lock().unwrap().heal();
    assert!(create(&mut *calls, "b"));
}

#[test]
fn points_run_before_and_after_and_may_change_the_world() {
    let world = world("{}");
    let mut calls = connect(&world);
    let other = Mutex::new(connect(&world));
    let make = Arc::new(move || {
        other.lock().unwrap().create_volume(&volume_xml("v", 0, 0, "raw", None)).unwrap();
    });
    world.lock().unwrap().fail(Rule::nth(1, Effect::Before(make)).of("create_volume"));
    let seen = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&seen);
    let after = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    world.lock().unwrap().fail(Rule::always(Effect::After(after)).of("create_volume"));
    // Somebody was faster.
    assert_eq!(refusal(calls.create_volume(&volume_xml("v", 0, 0, "raw", None))), (90, 18));
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn l02_a_call_that_hangs_ends_when_its_connection_is_ended() {
    let world = world("{}");
    let mut one = opened(&world);
    let (tell, told) = std::sync::mpsc::channel();
    let arrived = Arc::new(move || tell.send(()).unwrap());
    world.lock().unwrap().fail(Rule::nth(1, Effect::Before(arrived)));
    world.lock().unwrap().fail(Rule::nth(1, Effect::Hang));
    let waiting = std::thread::spawn(move || one.calls.hostname());
    told.recv().unwrap();
    // Others are not held up.
    connect(&world).pool().unwrap();
    (one.kill)();
    assert_eq!(dead(&waiting.join().unwrap().unwrap_err()), (38, 7, true));
}

#[test]
fn an_upload_is_cut_between_two_pieces() {
    let world = world("{}");
    let mut one = opened(&world);
    one.calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
    let kill = Arc::clone(&one.kill);
    let bytes = vec![1; 200_000];
    let cut = one.calls.upload("u", &mut &bytes[..], 200_000, &mut |_| kill()).unwrap_err();
    assert_eq!(dead(&cut), (38, 7, true));
    assert_eq!(connect(&world).volume("u").unwrap().unwrap().physical, Some(65_536));
}

#[test]
fn l24_a_rule_reaches_into_the_middle_of_an_upload() {
    let world = world("{}");
    let mut calls = connect(&world);
    calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
    let other = Mutex::new(connect(&world));
    let delete = Arc::new(move || other.lock().unwrap().delete_volume("u").unwrap());
    world.lock().unwrap().fail(Rule::nth(1, Effect::DuringUpload(100_000, delete)).of("upload"));
    let bytes = vec![1; 200_000];
    calls.upload("u", &mut &bytes[..], 200_000, &mut |_| {}).unwrap();
    assert_eq!(calls.volume("u").unwrap(), None);

    calls.create_volume(&volume_xml("v", 0, 0, "raw", None)).unwrap();
    world.lock().unwrap().fail(Rule::nth(1, Effect::CutUpload(100_000)).of("upload"));
    assert!(calls.upload("v", &mut &bytes[..], 200_000, &mut |_| {}).unwrap_err().dead);
    assert_eq!(connect(&world).volume("v").unwrap().unwrap().physical, Some(131_072));
}

#[test]
fn opening_a_connection_can_fail_and_is_counted_apart() {
    let world = world("{}");
    let link = RecordedLink::new(Arc::clone(&world));
    let open = || link.open(Purpose::Calls, Duration::from_secs(1)).now_or_never().unwrap();
    world.lock().unwrap().fail(Rule::nth(1, Effect::CutBefore));
    world.lock().unwrap().fail(Rule::nth(2, Effect::Hang).of(OPEN));
    let mut first = open().unwrap();
    assert_eq!(open().err().unwrap().reason, Reason::Timeout);
    open().unwrap();
    assert!(first.calls.hostname().unwrap_err().dead, "the first call, not the first opening");
    let world = world.lock().unwrap();
    assert_eq!((world.opens(), world.calls().len()), (3, 1));
}

#[test]
fn a_rule_can_lose_the_tail_of_one_upload() {
    let world = world("{}");
    let mut calls = connect(&world);
    world.lock().unwrap().fail(Rule::nth(1, Effect::LoseTail(1)).of("upload"));
    for expected in [2, 3] {
        let name = format!("u{expected}");
        calls.create_volume(&volume_xml(&name, 0, 0, "raw", None)).unwrap();
        calls.upload(&name, &mut &b"abc"[..], 3, &mut |_| {}).unwrap();
        assert_eq!(calls.volume(&name).unwrap().unwrap().physical, Some(expected));
    }
}

#[test]
fn the_log_names_each_call_and_its_object() {
    let world = world("{}");
    let mut calls = connect(&world);
    let m = make(&mut *calls, 1);
    calls.start(m).unwrap();
    calls.domain_exists(uuid(9)).unwrap();
    let world = world.lock().unwrap();
    let log = world.calls().iter().map(|called| (called.call, called.object.as_str(), called.changes));
    let gone = uuid(9).to_string();
    assert_eq!(
        log.collect::<Vec<_>>(),
        [
            ("create_volume", "m1.qcow2", true),
            ("define", "m1", true),
            ("start", "m1", true),
            ("domain_exists", &gone, false)
        ]
    );
}

#[test]
fn time_passes_with_changes_alone() {
    let world = world("recordedAt: 2026-11-20T10:00:00Z");
    let mut calls = connect(&world);
    calls.pool().unwrap();
    calls.refresh_pool().unwrap();
    for name in ["a", "b"] {
        calls.create_volume(&volume_xml(name, 0, 0, "raw", None)).unwrap();
    }
    let modified = ["a", "b"].map(|name| calls.volume(name).unwrap().unwrap().modified.unwrap().to_string());
    assert_eq!(modified, ["2026-11-20T10:00:01Z", "2026-11-20T10:00:02Z"]);
}

#[test]
fn an_interface_is_there_or_not_or_nobody_can_tell() {
    for (file, expected) in [("interfaces: [br0]", Some(true)), ("interfaces: []", Some(false)), ("{}", None)] {
        assert_eq!(calls(file).interface_exists("br0").unwrap(), expected);
    }
}
