//! Where user-data comes from.

use std::fs;

use super::*;

/// The messages about `spec` with files in a folder, and the bytes that were read.
fn read_spec(spec: &str, folder: &Path, root: &Path, secrets: Option<&Path>) -> (Option<Vec<u8>>, Vec<String>) {
    let node = Node::parse(spec, 0, Limits::MANIFEST).expect("YAML").expect("a document");
    let mut findings = Findings::default();
    let raw = node.read::<RawSpec>("spec", &mut findings).value.expect("a spec");
    let root = root.canonicalize().expect("a root");
    let reach =
        Reach { folder: Some(folder), root: Some(&root), secrets: secrets.map_or(Secrets::None, Secrets::Folder) };
    let found = read(&raw, "ns", &reach, &mut findings);
    let lines = findings.into_vec().into_iter().map(|f| format!("{}: {}", f.path, f.message)).collect();
    (found.data.map(|(data, _)| data.expose().to_vec()), lines)
}

#[test]
fn c18_user_data_is_delivered_byte_for_byte_with_a_warning_where_it_does_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let bytes: [&[u8]; 5] =
        [b"\xef\xbb\xbf#cloud-config\nCANARY: 1\n", b"", b"CANARY\n", &[0xff, 0, 0x80], b"#cloud-config\r\na: 1\r\n"];
    for data in bytes {
        fs::write(dir.path().join("u.yaml"), data).expect("written");
        let (read, lines) = read_spec("{cloudInitFrom: {file: u.yaml}}", dir.path(), dir.path(), None);
        assert_eq!(read.as_deref(), Some(data));
        assert_eq!(lines.len(), usize::from(!data.ends_with(b"\r\n")), "{lines:?}");
        assert!(!lines.concat().contains("CANARY"), "{lines:?}");
    }
    let (read, lines) = read_spec("cloudInit: >\n  #cloud-config\n  packages: [squid]\n", dir.path(), dir.path(), None);
    assert_eq!(read.as_deref(), Some(b"#cloud-config packages: [squid]\n".as_slice()));
    assert!(lines[0].contains("one comment line"), "{lines:?}");
}

#[test]
fn a_file_lies_inside_of_the_folder_with_links_resolved() {
    let dir = tempfile::tempdir().expect("a folder");
    let (inside, outside) = (dir.path().join("m"), dir.path().join("secret"));
    fs::create_dir(&inside).expect("made");
    fs::write(&outside, "#!/bin/sh\nCANARY\n").expect("written");
    fs::write(inside.join("ok"), "#!/bin/sh\n").expect("written");
    std::os::unix::fs::symlink(&outside, inside.join("link")).expect("linked");
    let message = |file: &str| {
        let spec = format!("{{cloudInitFrom: {{file: {file:?}}}}}");
        read_spec(&spec, &inside, &inside, None)
    };
    assert_eq!(message("ok"), (Some(b"#!/bin/sh\n".to_vec()), Vec::new()));
    for file in ["../secret", "link", outside.to_str().expect("text")] {
        let (data, lines) = message(file);
        assert!(data.is_none() && lines[0].contains("lies outside of the folder"), "{file}: {lines:?}");
    }
    for (file, why) in [("none", "does not exist"), (".", "is no regular file")] {
        let (data, lines) = message(file);
        assert!(data.is_none() && lines[0].contains(why), "{file}: {lines:?}");
    }
}

#[test]
fn a_secret_is_of_the_proxys_namespace_and_below_the_folder() {
    let dir = tempfile::tempdir().expect("a folder");
    let secret = dir.path().join("ns/squid");
    fs::create_dir_all(secret.join("..data")).expect("made");
    fs::write(secret.join("..data/user-data"), "#!/bin/sh\n").expect("written");
    std::os::unix::fs::symlink("..data/user-data", secret.join("user-data")).expect("linked");
    std::os::unix::fs::symlink("/etc/passwd", secret.join("passwd")).expect("linked");
    let read = |name: &str, key: &str, dir: Option<&Path>| {
        let spec = format!("{{cloudInitFrom: {{secretKeyRef: {{name: {name:?}, key: {key:?}}}}}}}");
        read_spec(&spec, Path::new("/"), Path::new("/"), dir)
    };
    assert_eq!(read("squid", "user-data", Some(dir.path())), (Some(b"#!/bin/sh\n".to_vec()), Vec::new()));
    for (name, key, why) in [
        ("squid", "other", "the secret ns/squid/other does not exist"),
        ("squid", "passwd", "lies outside of --secrets-dir"),
        ("../ns", "user-data", "cannot be a name"),
        ("squid", "../x", "cannot be a name"),
        ("squid", "..", "cannot be a name"),
    ] {
        let (data, lines) = read(name, key, Some(dir.path()));
        assert!(data.is_none() && lines[0].contains(why), "{name} {key}: {lines:?}");
    }
    let (_, lines) = read("squid", "user-data", None);
    assert!(lines[0].contains("use --secrets-dir"), "{lines:?}");
}

#[test]
fn user_data_has_at_most_one_mib() {
    let dir = tempfile::tempdir().expect("a folder");
    let read = |extra: usize| {
        let mut data = b"#!/bin/sh\n".to_vec();
        data.resize(UserData::MAX + extra, b'x');
        fs::write(dir.path().join("u"), data).expect("written");
        read_spec("{cloudInitFrom: {file: u}}", dir.path(), dir.path(), None)
    };
    assert!(read(0).0.is_some());
    let (data, lines) = read(1);
    assert!(data.is_none() && lines[0].contains("longer than 1 MiB"), "{lines:?}");
}

#[test]
fn an_open_proxy_is_warned_about_and_a_comment_is_not() {
    for (text, open) in [
        ("  - http_access allow all\n", true),
        ("content: \"acl x\\nhttp_access   allow  all\\n\"", true),
        ("# http_access allow all", false),
        ("http_access allow allowed", false),
        ("http_access deny all", false),
    ] {
        assert_eq!(allows_everybody(text.as_bytes()), open, "{text}");
    }
}

#[test]
fn user_data_that_switches_vendor_data_off_is_seen() {
    for (text, off) in [
        ("#cloud-config\nvendor_data: {enabled: false}\n", true),
        ("#cloud-config\nvendor_data:\n  enabled: no\n", true),
        ("#cloud-config\nvendor_data: {enabled: true}\n", false),
        ("#cloud-config\npackages: [squid]\n", false),
        ("#!/bin/sh\nvendor_data: {enabled: false}\n", false),
    ] {
        assert_eq!(switches_vendor_data_off(&UserData::new(text.as_bytes().to_vec())), off, "{text}");
    }
}
