//! Cases from the field on the built binary: what lies in folders of manifests, what files begin
//! with, what must not be shown, and neighbours on a host.

use std::fs;
use std::os::unix::fs::symlink;

use egress_plan::provider::libvirt::host::recorded::RecordedHost;

use super::lab::Lab;
use super::{Ended, run};

/// A manifest with this name and these lines in place of its user-data.
fn manifest(name: &str, user_data: &str) -> String {
    format!(
        "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: {name}, namespace: t}}\nspec:\n  \
         provider: lab\n  port: 3128\n  placement: {{zone: h1, machineType: small, image: debian-13}}\n{user_data}"
    )
}

const CLOUD_INIT: &str = "  cloudInit: \"#cloud-config\\npackages: [squid]\\n\"\n";

/// Runs a command on manifests.
fn on(lab: &Lab, line: &str, manifests: &str) -> Ended {
    let mut command = lab.command(line);
    command.args(["-f", manifests]);
    run(command)
}

fn apply(lab: &Lab, manifests: &str, code: i32) -> Ended {
    let ended = on(lab, "apply --simulate --auto-approve --allow-empty --save-recorded .", manifests);
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    ended
}

fn no_changes(lab: &Lab, manifests: &str) {
    let ended = on(lab, "diff", manifests);
    assert!(ended.code == Some(0) && ended.stdout.ends_with("No changes.\n"), "{}{}", ended.stdout, ended.stderr);
}

/// A lab without the fixture's own manifests, with a folder `m`.
fn blank() -> Lab {
    let lab = Lab::new();
    fs::rename(lab.path("proxies.yaml"), lab.path("proxies.txt")).expect("moved");
    fs::create_dir(lab.path("m")).expect("made");
    lab.edit("config.yaml", "fleet: fixtures\n", "fleet: cases\npolicy: {minAge: 0s, maxDeletions: 100%}\n");
    lab
}

#[test]
fn c01_a_file_that_cannot_be_read_plans_nothing_for_what_the_others_describe() {
    let lab = blank();
    let list = "apiVersion: v1\nkind: List\nitems:\n- ".to_owned()
        + manifest("p9", CLOUD_INIT).trim_end().replace('\n', "\n  ").as_str()
        + "\n- "
        + manifest("p10", CLOUD_INIT).trim_end().replace('\n', "\n  ").as_str();
    lab.write("m/list.yaml", &list);
    lab.write("m/p1.yaml", &["\u{feff}", &manifest("p1", CLOUD_INIT), "---"].concat());
    apply(&lab, "m", 0);
    no_changes(&lab, "m");
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(manifest("p7", CLOUD_INIT).encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let pasted = manifest("p8", CLOUD_INIT).replace("\n  ", "\n\u{a0}\u{a0}");
    for (name, bytes, said) in [
        ("p7.yaml", utf16.as_slice(), "m/p7.yaml:1:1: this file is UTF-16 text"),
        ("p8.yaml", pasted.as_bytes(), "m/p8.yaml:5:1: the character U+00A0 (a no-break space)"),
    ] {
        fs::write(lab.path("m").join(name), bytes).expect("written");
        let ended = apply(&lab, "m", 1);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(said), "{name}: {}", ended.stderr);
        fs::remove_file(lab.path("m").join(name)).expect("removed");
    }
    no_changes(&lab, "m");
}

