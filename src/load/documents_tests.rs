//! How files fall into documents.

use super::*;

#[test]
fn a_marker_at_the_start_of_a_line_divides_and_an_indented_one_does_not() {
    let chunks =
        |text: &'static str| split(text).into_iter().map(|(line, chunk)| (line, chunk.to_owned())).collect::<Vec<_>>();
    assert_eq!(
        chunks("a: 1\n--- # c\nb: |\n  ---\n  x\n"),
        [(0, "a: 1\n".into()), (1, "--- # c\nb: |\n  ---\n  x\n".into())]
    );
    assert_eq!(chunks("a\n...\nb\n"), [(0, "a\n".into()), (2, "b\n".into())]);
    assert_eq!(chunks("---a\n"), [(0, "---a\n".to_owned())]);
    assert_eq!(chunks("--- {a: 1}"), [(0, "--- {a: 1}".to_owned())]);
}

#[test]
fn text_that_is_not_utf8_is_refused_at_its_first_odd_byte() {
    let fault = decode(b"a: 1\nb: \xff\n").expect_err("refused");
    assert_eq!((fault.at.line, fault.at.column), (2, 4));
    assert_eq!(decode(b"\xef\xbb\xbfa"), Ok("a"));
    for utf16 in [b"\xff\xfea\0".as_slice(), b"\xfe\xff\0a", b"a\0b\0", b"\0a\0b"] {
        assert!(decode(utf16).expect_err("refused").message.contains("UTF-16"), "{utf16:?}");
    }
    assert_eq!(decode(b"\0\0"), Ok("\0\0"));
}

#[test]
fn a_bad_document_hides_nothing_of_the_others() {
    let text = "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\n---\na: [\n---\napiVersion: egress-plan.dev/v1alpha1\nkind: ProxySet\n";
    let documents = read(text);
    assert_eq!(documents.ours.iter().map(|d| d.kind).collect::<Vec<_>>(), [Kind::Proxy, Kind::ProxySet]);
    assert_eq!(documents.ours[1].node.at.line, 6);
    assert_eq!(documents.findings.len(), 1);
}

#[test]
fn lists_are_opened_and_their_items_are_told_apart() {
    let item = "{apiVersion: egress-plan.dev/v1alpha1, kind: Proxy}";
    let documents = read(&format!(
        "{{apiVersion: v1, kind: List, items: [{item}, {{kind: Secret}}, {{apiVersion: v1, kind: List, items: [{item}]}}]}}"
    ));
    let paths: Vec<&str> = documents.ours.iter().map(|d| d.path.as_str()).collect();
    assert_eq!(
        (paths, documents.skipped.len(), documents.findings.len()),
        (vec!["items[0]", "items[2].items[0]"], 1, 0)
    );
    assert_eq!(read("kind: List\n").findings.len(), 1);
}

#[test]
fn cloud_init_data_is_passed_over_unless_it_speaks_of_our_api() {
    assert_eq!(read("#cloud-config\nkind: Proxy\n").skipped.len(), 1);
    let ours = read("#cloud-config\n---\napiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\n");
    assert_eq!(ours.ours.len(), 1);
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_reading_fail(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        if let Ok(text) = decode(&bytes) {
            read(text);
        }
    }

    #[test]
    fn no_text_makes_reading_fail(text in "([ a-z0-9:|>&*!'\"{},\\[\\]#\u{a0}\n-]|---\n|kind: List\n|apiVersion: ){0,40}") {
        let documents = read(&text);
        let lines = text.lines().count() + 1;
        proptest::prop_assert!(documents.findings.iter().all(|f| (1..=lines).contains(&f.at.line)), "{:?}", documents.findings);
    }
}
