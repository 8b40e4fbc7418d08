//! What becomes of a domain whose mark is not as it was written: a table of what happens to marks.

use std::collections::BTreeSet;

use super::*;
use crate::plan::Label;
use crate::provider::libvirt::config::PoolReserve;
use crate::provider::libvirt::mark::{samples, write};
use crate::provider::libvirt::naming::{RunId, instance_name};

const UUID: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

fn place(host: &str) -> HostRef {
    HostRef { entry: label("lab"), host: label(host) }
}

/// Host h1, formerly `old`, of a config that has h2 as well.
fn site() -> Site {
    Site {
        fleet: label("crawl-eu"),
        place: place("h1"),
        aliases: vec![label("old")],
        places: BTreeSet::from([place("h1"), place("h2")]),
        image_ids: BTreeSet::new(),
        run: RunId::parse("0123456789abcdef").unwrap(),
        pool: "default".to_owned(),
        reserve: PoolReserve::Bytes(0),
        wanted: BTreeSet::new(),
    }
}

fn name() -> String {
    instance_name(&label("crawl-eu"), &place("h1"), &samples::mark().proxy)
}

fn xml(mark: &Mark) -> String {
    write(mark).unwrap()
}

/// The good mark with one text replaced, which must be there.
fn with(from: &str, to: &str) -> String {
    let good = xml(&samples::mark());
    assert!(good.contains(from), "the mark holds no {from}");
    good.replacen(from, to, 1)
}

fn seen(name: &str, uuid: Uuid, text: &MarkText) -> String {
    match see(&site(), &DomainRow { uuid, name: name.to_owned(), active: true }, text) {
        Seen::Unmarked => "unmarked".to_owned(),
        Seen::OtherFleet(fleet, _) => format!("of fleet {fleet}"),
        Seen::Elsewhere(place) => format!("of {place}"),
        Seen::Fleet(Standing::Ours(_)) => "ours".to_owned(),
        Seen::Fleet(Standing::Blocked { reason, .. }) => format!("{reason:?}"),
    }
}

/// A running domain that has this mark in both configurations.
fn both(text: &str) -> String {
    let text = MarkText { persistent: Some(text.to_owned()), live: Some(text.to_owned()), had: (true, true) };
    seen(&name(), UUID, &text)
}

#[test]
fn l17_l18_l19_l20_each_thing_that_happens_to_a_mark_has_its_verdict() {
    let mark = samples::mark;
    let table: [(&str, String, &str); 18] = [
        ("as it was written", xml(&mark()), "ours"),
        ("padded", with(">crawl-eu<", ">\n\t crawl-eu \n<"), "ours"),
        ("in upper case", with(">lab<", ">LAB<"), "ours"),
        ("with a UUID in upper case and padded", with(">00000000-", "> 00000000-"), "ours"),
        ("with an element of a later program", with("<port>", "<colour>blue</colour><port>"), "ours"),
        ("of a future time", with("2026-11-29T", "2999-11-29T"), "ours"),
        ("without a time", with("<createdAt>2026-11-29T10:00:00Z</createdAt>", ""), "UnreadableMark"),
        ("of a time that is none", with("2026-11-29T", "2026-13-29T"), "UnreadableMark"),
        ("of a newer version", with("<instance version=\"1\"", "<instance version=\"2\""), "NewerTool"),
        ("of a newer version of one hash", with("<spec version=\"1\"", "<spec version=\"2\""), "NewerTool"),
        ("of no version", with("<catalogue version=\"1\"", "<catalogue version=\"0\""), "UnreadableMark"),
        ("with a shortened hash", with(&"b".repeat(64), &"b".repeat(63)), "UnreadableMark"),
        ("of another fleet", xml(&Mark { fleet: "other".into(), ..mark() }), "of fleet other"),
        ("of another host of the config", xml(&Mark { host: "h2".into(), ..mark() }), "of lab/h2"),
        ("of a host that nobody knows", xml(&Mark { host: "h9".into(), ..mark() }), "of lab/h9"),
        ("of the host's former name", xml(&Mark { host: "old".into(), ..mark() }), "Renamed"),
        ("of another domain", with(">00000000-", ">00000009-"), "CopiedMark"),
        ("of another proxy", with(">default/p1<", ">default/p2<"), "Renamed"),
    ];
    for (what, text, expected) in table {
        assert_eq!(both(&text), expected, "a mark {what}: {text}");
    }
}

