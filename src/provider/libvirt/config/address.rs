//! SSH addresses: `host` or `host:port`, IPv6 in brackets.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Where a host's SSH server listens. An address without a port has the usual one (L7).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name in lower case, or an IP address in its usual form, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Why a text is no address. What cannot be dialled is refused when it is loaded (L7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No host.
    #[error("expected host or host:port")]
    Shape,
    /// IPv6 without brackets.
    #[error("an IPv6 address is written in brackets: [2001:db8::1] or [2001:db8::1]:22")]
    Brackets,
    /// `user@host`.
    #[error("the user does not belong to the address; give it as user")]
    User,
    /// `ssh://host`.
    #[error("expected host or host:port, not a URL")]
    Url,
    /// Not 1 to 65535.
    #[error("expected a port from 1 to 65535 after the colon")]
    Port,
    /// A character that no host name has.
    #[error("{found:?} is not allowed in a host name")]
    Character {
        /// The first such character.
        found: char,
    },
    /// Too long for a host name.
    #[error("a host name has at most 253 characters")]
    Long,
}

impl Address {
    /// The port where none is given.
    pub const PORT: u16 = 22;
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains("://") {
            return Err(AddressError::Url);
        }
        if text.contains('@') {
            return Err(AddressError::User);
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(AddressError::Brackets);
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (inner, port) = rest.split_once(']').ok_or(AddressError::Brackets)?;
            // In one form, so that 0:0:…:1 and ::1 are one host (C07).
            let address: Ipv6Addr = inner.parse().map_err(|_| AddressError::Brackets)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(AddressError::Shape)?),
            };
            (address.to_string(), port)
        } else {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            if port.is_some_and(|port| port.contains(':')) {
                return Err(AddressError::Brackets);
            }
            (name(host)?, port)
        };
        let port = match port {
            None => Self::PORT,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
                Ok(port @ 1..) => port,
                _ => return Err(AddressError::Port),
            },
            Some(_) => return Err(AddressError::Port),
        };
        Ok(Self { host, port })
    }
}

fn name(host: &str) -> Result<String, AddressError> {
    if host.is_empty() || host.starts_with(['-', '.']) {
        return Err(AddressError::Shape);
    }
    if host.len() > 253 {
        return Err(AddressError::Long);
    }
    match host.chars().find(|c| !c.is_ascii_alphanumeric() && !"-._".contains(*c)) {
        Some(found) => Err(AddressError::Character { found }),
        None => Ok(host.to_ascii_lowercase()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l07_an_address_has_a_default_port_or_is_refused() {
        for (text, shown) in [
            ("kvm1", "kvm1:22"),
            ("KVM1.example.org:2222", "kvm1.example.org:2222"),
            ("192.0.2.1", "192.0.2.1:22"),
            ("[::1]", "[::1]:22"),
            ("[0:0:0:0:0:0:0:1]:22003", "[::1]:22003"),
        ] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for (text, error) in [
            ("", AddressError::Shape),
            (":22", AddressError::Shape),
            ("-oProxyCommand=x", AddressError::Shape),
            ("::1", AddressError::Brackets),
            ("2001:db8::1:22", AddressError::Brackets),
            ("[::1", AddressError::Brackets),
            ("[kvm1]:22", AddressError::Brackets),
            ("[::1]22", AddressError::Shape),
            ("root@kvm1", AddressError::User),
            ("ssh://kvm1", AddressError::Url),
            ("kvm1:", AddressError::Port),
            ("kvm1:0", AddressError::Port),
            ("kvm1:65536", AddressError::Port),
            ("kvm1:+22", AddressError::Port),
            ("kvm1:ssh", AddressError::Port),
            ("kvm 1", AddressError::Character { found: ' ' }),
            ("kvm1/x", AddressError::Character { found: '/' }),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
    }
}
