//! The name under which a host's keys are looked up in `known_hosts`.
//!
//! Pure text: it resolves nothing.

use std::net::{IpAddr, Ipv6Addr};

/// A host as `known_hosts` names it: `host` on port 22, `[host]:port` on any other, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    host: String,
    port: u16,
}

/// The port that a bare name in `known_hosts` stands for.
const DEFAULT_PORT: u16 = 22;

impl HostName {
    /// The name of a host (without brackets) on a port.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.trim_matches(['[', ']']).to_lowercase(), port }
    }

    /// A name given by `hostKeyAlias`, which is looked up as it stands, without a port.
    #[must_use]
    pub fn alias(alias: &str) -> Self {
        Self { host: alias.to_lowercase(), port: DEFAULT_PORT }
    }

    /// The same host without regard to its port.
    #[must_use]
    pub fn without_port(&self) -> Self {
        Self { host: self.host.clone(), port: DEFAULT_PORT }
    }

    /// Every way to write the name, since a hash holds for one of them only: an IPv6 address as it
    /// was given, in short, and in full.
    #[must_use]
    pub fn spellings(&self) -> Vec<String> {
        let mut hosts = vec![self.host.clone()];
        if let Ok(address) = self.host.parse::<Ipv6Addr>() {
            let groups = address.segments();
            hosts.push(address.to_string());
            hosts.push(groups.map(|group| format!("{group:x}")).join(":"));
            hosts.push(groups.map(|group| format!("{group:04x}")).join(":"));
        }
        hosts.iter().map(|host| written(host, self.port)).collect()
    }

    /// Whether a pattern of `known_hosts`, in lower case, is this host. Addresses are compared by
    /// value, names with `*` and `?` as wildcards over the whole name, port included.
    #[must_use]
    pub fn matches(&self, pattern: &str) -> bool {
        if let (Ok(mine), Some((theirs, port))) = (self.host.parse::<IpAddr>(), address(pattern)) {
            return mine == theirs && self.port == port;
        }
        wildcard(pattern, &self.to_string())
    }
}

impl std::fmt::Display for HostName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&written(&self.host, self.port))
    }
}

fn written(host: &str, port: u16) -> String {
    if port == DEFAULT_PORT { host.to_owned() } else { format!("[{host}]:{port}") }
}

fn address(pattern: &str) -> Option<(IpAddr, u16)> {
    if let Ok(address) = pattern.parse() {
        return Some((address, DEFAULT_PORT));
    }
    let (host, port) = pattern.strip_prefix('[')?.split_once(']')?;
    let port = if port.is_empty() { DEFAULT_PORT } else { port.strip_prefix(':')?.parse().ok()? };
    Some((host.parse().ok()?, port))
}

/// One row of the usual table, a column for each prefix of the text: linear in its memory and free
/// of the blow-up that a recursive matcher meets on `*a*a*a*`.
fn wildcard(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut row: Vec<bool> = std::iter::once(true).chain(text.iter().map(|_| false)).collect();
    for expected in pattern.chars() {
        row = if expected == '*' {
            let mut reached = false;
            row.iter()
                .map(|here| {
                    reached = reached || *here;
                    reached
                })
                .collect()
        } else {
            let step = row.iter().zip(&text).map(|(before, c)| *before && (expected == '?' || expected == *c));
            std::iter::once(false).chain(step).collect()
        };
    }
    row.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_matched_as_openssh_does() {
        for (pattern, host, port, matches) in [
            ("relay.test", "relay.test", 22, true),
            ("relay.test", "RELAY.test", 22, true),
            ("relay.test", "relay.test", 2222, false),
            ("[relay.test]:2222", "relay.test", 2222, true),
            ("[relay.test]:2222", "relay.test", 22, false),
            ("[relay.test]:2222", "relay.test", 22223, false),
            ("*.test", "relay.test", 22, true),
            ("*.test", "relay.test", 2222, false),
            ("[*.test]:2222", "relay.test", 2222, true),
            ("*", "relay.test", 2222, true),
            ("r?lay.test", "relay.test", 22, true),
            ("r?lay.test", "rlay.test", 22, false),
            ("*e*e*", "relay.test", 22, true),
            ("", "relay.test", 22, false),
            ("::1", "0:0:0:0:0:0:0:1", 22, true),
            ("0:0:0:0:0:0:0:1", "::1", 22, true),
            ("[0:0:0:0:0:0:0:1]:22003", "::1", 22003, true),
            ("[::1]:22003", "::1", 22004, false),
            ("[::1]", "::1", 22, true),
            ("192.0.2.1", "192.0.2.1", 22, true),
            ("192.0.2.*", "192.0.2.1", 22, true),
            ("192.0.2.1", "192.0.2.11", 22, false),
        ] {
            assert_eq!(HostName::new(host, port).matches(pattern), matches, "{pattern} for {host} port {port}");
        }
    }

    #[test]
    fn an_alias_is_looked_up_without_a_port() {
        assert!(HostName::alias("Real.Test").matches("real.test"));
    }

    #[test]
    fn many_stars_are_matched_in_reasonable_time() {
        assert!(!wildcard(&"*a".repeat(200), &"a".repeat(199)));
    }
}