#[test]
fn c03_no_command_shows_what_a_broken_manifest_holds() {
    let broken = [
        "  cloudInit: {password: CANARY-1}\n",
        "  cloudInit: [CANARY-2]\n",
        "  cloudInit: |\n    #cloud-config\n    password: CANARY-3\n   port: x\n",
        "  cloudinit: |\n    #cloud-config\n    password: CANARY-4\n",
        "  cloudInit: CANARY-5\n  cloudInit: |\n    CANARY-5\n",
        "  cloudInit: CANARY-6\n  protect: \"x\"\n",
        "  cloudInitFrom: {secretKeyRef: {name: s, key: k}}\n",
    ];
    let lab = blank();
    for (number, user_data) in (1..).zip(broken) {
        lab.write(&format!("m/{number}.yaml"), &manifest(&format!("p{number}"), user_data));
    }
    fs::create_dir_all(lab.path("s/t/s")).expect("made");
    fs::write(lab.path("s/t/s/k"), b"CANARY-7\xff\n").expect("written");
    lab.edit("config.yaml", "    images:\n", "    vendorData: |\n      CANARY-8\n    images:\n");
    for line in [
        "validate",
        "validate -o json",
        "diff -vv",
        "diff -o json",
        "diff -o markdown",
        "status",
        "apply --simulate --auto-approve -vv",
    ] {
        for log in ["text", "json"] {
            let ended = on(&lab, &format!("{line} --secrets-dir s --log-format {log}"), "m");
            assert_eq!(ended.code, Some(1), "{line}: {}", ended.stderr);
            let all = ended.stdout + &ended.stderr;
            assert!(!all.contains("CANARY"), "{line}: {all}");
            for number in 1..=7 {
                assert!(all.contains(&format!("m/{number}.yaml")), "{line}: {number} is not located: {all}");
            }
            assert!(all.contains("config.yaml"), "{line}: {all}");
        }
    }
    // What is sound is as silent: neither the plan nor its debug output shows user-data.
    let sound = blank();
    sound.write("m/p.yaml", &manifest("p", "  cloudInit: \"#cloud-config\\npassword: CANARY-9\\n\"\n"));
    for line in ["validate -vv", "diff -vv", "diff -o json -vv", "diff -o markdown", "diff --log-format json -vv"] {
        let ended = on(&sound, line, "m");
        assert!(ended.code == Some(0) && !(ended.stdout + &ended.stderr).contains("CANARY"), "{line}");
    }
}

/// User-data by its first bytes, and a part of the warning about it.
const FIRST_BYTES: [(&str, &[u8], Option<&str>); 16] = [
    ("plain", b"#cloud-config\npackages: [squid]\n", None),
    ("CRLF", b"#cloud-config\r\npackages: [squid]\r\n", None),
    ("a script", b"#!/bin/sh\necho CANARY\n", None),
    ("Jinja", b"## template: jinja\n#cloud-config\na: CANARY\n", None),
    ("MIME", b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b--\n", None),
    ("a list of URLs", b"#include\nhttps://a.example/CANARY\n", None),
    ("gzip", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], None),
    ("a byte order mark", b"\xef\xbb\xbf#cloud-config\na: CANARY\n", Some("byte order mark")),
    ("UTF-16", b"\xff\xfe#\0c\0", Some("UTF-16")),
    ("a document marker", b"---\n#cloud-config\na: CANARY\n", Some("---")),
    ("a blank line", b"\n#cloud-config\na: CANARY\n", Some("blank line")),
    ("a blank in the header", b"# cloud-config\na: CANARY\n", Some("#cloud-config")),
    ("base64", b"I2Nsb3VkLWNvbmZpZwpwYWNrYWdlczogW3NxdWlkXQo=\n", Some("base64")),
    ("one comment line", b"#cloud-config a: CANARY\n", Some("one comment line")),
    ("no header", b"a: CANARY\n", Some("cloud-init would do nothing")),
    ("nothing", b"", Some("empty")),
];

#[test]
fn c18_what_cloud_init_would_not_know_is_warned_about_from_every_source() {
    let quoted = |data: &[u8]| serde_json::to_string(std::str::from_utf8(data).expect("text")).expect("JSON");
    for (what, data, warning) in FIRST_BYTES {
        let lab = blank();
        fs::create_dir_all(lab.path("s/t/s")).expect("made");
        fs::write(lab.path("s/t/s/k"), data).expect("written");
        fs::write(lab.path("m/u.txt"), data).expect("written");
        let mut sources = vec![
            ("a file", "  cloudInitFrom: {file: u.txt}\n".to_owned()),
            ("a secret", "  cloudInitFrom: {secretKeyRef: {name: s, key: k}}\n".to_owned()),
        ];
        if std::str::from_utf8(data).is_ok() {
            sources.push(("the manifest", format!("  cloudInit: {}\n", quoted(data))));
        }
        for (source, user_data) in sources {
            lab.write("m/p.yaml", &manifest("p", &user_data));
            let lines = ["validate --secrets-dir s", "diff --secrets-dir s"];
            for line in lines.iter().take(if source == "a file" { 2 } else { 1 }) {
                let ended = on(&lab, line, "m");
                let all = ended.stdout + &ended.stderr;
                assert_eq!(ended.code, Some(0), "{what} from {source}: {all}");
                assert!(!all.contains("CANARY"), "{what} from {source}: {all}");
                match warning {
                    None => assert!(!all.contains("warning"), "{what} from {source}: {all}"),
                    Some(part) => assert!(all.contains("warning") && all.contains(part), "{what} from {source}: {all}"),
                }
            }
        }
    }
}

