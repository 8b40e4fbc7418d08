//! The file: reading, writing, and what it never holds.

use std::path::Path;

use super::super::super::calls::Config;
use super::super::{Bytes, RecordedHost};
use super::{connect, host, make, world};

const PLAIN: &str = include_str!("../../../../../../tests/fixtures/recorded/plain.yaml");

#[test]
fn the_sample_loads_and_its_normal_form_is_stable() {
    let sample = super::World::new(host(PLAIN)).to_file();
    assert_eq!(sample.hostname.as_deref(), Some("beelink"));
    assert_eq!(sample.pool.available, Some(Bytes(242 << 30)));
    assert_eq!(sample.domains.iter().map(|domain| domain.name.as_str()).collect::<Vec<_>>(), ["nas", "spare"]);
    let text = sample.to_yaml().unwrap();
    let again = super::World::new(host(&text)).to_file();
    assert_eq!(again, sample);
    assert_eq!(again.to_yaml().unwrap(), text);
}

#[test]
fn an_error_names_file_line_and_column() {
    for (text, start, what) in [
        ("hostname: a\npool:\n  capacty: 1\n", "h.yaml:3:3: ", "capacty"),
        ("hostname: a\npool:\n  capacity: lots\n", "h.yaml:3:13: ", "a number of bytes"),
        ("pool: {volumes: [{name: a, mode: '0999'}]}", "h.yaml:1:34: ", "octal"),
        ("domains:\n- {name: a, state: on}\n", "h.yaml:2:20: ", "a state"),
        ("domains:\n- {name: a, xml: <domain>}\n", "h.yaml:2:18: ", "premature end"),
        ("domains:\n- {name: a}\n- {name: a}\n", "h.yaml:", "the domain a is there twice"),
        ("domains: [{name: a, type: kvm, xml: <domain><name>a</name></domain>}]", "h.yaml:1:", "already says"),
        ("domains: [{name: b, xml: <domain><name>a</name></domain>}]", "h.yaml:1:", "another name"),
        ("pool: {volumes: [{name: a}, {name: a}]}", "h.yaml:1:", "the volume a is there twice"),
        ("format: egress-plan.dev/recorded/v2\n", "h.yaml:1:", "expected the format"),
        ("hostname: [\n", "h.yaml:", ""),
    ] {
        let error = RecordedHost::parse(text, Path::new("h.yaml")).unwrap_err().to_string();
        assert!(error.starts_with(start) && error.contains(what), "{text}\n{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_empty_file_is_a_host() {
    for text in ["{}", "hostname: a"] {
        assert_eq!(host(text).pool.name, "default");
    }
}

#[test]
fn a_host_is_written_and_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = world("{hostname: ../../etc/passwd, interfaces: [br0]}");
    let mut calls = connect(&world);
    let m = make(&mut *calls, 1);
    calls.start(m).unwrap();
    let saved = folder.path().join("h1.yaml");
    world.lock().unwrap().to_file().write(&saved).unwrap();
    let loaded = RecordedHost::load(&saved).unwrap();
    assert_eq!(loaded, world.lock().unwrap().to_file());
    let bytes = std::fs::read(&saved).unwrap();
    super::World::new(loaded).to_file().write(&saved).unwrap();
    assert_eq!(std::fs::read(&saved).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_gives_the_host_its_name_and_a_missing_one_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h1.yaml");
    assert!(RecordedHost::load(&path).unwrap_err().to_string().starts_with("cannot read the recorded host"));
    std::fs::write(&path, "uefi: false\n").unwrap();
    assert_eq!(RecordedHost::load(&path).unwrap().hostname.as_deref(), Some("h1"));
}

#[test]
fn an_edit_is_somebody_else_changing_the_host() {
    let world = world("{}");
    let mut calls = connect(&world);
    make(&mut *calls, 1);
    calls.upload("m1.qcow2", &mut &b"abc"[..], 3, &mut |_| {}).unwrap();
    world.lock().unwrap().edit(|host| host.domains[0].name = "renamed".into());
    assert!(calls.find_domain("renamed").unwrap().is_some());
    let world = world.lock().unwrap();
    assert_eq!(world.content("m1.qcow2"), Some(&b"abc"[..]));
    assert_eq!(world.calls().len(), 4);
}

#[test]
fn a_host_larger_than_the_reader_takes_by_itself_loads() {
    // It stops at 250,000 nodes of its own accord.
    let names = (0..260_000).map(|_| "e").collect::<Vec<_>>();
    let text = format!("interfaces: [{}]", names.join(","));
    assert_eq!(host(&text).interfaces.unwrap().len(), names.len());
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn any_text_in_a_mark_survives_the_file(text in "[ -~\t\n\r\u{a0}é😀]{0,60}", name in "v[a-z0-9._ -]{0,40}") {
        let world = world("{}");
        let mut calls = connect(&world);
        let m = make(&mut *calls, 1);
        let escaped = quick_xml::escape::escape(&text);
        let uri = super::super::MARK_NAMESPACE;
        calls.set_metadata(m, &[Config::Persistent], uri, "e", &format!("<instance>{escaped}</instance>")).unwrap();
        calls.create_volume(&super::volume_xml(&name, 0, 0, "raw", None)).unwrap();
        let file = world.lock().unwrap().to_file();
        let served = super::World::new(host(&file.to_yaml().unwrap()));
        proptest::prop_assert_eq!(served.to_file(), file);
        let mut again = connect(&super::Arc::new(super::Mutex::new(served)));
        let mark = again.metadata(m, Config::Persistent, uri).unwrap().unwrap();
        let expected = calls.metadata(m, Config::Persistent, uri).unwrap().unwrap();
        proptest::prop_assert_eq!(mark, expected);
    }
}

#[test]
fn the_schema_knows_every_field_and_no_other() {
    let schema = schemars::schema_for!(RecordedHost);
    assert_eq!(schema.get("additionalProperties"), Some(&serde_json::Value::Bool(false)));
    assert!(schema.pointer("/properties/recordedAt").is_some());
}
