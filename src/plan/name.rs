//! Names: what a fleet, an entry, a host and a proxy may be called.
//!
//! Every name becomes part of names on hosts, so each is checked once, at the edge, and is
//! then carried as a type that can hold nothing else.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("a name may not be empty")]
    Empty,
    /// More characters than the bound.
    #[error("a name of {length} characters is too long; at most {max} are allowed")]
    TooLong {
        /// Characters given.
        length: usize,
        /// Characters allowed.
        max: usize,
    },
    /// A character that RFC 1123 does not allow in a label.
    #[error(
        "{found:?} is not allowed here; use lower-case letters, digits and '-', with a letter or digit first and last"
    )]
    Character {
        /// The first character that does not fit.
        found: char,
    },
    /// More than one slash, or an empty part.
    #[error("expected {expected}")]
    Shape {
        /// The form that was expected.
        expected: &'static str,
    },
}

fn check_label(text: &str, max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    let length = text.chars().count();
    if length > max {
        return Err(NameError::TooLong { length, max });
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if let Some(found) = text.chars().find(|c| !inner(*c) && *c != '-') {
        return Err(NameError::Character { found });
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(NameError::Character { found: '-' });
    }
    Ok(())
}

/// A DNS-1123 label of at most [`Label::MAX`] characters: a fleet, a provider entry, a host, an
/// image key or a machine type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Label(#[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))] String);

impl Label {
    /// The most characters a label may have, since labels are joined into names on hosts.
    pub const MAX: usize = 40;

    /// The text of the label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_label(text, Self::MAX)?;
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Label {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `namespace/name` of a Proxy. Both parts are DNS-1123 labels of at most 63 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ProxyKey {
    namespace: String,
    name: String,
}

impl ProxyKey {
    /// The most characters either part may have (RFC 1123).
    pub const MAX: usize = 63;

    /// Joins the two parts.
    ///
    /// # Errors
    /// When either is not a DNS-1123 label of at most 63 characters.
    pub fn new(namespace: &str, name: &str) -> Result<Self, NameError> {
        check_label(namespace, Self::MAX)?;
        check_label(name, Self::MAX)?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The namespace; `default` where the manifest gives none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for ProxyKey {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.split_once('/') {
            Some((namespace, name)) => Self::new(namespace, name),
            None => Err(NameError::Shape { expected: "NAMESPACE/NAME" }),
        }
    }
}

impl TryFrom<String> for ProxyKey {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<ProxyKey> for String {
    fn from(key: ProxyKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for ProxyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `entry/host`: one hypervisor of one provider entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct HostRef {
    /// The provider entry.
    pub entry: Label,
    /// The host within the entry: the `placement.zone` of a manifest.
    pub host: Label,
}

impl FromStr for HostRef {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.split_once('/') {
            Some((entry, host)) => Ok(Self { entry: entry.parse()?, host: host.parse()? }),
            None => Err(NameError::Shape { expected: "PROVIDER/HOST" }),
        }
    }
}

impl TryFrom<String> for HostRef {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<HostRef> for String {
    fn from(host: HostRef) -> Self {
        host.to_string()
    }
}

impl fmt::Display for HostRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.entry, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_dns_1123_label_of_at_most_40_characters() {
        assert!("a".parse::<Label>().is_ok());
        assert!("a".repeat(40).parse::<Label>().is_ok());
        assert_eq!("a".repeat(41).parse::<Label>(), Err(NameError::TooLong { length: 41, max: 40 }));
        for bad in ["-a", "a-", "A", "a_b", "a.b", "é", "a\n"] {
            assert!(matches!(bad.parse::<Label>(), Err(NameError::Character { .. })), "{bad:?}");
        }
        assert_eq!("".parse::<Label>(), Err(NameError::Empty));
    }

    #[test]
    fn a_proxy_key_has_exactly_two_parts() {
        assert_eq!("a/b".parse::<ProxyKey>().map(|k| k.to_string()), Ok("a/b".to_owned()));
        for bad in ["a", "a/b/c", "/b", "a/", ""] {
            assert!(bad.parse::<ProxyKey>().is_err(), "{bad:?}");
        }
    }
}
