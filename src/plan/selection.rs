//! Selection: what a run may act on. It withholds actions and never changes what is desired (L52).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::name::{HostRef, ProxyKey};
use super::selector::LabelSelector;

/// `--selector`, `--target` and `--exclude`. The empty selection is everything.
///
/// Pure: it answers whether a proxy is acted on, and is asked after it is known what should be
/// done. A planner that uses it to drop proxies from what is desired turns all others into orphans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// Only proxies with these labels.
    pub labels: Option<LabelSelector>,
    /// Only these, when there are any.
    pub targets: Vec<Target>,
    /// Not these.
    pub excludes: Vec<Target>,
}

impl Selection {
    /// Whether nothing is withheld.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_none() && self.targets.is_empty() && self.excludes.is_empty()
    }

    /// Whether a desired proxy is acted on. `labels` are those of its manifest; `None` means that
    /// they are not known, and then no label selector selects it.
    #[must_use]
    pub fn selects(&self, key: &ProxyKey, place: Option<&HostRef>, labels: Option<&BTreeMap<String, String>>) -> bool {
        let named = |targets: &[Target]| targets.iter().any(|target| target.matches(key, place));
        let labelled = match (&self.labels, labels) {
            (None, _) => true,
            (Some(selector), Some(labels)) => selector.matches(labels),
            (Some(_), None) => false,
        };
        labelled && (self.targets.is_empty() || named(&self.targets)) && !named(&self.excludes)
    }

    /// Whether `--target` names a machine, by its proxy key or by its host.
    #[must_use]
    pub fn names(&self, key: &ProxyKey, place: Option<&HostRef>) -> bool {
        self.targets.iter().any(|target| target.matches(key, place))
    }

    /// Whether an orphan may be deleted: nothing is withheld, or a target names it. Its manifest is
    /// gone, so a label selector says nothing about it, and being left in by `--exclude` is not
    /// being asked for.
    #[must_use]
    pub fn selects_orphan(&self, key: &ProxyKey, place: &HostRef) -> bool {
        self.is_everything() || (self.labels.is_none() && self.names(key, Some(place)))
    }

    /// The targets and excludes that are neither a proxy nor a host that anybody knows: mistyped,
    /// or already gone.
    pub fn unmatched(
        &self,
        is_proxy: impl Fn(&ProxyKey) -> bool,
        is_host: impl Fn(&HostRef) -> bool,
    ) -> impl Iterator<Item = &Target> {
        let known = move |target: &Target| {
            target.key.as_ref().is_some_and(&is_proxy) || target.host.as_ref().is_some_and(&is_host)
        };
        self.targets.iter().chain(&self.excludes).filter(move |target| !known(target))
    }
}

/// `NAMESPACE/NAME` or `PROVIDER/HOST`. The two look alike, so a text that can be both is both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    key: Option<ProxyKey>,
    host: Option<HostRef>,
}

impl Target {
    /// Whether it is this proxy, or the host that it is on.
    #[must_use]
    pub fn matches(&self, key: &ProxyKey, place: Option<&HostRef>) -> bool {
        self.key.as_ref() == Some(key) || (place.is_some() && self.host.as_ref() == place)
    }
}