#[test]
fn c18_the_same_bytes_from_any_source_are_the_same_machine() {
    let lab = blank();
    let data = b"\xef\xbb\xbf#cloud-config\r\na: 1\r\n";
    fs::create_dir_all(lab.path("s/t/s")).expect("made");
    fs::write(lab.path("s/t/s/k"), data).expect("written");
    fs::write(lab.path("m/u.txt"), data).expect("written");
    let text = serde_json::to_string(std::str::from_utf8(data).expect("text")).expect("JSON");
    lab.write("m/p.yaml", &manifest("p", &format!("  cloudInit: {text}\n")));
    apply(&lab, "m", 0);
    for user_data in ["  cloudInitFrom: {file: u.txt}\n", "  cloudInitFrom: {secretKeyRef: {name: s, key: k}}\n"] {
        lab.write("m/p.yaml", &manifest("p", user_data));
        let ended = on(&lab, "diff --secrets-dir s", "m");
        assert!(ended.stdout.ends_with("No changes.\n"), "{}", ended.stdout);
    }
    fs::write(lab.path("m/u.txt"), &data[3..]).expect("written");
    lab.write("m/p.yaml", &manifest("p", "  cloudInitFrom: {file: u.txt}\n"));
    let shown = on(&lab, "diff", "m").stdout;
    assert!(shown.contains("1 to replace"), "a byte less is another machine: {shown}");
}

#[test]
fn c24_a_mounted_config_map_is_read_once_and_a_new_one_is_no_change() {
    let lab = blank();
    let m = lab.path("m");
    let write = |folder: &str| {
        fs::create_dir(m.join(folder)).expect("made");
        fs::write(m.join(folder).join("p1.yaml"), manifest("p1", "  cloudInitFrom: {file: squid.yaml}\n"))
            .expect("written");
        fs::write(m.join(folder).join("squid.yaml"), "#cloud-config\npackages: [squid]\n").expect("written");
    };
    write("..2026_01_01");
    symlink("..2026_01_01", m.join("..data")).expect("linked");
    for name in ["p1.yaml", "squid.yaml"] {
        symlink(format!("..data/{name}"), m.join(name)).expect("linked");
    }
    lab.write("m/p2.yml", &manifest("p2", CLOUD_INIT));
    for (name, text) in [
        (".p1.yaml.swp", "\0\u{1}b0VIM"),
        ("p2.yml~", &manifest("p2", CLOUD_INIT)),
        ("README.md", "hello\n"),
        (".lint.yaml", "tests: []\n"),
    ] {
        fs::write(m.join(name), text).expect("written");
    }
    symlink("someone@pc.1", m.join(".#p1.yaml")).expect("linked");
    symlink("m", lab.path("current")).expect("linked");

    assert!(apply(&lab, "m", 0).stdout.contains("Applied: 2 created"));
    no_changes(&lab, "m");
    no_changes(&lab, "current");
    write("..2026_02_02");
    fs::remove_file(m.join("..data")).expect("removed");
    symlink("..2026_02_02", m.join("..data")).expect("linked");
    fs::remove_dir_all(m.join("..2026_01_01")).expect("removed");
    no_changes(&lab, "current");

    for (name, target) in [("p3.yaml", "nowhere.yaml"), ("sub", "sub")] {
        symlink(target, m.join(name)).expect("linked");
        let ended = apply(&lab, "m", 1);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(&format!("m/{name}: ")), "{}", ended.stderr);
        fs::remove_file(m.join(name)).expect("removed");
    }
    no_changes(&lab, "m");
}

