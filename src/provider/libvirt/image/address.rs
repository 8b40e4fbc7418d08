//! Whom a download may talk to (L35): which hosts a URL may name, and which addresses a name may
//! resolve to. Checked at each step of a redirect and at each resolution, so that a name cannot
//! answer one thing to the check and another to the connection.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::{AllowedHosts, ImageSource};

/// Environment variables from which the HTTP client takes its proxies.
const PROXIES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// An address that nobody named and that is not public.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} resolves to a private, loopback or link-local address, which the config does not name")]
pub(super) struct ForbiddenAddress {
    pub(super) host: String,
}

/// Why a URL may not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ForbiddenUrl {
    #[error("only http and https are fetched")]
    Scheme,
    #[error("a URL with user or password is not fetched")]
    Userinfo,
    #[error("{host} is not among the hosts that images may come from")]
    Host { host: String },
    #[error(transparent)]
    Address(ForbiddenAddress),
}

/// The rules of one image.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    only: Option<BTreeSet<String>>,
    named: Arc<BTreeSet<String>>,
}

impl Rules {
    /// The rules of `source`, with the proxies of the environment among what is named: they are the
    /// operator's own, and the client resolves their names too.
    pub(super) fn of(source: &ImageSource) -> Self {
        let normal = |hosts: &BTreeSet<String>| hosts.iter().map(|host| normal(host)).collect::<BTreeSet<_>>();
        let (only, mut named) = match &source.allowed_hosts {
            AllowedHosts::Only { hosts } => (Some(normal(hosts)), normal(hosts)),
            AllowedHosts::Any { named } => {
                let mut named = normal(named);
                let own = [Some(&source.url), source.digest_url.as_ref()];
                named.extend(own.into_iter().flatten().filter_map(Url::host_str).map(self::normal));
                (None, named)
            }
        };
        let proxies = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
        named.extend(proxies.filter_map(|proxy| {
            let url = if proxy.contains("://") { proxy } else { ["http://", &proxy].concat() };
            Url::parse(&url).ok()?.host_str().map(self::normal)
        }));
        Self { only, named: Arc::new(named) }
    }

    /// Whether `url` may be asked for at all.
    pub(super) fn check(&self, url: &Url) -> Result<(), ForbiddenUrl> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ForbiddenUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ForbiddenUrl::Userinfo);
        }
        let host = normal(url.host_str().unwrap_or_default());
        if self.only.as_ref().is_some_and(|only| !only.contains(&host)) {
            return Err(ForbiddenUrl::Host { host });
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            _ => None,
        };
        match address {
            Some(address) if !is_public(address) && !self.named.contains(&host) => {
                Err(ForbiddenUrl::Address(ForbiddenAddress { host }))
            }
            _ => Ok(()),
        }
    }
}

/// A host as it is compared: lower-case, without brackets or a final dot.
fn normal(host: &str) -> String {
    host.trim_matches(['[', ']']).trim_end_matches('.').to_lowercase()
}

impl Resolve for Rules {
    fn resolve(&self, name: Name) -> Resolving {
        let host = normal(name.as_str());
        let named = self.named.contains(&host);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let none = found.is_empty();
            let fit: Vec<SocketAddr> = found.into_iter().filter(|address| named || is_public(address.ip())).collect();
            if fit.is_empty() && !none {
                return Err(ForbiddenAddress { host }.into());
            }
            let addresses: Addrs = Box::new(fit.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an address is of the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || a == 0
        || a >= 240
        // Shared by carriers (RFC 6598), protocol assignments (RFC 6890), benchmarks (RFC 2544).
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [first, second, third, ..] = segments;
    let embedded = |high: u16, low: u16| is_public_4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match segments {
        // Addresses that carry an IPv4 address: mapped, compatible, NAT64 and 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, ..] => embedded(second, third),
        // Unique local, link-local, the former site-local, and multicast.
        _ => !matches!(first, 0xfc00..=0xfdff | 0xfe80..=0xfeff | 0xff00..=0xffff) && address != Ipv6Addr::LOCALHOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::libvirt::image::Format;

    fn rules(url: &str, allowed_hosts: AllowedHosts) -> Rules {
        Rules::of(&ImageSource {
            id: String::new(),
            key: "img".to_owned(),
            url: Url::parse(url).unwrap(),
            digest: None,
            digest_url: None,
            format: Format::Raw,
            allowed_hosts,
            max_bytes: 0,
        })
    }

    fn set(hosts: &[&str]) -> BTreeSet<String> {
        hosts.iter().map(|host| (*host).to_owned()).collect()
    }

    #[test]
    fn l35_internal_addresses_are_not_public() {
        for internal in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:0a00:0001::1",
        ] {
            assert!(!is_public(internal.parse().unwrap()), "{internal}");
        }
        for public in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "2002:0101:0101::1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn l35_an_internal_address_is_fetched_only_when_named() {
        let open = rules("http://10.0.0.5/x", AllowedHosts::Any { named: set(&["192.168.0.9", "[fd00::1]"]) });
        for (url, fits) in [
            ("http://10.0.0.5:81/y", true),
            ("https://192.168.0.9/y", true),
            ("http://[fd00::1]/y", true),
            ("http://10.0.0.6/y", false),
            ("http://169.254.169.254/latest/meta-data", false),
            ("http://2130706433/", false),
            ("http://[::ffff:10.0.0.6]/", false),
            ("https://1.1.1.1/", true),
            ("https://anything.test/", true),
        ] {
            assert_eq!(open.check(&Url::parse(url).unwrap()).is_ok(), fits, "{url}");
        }
    }

    #[test]
    fn l35_an_image_of_a_manifest_comes_from_the_listed_hosts_alone() {
        let listed = rules("https://a.test/x", AllowedHosts::Only { hosts: set(&["A.test"]) });
        for (url, fits) in [
            ("https://a.test/x", true),
            ("https://A.TEST./x", true),
            ("https://b.test/x", false),
            ("https://a.test.b.test/x", false),
            ("https://1.1.1.1/x", false),
        ] {
            assert_eq!(listed.check(&Url::parse(url).unwrap()).is_ok(), fits, "{url}");
        }
    }

    #[test]
    fn l34_other_schemes_and_userinfo_are_refused_without_being_shown() {
        let open = rules("https://a.test/x", AllowedHosts::Any { named: set(&[]) });
        for url in ["file:///etc/passwd", "ftp://a.test/x", "https://u:CANARY@a.test/x"] {
            let error = open.check(&Url::parse(url).unwrap()).unwrap_err();
            assert!(!error.to_string().contains("CANARY"), "{error}");
        }
    }
}
