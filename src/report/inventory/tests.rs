//! The formats, byte by byte, and what is listed.

use super::super::fixture::{Fleet, external, host, instance, key, known, managed, uuid};
use super::*;
use crate::plan::{Address, Power};

/// One of each: running, IPv6, stale, endpoint by name, off.
fn fleet() -> Fleet {
    let mut fleet = Fleet::new();
    for (proxy, address) in [
        ("a/four", known(&["192.0.2.18", "2001:db8::18"])),
        ("a/six", known(&["2001:db8::6"])),
        ("a/stale", known(&["192.0.2.77"])),
        ("a/off", known(&["192.0.2.66"])),
    ] {
        fleet.want(managed(proxy, "lab/h1"));
        let mut machine = instance(proxy, "lab/h1");
        machine.address = address;
        fleet.view("lab/h1").instances.push(machine);
    }
    fleet.want(external("b/partner", "proxy.example"));
    fleet.machine("a/off").power = Power::Off("crashed".to_owned());
    fleet.previous = Some(fleet.report());
    fleet.machine("a/stale").address = Address::Unknown("no answer".to_owned());
    fleet
}

fn rendered(format: &Format) -> String {
    format.render(&Inventory::of(&fleet().report())).expect("rendered").text
}

#[test]
fn the_canonical_json() {
    insta::assert_snapshot!(rendered(&Format::Json));
}

#[test]
fn the_plain_list_is_one_url_a_line_sorted_by_key() {
    assert_eq!(
        rendered(&Format::List(Template::default())),
        "http://192.0.2.18:3128\nhttp://[2001:db8::6]:3128\nhttp://192.0.2.77:3128\nhttp://proxy.example:8080\n"
    );
}

#[test]
fn a_template_makes_the_lines() {
    let template: Template =
        "{namespace}/{name} {authority} {scheme}|{host}|{port}|{{{id}}}".parse().expect("a template");
    let text = rendered(&Format::List(template));
    assert_eq!(text.lines().nth(1), Some("a/six [2001:db8::6]:3128 http|2001:db8::6|3128|{a/six}"));
}

#[test]
fn a_template_that_is_none_is_refused() {
    for (text, wanted) in [
        ("{user}", TemplateError::UnknownField { name: "user".to_owned() }),
        ("{host", TemplateError::Brace),
        ("host}", TemplateError::Brace),
        ("{host}\n{port}", TemplateError::Control),
    ] {
        assert_eq!(text.parse::<Template>(), Err(wanted), "{text:?}");
    }
    assert!(TemplateError::UnknownField { name: "user".to_owned() }.to_string().starts_with("{user} is not known"));
}

#[test]
fn file_sd_targets_have_no_scheme_and_string_labels() {
    insta::assert_snapshot!(rendered(&Format::FileSd));
    let empty = Format::FileSd.render(&Inventory::of(&Fleet::new().report())).expect("rendered");
    assert_eq!(empty.text, "[]\n");
}

#[test]
fn squid_peers_never_go_direct() {
    insta::assert_snapshot!(rendered(&Format::SquidPeers));
}

#[test]
fn an_unchanged_fleet_gives_the_same_bytes_at_another_time() {
    let mut later = fleet();
    later.run.ended_at += jiff::SignedDuration::from_mins(7);
    later.run.id = "another".to_owned();
    for format in [Format::Json, Format::List(Template::default()), Format::FileSd, Format::SquidPeers] {
        assert_eq!(format.render(&Inventory::of(&later.report())).expect("rendered").text, rendered(&format));
    }
}

#[test]
fn l10_a_lost_host_and_a_lost_address_leave_the_list_as_it_was() {
    let mut fleet = fleet();
    let list = Format::List(Template::default());
    let before = list.render(&Inventory::of(&fleet.report())).expect("rendered");
    fleet.previous = Some(fleet.report());
    fleet.lose("lab/h1");
    assert_eq!(list.render(&Inventory::of(&fleet.report())).expect("rendered"), before);
}

#[test]
fn the_figures_add_up_to_what_is_wanted() {
    let inventory = Inventory::of(&fleet().report());
    let counts = inventory.counts;
    assert_eq!((counts.desired, counts.ready, counts.pending, counts.failed), (5, 4, 1, 0));
    assert_eq!(inventory.proxies.len(), counts.ready);
}

#[test]
fn an_empty_list_is_known_in_every_format() {
    let empty = Inventory::of(&Fleet::new().report());
    let full = Inventory::of(&fleet().report());
    for format in [Format::Json, Format::List(Template::default()), Format::FileSd, Format::SquidPeers] {
        let text = |inventory| format.render(inventory).expect("rendered").text;
        assert!(format.is_empty_list(text(&empty).as_bytes()), "{format:?}");
        assert!(!format.is_empty_list(text(&full).as_bytes()), "{format:?}");
        assert!(format.is_empty_list(b"\n"), "{format:?}");
    }
    for format in [Format::Json, Format::FileSd] {
        assert!(!format.is_empty_list(b"http://192.0.2.1:1\n"), "what cannot be read may list something: {format:?}");
    }
}

#[test]
fn names_of_the_fixture_are_what_the_list_shows() {
    let inventory = Inventory::of(&fleet().report());
    assert_eq!(inventory.proxies[0].id, key("a/four"));
    assert_eq!(inventory.proxies[0].placement, Some(host("lab/h1").host));
    assert!(!rendered(&Format::Json).contains(&uuid("a/four")));
}
