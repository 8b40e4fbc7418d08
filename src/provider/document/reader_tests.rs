//! What a document with problems tells.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::{Findings, Limits, Located, Node};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Outer {
    name: Option<Located<String>>,
    port: Option<Located<i64>>,
    items: Option<Located<Vec<Located<Inner>>>>,
    named: Option<Located<BTreeMap<String, Located<Inner>>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Inner {
    on: Option<Located<bool>>,
    text: Option<Located<String>>,
}

fn read(text: &str) -> (Located<Outer>, Vec<String>) {
    let node = Node::parse(text, 0, Limits::MANIFEST).expect("YAML").expect("a document");
    let mut findings = Findings::default();
    let outer = node.read::<Outer>("", &mut findings);
    let lines = findings
        .as_slice()
        .iter()
        .map(|f| format!("{}:{}: {}: {}", f.at.line, f.at.column, f.path, f.message))
        .collect();
    (outer, lines)
}

#[test]
fn every_misfit_of_a_document_is_found_and_the_rest_is_read() {
    let text = "\
name: 12
prot: 3
items:
- {on: true, txt: a}
- text: {secret: CANARY}
- [1]
named:
  a: {on: maybe}
  a: {on: true}
port: 3128
";
    let (outer, lines) = read(text);
    assert_eq!(
        lines,
        [
            "2:1: prot: unknown field; did you mean port?",
            "1:7: name: expected text, found a number; put it in quotes",
            "4:14: items[0].txt: unknown field; did you mean text?",
            "5:3: items[1].text: expected text, found a mapping",
            "6:3: items[2]: expected a mapping, found a list",
            "9:3: named.a: this field is given twice, first on line 8; leave one",
            "8:11: named.a.on: expected true or false, found text",
        ]
    );
    let outer = outer.value.expect("read");
    assert_eq!(outer.port.and_then(|port| port.value), Some(3128));
    assert!(outer.name.expect("there").value.is_none());
    let items = outer.items.and_then(|items| items.value).expect("a list");
    assert_eq!(items.iter().map(|item| item.value.is_some()).collect::<Vec<_>>(), [true, true, false]);
    let first = items[0].get().expect("a mapping");
    assert_eq!(first.on.as_ref().and_then(|on| on.value), Some(true));
    assert!(first.text.is_none());
    assert_eq!(outer.named.and_then(|named| named.value).map(|named| named.len()), Some(1));
}

#[test]
fn yaml_1_1_words_are_text_and_a_bare_tilde_is_nothing() {
    let (outer, lines) = read("name: no\nport: ~\n");
    assert_eq!(lines, Vec::<String>::new());
    let outer = outer.value.expect("read");
    assert_eq!(outer.name.and_then(|name| name.value).as_deref(), Some("no"));
    assert!(outer.port.is_none());
}

#[test]
fn a_document_of_comments_is_no_document() {
    for blank in ["", "# only\n", "---\n", "--- # c\n# d\n", "---\n...\n"] {
        assert!(Node::parse(blank, 0, Limits::MANIFEST).expect("YAML").is_none(), "{blank:?}");
    }
}

#[test]
fn an_alias_bomb_is_one_located_error() {
    let level = |level: usize| {
        let refs = vec![format!("*a{}", level - 1); 11].join(", ");
        format!("a{level}: &a{level} [{refs}]\n")
    };
    let text = format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{}", (1..=9).map(level).collect::<String>());
    let fault = Node::parse(&text, 10, Limits::MANIFEST).err().expect("refused");
    assert!(fault.at.line > 10, "{fault:?}");
    assert!(fault.message.contains("too large"), "{fault:?}");
    assert!(Node::parse(&text, 0, Limits::CONFIG).is_err());
}

#[test]
fn c03_a_syntax_error_shows_nothing_of_the_text() {
    for text in [
        "a: |\n  CANARY\n b: [",
        "a: {CANARY: 1",
        "a: *CANARY\n",
        "? [CANARY]\n: 1\n",
        "a: 'CANARY",
        "\tCANARY: 1\n",
        "a: !!binary CANARY\n",
        "a: b\n  CANARY: c\n",
    ] {
        if let Err(fault) = Node::parse(text, 0, Limits::MANIFEST) {
            assert!(!fault.message.contains("CANARY"), "{text:?}: {fault:?}");
            assert!(fault.at.line >= 1, "{fault:?}");
        }
    }
}