#[test]
fn l18_a_mark_counts_only_under_its_own_uuid_and_name() {
    let text = Some(xml(&samples::mark()));
    let text = MarkText { persistent: text.clone(), live: text, had: (true, true) };
    assert_eq!(seen(&name(), UUID, &text), "ours");
    assert_eq!(seen(&name(), Uuid::from_u128(9), &text), "CopiedMark");
    assert_eq!(seen("clone-of-it", Uuid::from_u128(9), &text), "CopiedMark");
    assert_eq!(seen("renamed-by-hand", UUID, &text), "Renamed");
}

#[test]
fn l51_c19_a_mark_in_one_configuration_alone_blocks_unless_there_is_only_one() {
    let good = || Some(xml(&samples::mark()));
    let other = || Some(xml(&Mark { port: 1, ..samples::mark() }));
    let padded = || Some(with(">h1<", "> H1 <"));
    let damaged = || Some("<instance".to_owned());
    let both = (true, true);
    for (what, persistent, live, had, expected) in [
        ("running", good(), good(), both, "ours"),
        ("running, with one of them padded", good(), padded(), both, "ours"),
        ("running, lost from the configuration", None, good(), both, "MarkDiffers"),
        ("running, lost from the domain", good(), None, both, "MarkDiffers"),
        ("running, with two marks", good(), other(), both, "MarkDiffers"),
        ("running, damaged in the domain", good(), damaged(), both, "MarkDiffers"),
        ("running, damaged in the configuration", damaged(), good(), both, "UnreadableMark"),
        ("running, lost from both", None, None, both, "unmarked"),
        ("off", good(), None, (true, false), "ours"),
        ("off, lost", None, None, (true, false), "unmarked"),
        ("transient", None, good(), (false, true), "ours"),
    ] {
        assert_eq!(seen(&name(), UUID, &MarkText { persistent, live, had }), expected, "{what}");
    }
}

#[test]
fn l17_a_mark_that_was_cut_anywhere_is_never_ours() {
    let good = xml(&samples::mark());
    for end in 0..good.len() {
        assert_eq!(both(&good[..end]), "UnreadableMark", "cut after {end} bytes");
    }
}

#[test]
fn l17_a_part_that_is_lost_or_there_twice_is_never_guessed() {
    // What may be absent says nothing about whose the machine is or what it was made of.
    let optional = ["address", "startedAt", "source", "tool", "uid"];
    let whole = Mark {
        started_at: Some(samples::mark().created_at),
        source: Some("git".to_owned()),
        uid: Some("u".to_owned()),
        ..samples::mark()
    };
    let good = xml(&whole);
    let names = [
        "fleet",
        "provider",
        "host",
        "proxy",
        "domainUuid",
        "state",
        "spec",
        "catalogue",
        "address",
        "port",
        "labels",
        "protect",
        "createdAt",
        "startedAt",
        "source",
        "tool",
        "uid",
    ];
    for part in names {
        let (open, close) = (format!("<{part}"), format!("</{part}>"));
        let from = good.find(&open).unwrap_or_else(|| panic!("the mark holds no {part}"));
        let to = good.find(&close).unwrap() + close.len();
        let element = &good[from..to];
        let lost = good.replacen(element, "", 1);
        assert_eq!(both(&lost), if optional.contains(&part) { "ours" } else { "UnreadableMark" }, "without {part}");
        let doubled = good.replacen(element, &element.repeat(2), 1);
        // A machine may have several addresses.
        assert_eq!(both(&doubled), if part == "address" { "ours" } else { "UnreadableMark" }, "{part} twice");
    }
    let part = "<part name=\"image\" digest=\"4f1c9a2e\"/>";
    let doubled = good.replacen(part, &[part, "<part name=\"image\" digest=\"00000000\"/>"].concat(), 1);
    assert_eq!(both(&doubled), "UnreadableMark", "two digests of one part");
}