#[test]
fn c10_l25_neighbours_stay_as_they_are_and_what_they_use_stays() {
    let lab = Lab::new();
    let base = "egress-plan-base-lab-debian";
    let by_volume = format!("{base}-12-cccccccccccccccccccccccccccccccc-000000000003.qcow2");
    let by_link = format!("{base}-11-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-000000000002.qcow2");
    let neighbours = format!(
        "- name: by-volume\n  uuid: 00000000-0000-4000-8000-00000000000a\n  state: shutoff\n  reason: 0\n  type: kvm\n  \
         disks: [{{pool: default, volume: {by_volume}}}]\n\
         - name: by-link\n  uuid: 00000000-0000-4000-8000-00000000000b\n  state: running\n  reason: 1\n  type: kvm\n  \
         disks: [{{path: /srv/link/{by_link}}}]\n\
         - name: cloud\n  uuid: 00000000-0000-4000-8000-00000000000c\n  state: running\n  reason: 1\n  type: kvm\n  \
         metadata: [{{uri: \"http://openstack.org/xmlns/libvirt/nova/1.1\"}}, {{uri: \"urn:boxes\"}}]\n  \
         disks: [{{path: \"\"}}, {{path: /dev/rbd0}}]\n\
         - name: spare\n"
    );
    lab.edit("h1.yaml", "- name: spare\n", &neighbours);
    lab.edit("proxies.yaml", "name: crawl-1,", "name: crawl-9,");
    let others = |lab: &Lab| {
        let host = RecordedHost::load(&lab.path("h1.yaml")).expect("a host");
        let mut others = host.domains;
        others.retain(|domain| !domain.name.starts_with("egress-"));
        others.sort_by(|a, b| a.name.cmp(&b.name));
        others
    };
    let before = others(&lab);
    assert_eq!(before.len(), 5);
    let applied = lab.run_with_manifests("apply --simulate --auto-approve --save-recorded .");
    assert!(
        applied.stdout.contains("Applied: 1 created") && applied.stdout.contains("1 deleted"),
        "{}",
        applied.stdout
    );
    assert!(applied.stdout.contains("5 others"), "{}", applied.stdout);
    assert_eq!(others(&lab), before);
    let pruned = lab.run_with_manifests("images prune --simulate --auto-approve --save-recorded .");
    assert_eq!(pruned.code, Some(0), "{}", pruned.stderr);
    for used in [&by_volume, &by_link] {
        assert!(lab.read("h1.yaml").contains(&format!("- name: {used}\n")), "{used} is gone: {}", pruned.stdout);
    }
    assert_eq!(others(&lab), before);
    let list = lab.run("images list -o json").stdout;
    for user in ["\"by-volume\"", "\"by-link\""] {
        assert!(list.contains(user), "{user} is not named: {list}");
    }
}

#[test]
fn c10_a_machine_that_lost_its_mark_is_neither_rebuilt_beside_nor_deleted() {
    let lab = Lab::new();
    let text = lab.read("h1.yaml");
    let (from, to) = ("        <egress:instance version", "        </egress:instance>\n");
    let (start, end) = (text.find(from).expect("a mark"), text.find(to).expect("its end") + to.len());
    lab.write("h1.yaml", &[&text[..start], &text[end..]].concat());
    let applied = lab.run_with_manifests("apply --simulate --auto-approve --save-recorded out");
    assert!(
        applied.stdout.contains("a machine named egress-crawl-1-72hzu4po is there without our mark"),
        "{}",
        applied.stdout
    );
    let after = lab.read("out/h1.yaml");
    for kept in ["- name: egress-crawl-1-72hzu4po\n", "- name: egress-crawl-1-72hzu4po-7f2eda46.qcow2\n"] {
        assert!(after.contains(kept), "{kept}");
    }
    assert_eq!(after.matches("- name: egress-crawl-1-").count(), 3, "a domain, its disk and its seed, and no twin");
}
