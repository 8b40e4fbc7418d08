//! Label selectors, in the notation of kubectl.
//!
//! A selector is requirements joined by commas, all of which must hold:
//! `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`. Rules for keys and values are
//! those of Kubernetes labels. A label that is absent fulfils `!=`, `notin` and `!k`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A parsed selector with at least one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// One requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    must: Must,
}

/// What must hold of a label's value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Must {
    Exist,
    NotExist,
    BeIn(BTreeSet<String>),
    NotBeIn(BTreeSet<String>),
}

impl LabelSelector {
    /// Whether every requirement holds.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.must {
                Must::Exist => value.is_some(),
                Must::NotExist => value.is_none(),
                Must::BeIn(values) => value.is_some_and(|value| values.contains(value)),
                Must::NotBeIn(values) => !value.is_some_and(|value| values.contains(value)),
            }
        })
    }
}

/// Why a text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Nothing, or nothing between two commas. An empty selector would select everything, which is
    /// what a script with an unset variable asks for.
    #[error("a selector needs a requirement on each side of a comma: k=v, k!=v, k in (a,b), k notin (a,b), k or !k")]
    Empty,
    /// A requirement that reads as none of the forms.
    #[error("{text:?} is not a requirement; use k=v, k!=v, k in (a,b), k notin (a,b), k or !k")]
    Shape {
        /// The requirement.
        text: String,
    },
    /// A key that no label can have.
    #[error("{text:?} is not a label's key; use [PREFIX/]NAME with letters, digits, '-', '_' and '.'")]
    Key {
        /// The key.
        text: String,
    },
    /// A value that no label can have.
    #[error("{text:?} is not a label's value; use at most 63 letters, digits, '-', '_' and '.'")]
    Value {
        /// The value.
        text: String,
    },
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let requirements = split_outside_parentheses(text).map(requirement).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }
}

/// The requirements of `text`: commas inside of parentheses join values and do not separate.
fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |c| {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    })
    .map(str::trim)
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    if text.is_empty() {
        return Err(SelectorError::Empty);
    }
    if let Some(body) = text.strip_suffix(')') {
        return set_requirement(text, body);
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Requirement { key: checked_key(key)?, must: Must::NotBeIn([checked_value(value)?].into()) });
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement { key: checked_key(key)?, must: Must::BeIn([checked_value(value)?].into()) });
    }
    match text.strip_prefix('!') {
        Some(key) => Ok(Requirement { key: checked_key(key)?, must: Must::NotExist }),
        None => Ok(Requirement { key: checked_key(text)?, must: Must::Exist }),
    }
}

/// `k in (a,b)` and `k notin (a,b)`; `body` is `text` less the closing parenthesis.
fn set_requirement(text: &str, body: &str) -> Result<Requirement, SelectorError> {
    let shape = || SelectorError::Shape { text: text.to_owned() };
    let (head, list) = body.split_once('(').ok_or_else(shape)?;
    let (key, operator) = head.trim().rsplit_once(char::is_whitespace).ok_or_else(shape)?;
    let values: BTreeSet<String> = list.split(',').map(checked_value).collect::<Result<_, _>>()?;
    let must = match operator {
        "in" => Must::BeIn(values),
        "notin" => Must::NotBeIn(values),
        _ => return Err(shape()),
    };
    Ok(Requirement { key: checked_key(key)?, must })
}

/// A name part: empty or up to 63 of `[A-Za-z0-9_.-]`, alphanumeric at both ends.
fn is_word(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_prefix(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        })
}

fn checked_key(text: &str) -> Result<String, SelectorError> {
    let text = text.trim();
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.is_empty() || !is_word(name) || !prefix.is_none_or(is_prefix) {
        return Err(SelectorError::Key { text: text.to_owned() });
    }
    Ok(text.to_owned())
}

fn checked_value(text: &str) -> Result<String, SelectorError> {
    let text = text.trim();
    if is_word(text) { Ok(text.to_owned()) } else { Err(SelectorError::Value { text: text.to_owned() }) }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, must }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match must {
                Must::Exist => write!(f, "{key}")?,
                Must::NotExist => write!(f, "!{key}")?,
                Must::BeIn(values) => write_set(f, key, "=", "in", values)?,
                Must::NotBeIn(values) => write_set(f, key, "!=", "notin", values)?,
            }
        }
        Ok(())
    }
}

fn write_set(f: &mut fmt::Formatter<'_>, key: &str, one: &str, many: &str, values: &BTreeSet<String>) -> fmt::Result {
    let joined = values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    if values.len() == 1 { write!(f, "{key}{one}{joined}") } else { write!(f, "{key} {many} ({joined})") }
}

impl Serialize for LabelSelector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn each_form_selects_what_kubectl_selects() {
        let prague = labels(&[("site", "prague"), ("tier", "gold"), ("empty", ""), ("example.org/x", "1")]);
        for (selector, expected) in [
            ("site=prague", true),
            ("site==prague", true),
            ("site=oslo", false),
            ("site!=oslo", true),
            ("site!=prague", false),
            ("absent!=x", true),
            ("absent=x", false),
            ("site in (prague,oslo)", true),
            ("site in ( oslo , bern )", false),
            ("site in(prague)", true),
            ("site notin (oslo,bern)", true),
            ("site notin (prague)", false),
            ("absent notin (x)", true),
            ("site", true),
            ("absent", false),
            ("!absent", true),
            ("! site", false),
            ("empty=", true),
            ("empty in (,x)", true),
            ("example.org/x=1", true),
            (" site = prague , tier in (gold,silver) ", true),
            ("site=prague,tier=silver", false),
            ("site in (prague,oslo),!absent,tier!=silver", true),
        ] {
            match selector.parse::<LabelSelector>() {
                Ok(parsed) => assert_eq!(parsed.matches(&prague), expected, "{selector:?}"),
                Err(error) => panic!("{selector:?}: {error}"),
            }
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for bad in [
            "",
            " ",
            ",",
            "a,",
            ",a",
            "a,,b",
            "=v",
            "!",
            "!!a",
            "a b",
            "a in b",
            "a in (b",
            "a in b)",
            "a (b)",
            "a is (b)",
            "in (b)",
            "a=b=c",
            "a=b c",
            "a>1",
            "-a",
            "/a",
            "A.org/a",
            "a/b/c",
            "a=(b)",
            "a in (b)c",
        ] {
            assert!(bad.parse::<LabelSelector>().is_err(), "{bad:?}");
        }
        assert!(format!("{}=v", "k".repeat(64)).parse::<LabelSelector>().is_err());
        assert!(format!("k={}", "v".repeat(64)).parse::<LabelSelector>().is_err());
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        let text = "a=1,b!=2,c in (x,y),d notin (x,y),e,!f";
        let parsed: LabelSelector = text.parse().expect("parses");
        assert_eq!(parsed.to_string(), text);
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_shown_text_reads_back(text in "[a-c!=,() in]{0,24}") {
            if let Ok(parsed) = text.parse::<LabelSelector>() {
                prop_assert_eq!(parsed.to_string().parse::<LabelSelector>(), Ok(parsed));
            }
        }
    }
}