/// A text that is neither a proxy key nor a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected NAMESPACE/NAME of a proxy or PROVIDER/HOST, in lower-case letters, digits and '-'")]
pub struct TargetError;

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let target = Self { key: text.parse().ok(), host: text.parse().ok() };
        if target.key.is_none() && target.host.is_none() { Err(TargetError) } else { Ok(target) }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, &self.host) {
            (Some(key), _) => key.fmt(f),
            (None, Some(host)) => host.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ProxyKey {
        text.parse().expect("a key")
    }

    fn host(text: &str) -> HostRef {
        text.parse().expect("a host")
    }

    fn target(text: &str) -> Target {
        text.parse().expect("a target")
    }

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    #[test]
    fn l52_the_empty_selection_withholds_nothing() {
        let all = Selection::default();
        assert!(all.is_everything());
        assert!(all.selects(&key("a/b"), None, None));
        assert!(all.selects_orphan(&key("a/b"), &host("lab/h1")));
    }

    #[test]
    fn a_target_is_a_proxy_or_a_host() {
        let selection = Selection { targets: vec![target("crawlers/p1"), target("lab/h1")], ..Selection::default() };
        for (k, h, expected) in [
            ("crawlers/p1", "lab/h2", true),
            ("crawlers/p2", "lab/h2", false),
            ("crawlers/p2", "lab/h1", true),
            ("crawlers/p1", "lab/h1", true),
        ] {
            assert_eq!(selection.selects(&key(k), Some(&host(h)), None), expected, "{k} on {h}");
        }
        assert!(!selection.selects(&key("crawlers/p2"), None, None), "a proxy without a place is on no host");
    }

    #[test]
    fn an_exclude_leaves_a_proxy_or_a_host_out() {
        let selection = Selection { excludes: vec![target("crawlers/p1"), target("lab/h1")], ..Selection::default() };
        for (k, h, expected) in
            [("crawlers/p1", "lab/h2", false), ("crawlers/p2", "lab/h1", false), ("crawlers/p2", "lab/h2", true)]
        {
            assert_eq!(selection.selects(&key(k), Some(&host(h)), None), expected, "{k} on {h}");
        }
    }

    #[test]
    fn labels_and_targets_must_both_hold() {
        let selection = Selection {
            labels: Some("site=prague".parse().expect("a selector")),
            targets: vec![target("a/b")],
            excludes: Vec::new(),
        };
        assert!(selection.selects(&key("a/b"), None, Some(&labels("site=prague"))));
        assert!(!selection.selects(&key("a/b"), None, Some(&labels("site=oslo"))));
        assert!(!selection.selects(&key("a/c"), None, Some(&labels("site=prague"))));
        assert!(!selection.selects(&key("a/b"), None, None), "unknown labels are not selected");
    }

    #[test]
    fn l52_an_orphan_goes_only_when_a_target_names_it() {
        let by = |targets: &[&str], excludes: &[&str], labels: Option<&str>| Selection {
            labels: labels.map(|text| text.parse().expect("a selector")),
            targets: targets.iter().map(|text| target(text)).collect(),
            excludes: excludes.iter().map(|text| target(text)).collect(),
        };
        for (selection, expected) in [
            (by(&[], &[], None), true),
            (by(&["a/b"], &[], None), true),
            (by(&["lab/h1"], &[], None), true),
            (by(&["a/c"], &[], None), false),
            (by(&[], &["a/c"], None), false),
            (by(&[], &["a/b"], None), false),
            (by(&[], &[], Some("k")), false),
            (by(&[], &[], Some("!k")), false),
            (by(&["a/b"], &[], Some("k")), false),
        ] {
            assert_eq!(selection.selects_orphan(&key("a/b"), &host("lab/h1")), expected, "{selection:?}");
        }
    }

    #[test]
    fn a_target_of_nothing_is_found_out() {
        let selection = Selection {
            targets: vec![target("a/b"), target("lab/h1"), target("typo/x")],
            excludes: Vec::new(),
            labels: None,
        };
        let (proxy, place) = (key("a/b"), host("lab/h1"));
        let unmatched: Vec<String> =
            selection.unmatched(|key| *key == proxy, |host| *host == place).map(ToString::to_string).collect();
        assert_eq!(unmatched, ["typo/x"]);
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for bad in ["", "a", "a/b/c", "A/b", "a/", "/b", "a b/c"] {
            assert_eq!(bad.parse::<Target>(), Err(TargetError), "{bad:?}");
        }
    }

    #[test]
    fn a_name_too_long_for_a_host_is_a_key_alone() {
        let long = format!("a/{}", "x".repeat(60));
        assert!(target(&long).matches(&key(&long), None));
        assert!(target(&long).host.is_none());
    }
}
