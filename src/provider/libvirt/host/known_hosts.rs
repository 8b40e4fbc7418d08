//! Our reader of OpenSSH's `known_hosts`, and the verdict on a host's key.
//!
//! The helper of the SSH crate accepts revoked keys and misses common lines, so the format is read
//! here, as sshd(8) describes it: hashed names, `[host]:port`, wildcards, negation, several keys a
//! host, `@revoked` and `@cert-authority`. This module reads text that it is given and decides; it
//! opens no file, and no token of the file ever leaves it, since a hashed name is meant to stay one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{Algorithm, Certificate, EcdsaCurve, HashAlg, PublicKey};
use sha1::Sha1;

use super::host_name::HostName;

/// Key algorithms that are offered, the preferred first. RSA signs with SHA-2 only.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];

/// What a key is worth to somebody who has a `known_hosts` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The file holds the key, or the authority that signed its certificate.
    Trusted,
    /// The file holds no key of this kind for the host.
    Unknown {
        /// Kinds of key that it does hold for the host, as `ssh-keyscan -t` spells them.
        other_kinds: Vec<&'static str>,
    },
    /// The file holds another key of this kind for the host.
    Changed {
        /// The line of the first such key.
        line: usize,
    },
    /// The file revokes the key, or the authority that signed its certificate.
    Revoked {
        /// The line that does.
        line: usize,
    },
    /// A certificate of an authority that the file trusts, and yet not good for this host now.
    BadCertificate {
        /// What is wrong with it, as the end of "the certificate …".
        why: &'static str,
    },
}

/// A `known_hosts` file.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    number: usize,
    marker: Marker,
    names: Names,
    key: PublicKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Key,
    Revoked,
    Authority,
}

#[derive(Debug, Clone)]
enum Names {
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
    Patterns(Vec<String>),
}

impl KnownHosts {
    /// Reads the text of a file. A line that cannot be read, because its kind of key is unknown for
    /// one, is passed over as OpenSSH does: it can only withhold trust.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let lines = text.lines().enumerate().filter_map(|(index, line)| Line::parse(index + 1, line)).collect();
        Self { lines }
    }

    /// What the file says of one host.
    #[must_use]
    pub fn lookup(&self, host: &HostName) -> Lookup<'_> {
        let mut found = Lookup { keys: Vec::new(), revoked: Vec::new(), authorities: Vec::new() };
        for line in &self.lines {
            match line.marker {
                Marker::Key if line.names.hold(host) => found.keys.push(line),
                // A revoked key and an authority hold for the host on any port, as in OpenSSH: the
                // one only withholds trust, the other proves itself by what it signed.
                Marker::Revoked if line.names.hold(host) || line.names.hold(&host.without_port()) => {
                    found.revoked.push(line);
                }
                Marker::Authority if line.names.hold(host) || line.names.hold(&host.without_port()) => {
                    found.authorities.push(line);
                }
                _ => {}
            }
        }
        found
    }
}

impl Line {
    fn parse(number: usize, line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let mut fields = line.split_ascii_whitespace();
        let first = fields.next()?;
        let (marker, names) = match first {
            "@revoked" => (Marker::Revoked, fields.next()?),
            "@cert-authority" => (Marker::Authority, fields.next()?),
            other if other.starts_with('@') => return None,
            names => (Marker::Key, names),
        };
        let (kind, blob) = (fields.next()?, fields.next()?);
        let key = PublicKey::from_openssh(&format!("{kind} {blob}")).ok()?;
        Some(Self { number, marker, names: Names::parse(names)?, key })
    }
}

impl Names {
    fn parse(text: &str) -> Option<Self> {
        if let Some(hashed) = text.strip_prefix("|1|") {
            let (salt, hash) = hashed.split_once('|')?;
            return Some(Self::Hashed { salt: BASE64.decode(salt).ok()?, hash: BASE64.decode(hash).ok()? });
        }
        Some(Self::Patterns(text.split(',').filter(|name| !name.is_empty()).map(str::to_lowercase).collect()))
    }

    fn hold(&self, host: &HostName) -> bool {
        match self {
            Self::Hashed { salt, hash } => host.spellings().iter().any(|name| {
                Hmac::<Sha1>::new_from_slice(salt)
                    .map(|mac| mac.chain_update(name.as_bytes()))
                    .is_ok_and(|mac| mac.verify_slice(hash).is_ok())
            }),
            Self::Patterns(patterns) => {
                let mut held = false;
                for pattern in patterns {
                    match pattern.strip_prefix('!') {
                        Some(refused) if host.matches(refused) => return false,
                        Some(_) => {}
                        None => held = held || host.matches(pattern),
                    }
                }
                held
            }
        }
    }
}

/// What a `known_hosts` file says of one host.
#[derive(Debug, Clone)]
pub struct Lookup<'a> {
    keys: Vec<&'a Line>,
    revoked: Vec<&'a Line>,
    authorities: Vec<&'a Line>,
}

impl Lookup<'_> {
    /// Algorithms in the order in which to offer them: those of the keys that the file holds for
    /// the host come first, so that a server with keys of several kinds shows one that is known.
    #[must_use]
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let (mut first, rest): (Vec<_>, Vec<_>) = ALGORITHMS
            .into_iter()
            .partition(|offered| self.keys.iter().any(|line| same_kind(offered, &line.key.algorithm())));
        first.extend(rest);
        first
    }

    /// Algorithms for which a certificate is asked for: all of them when the file names an
    /// authority for the host, else none, since a certificate could not be judged.
    #[must_use]
    pub fn certificate_algorithms(&self) -> Vec<Algorithm> {
        if self.authorities.is_empty() { Vec::new() } else { ALGORITHMS.to_vec() }
    }

    /// The verdict on a plain key.
    #[must_use]
    pub fn verdict(&self, key: &PublicKey) -> Verdict {
        if let Some(line) = self.revokes(key) {
            return Verdict::Revoked { line };
        }
        if self.keys.iter().any(|line| line.key.key_data() == key.key_data()) {
            return Verdict::Trusted;
        }
        match self.keys.iter().find(|line| same_kind(&line.key.algorithm(), &key.algorithm())) {
            Some(line) => Verdict::Changed { line: line.number },
            None => Verdict::Unknown { other_kinds: self.kinds() },
        }
    }

    /// The verdict on a host certificate at a time in seconds since 1970. As in OpenSSH, the key
    /// inside counts when the file holds that key itself.
    #[must_use]
    pub fn certificate_verdict(&self, certificate: &Certificate, host: &HostName, now: u64) -> Verdict {
        let key = PublicKey::new(certificate.public_key().clone(), "");
        let authority = PublicKey::new(certificate.signature_key().clone(), "");
        if let Some(line) = self.revokes(&key).or_else(|| self.revokes(&authority)) {
            return Verdict::Revoked { line };
        }
        let plain = self.verdict(&key);
        if plain == Verdict::Trusted || !self.authorities.iter().any(|line| line.key.key_data() == authority.key_data())
        {
            return plain;
        }
        match certificate_fault(certificate, &authority, host, now) {
            Some(why) => Verdict::BadCertificate { why },
            None => Verdict::Trusted,
        }
    }

    /// Whether the file names a certificate authority for the host.
    #[must_use]
    pub fn has_authority(&self) -> bool {
        !self.authorities.is_empty()
    }

    fn revokes(&self, key: &PublicKey) -> Option<usize> {
        self.revoked.iter().find(|line| line.key.key_data() == key.key_data()).map(|line| line.number)
    }

    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.keys.iter().map(|line| kind(&line.key.algorithm())).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

fn certificate_fault(
    certificate: &Certificate,
    authority: &PublicKey,
    host: &HostName,
    now: u64,
) -> Option<&'static str> {
    if certificate.cert_type() != CertType::Host {
        return Some("is not one of a host");
    }
    if now < certificate.valid_after() {
        return Some("is not valid yet");
    }
    if now >= certificate.valid_before() {
        return Some("has expired");
    }
    // OpenSSH takes no host certificate that names nobody either: it would be good for every host.
    if !certificate.valid_principals().iter().any(|principal| host.without_port().matches(&principal.to_lowercase())) {
        return Some("names other hosts");
    }
    if certificate.critical_options().iter().next().is_some() {
        return Some("has options that this program does not know");
    }
    let fingerprint = authority.fingerprint(HashAlg::Sha256);
    certificate.validate_at(now, [&fingerprint]).err().map(|_| "has a bad signature")
}

/// The kind of a key, as `ssh-keyscan -t` spells it.
#[must_use]
pub fn kind(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Ed25519 => "ed25519",
        Algorithm::Ecdsa { .. } => "ecdsa",
        Algorithm::Rsa { .. } => "rsa",
        Algorithm::Dsa => "dsa",
        _ => "other",
    }
}

fn same_kind(left: &Algorithm, right: &Algorithm) -> bool {
    match (left, right) {
        (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
        (left, right) => left == right,
    }
}

#[cfg(test)]
mod tests {
    use russh::keys::PrivateKey;
    use russh::keys::ssh_key::certificate::Builder;

    use super::super::test_keys;
    use super::*;

    /// Two keys of one kind, and one of each other kind.
    fn keys() -> &'static [PublicKey; 4] {
        static KEYS: std::sync::LazyLock<[PublicKey; 4]> = std::sync::LazyLock::new(|| {
            let ecdsa = test_keys::new(Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 });
            [test_keys::ed25519(), test_keys::ed25519(), test_keys::rsa(), ecdsa].map(|key| key.public_key().clone())
        });
        &KEYS
    }

    fn line(names: &str, key: &PublicKey) -> String {
        format!("{names} {}", PublicKey::new(key.key_data().clone(), "").to_openssh().unwrap())
    }

    fn verdict(text: &str, host: &str, port: u16, key: &PublicKey) -> Verdict {
        KnownHosts::parse(text).lookup(&HostName::new(host, port)).verdict(key)
    }

    fn hashed(name: &str, salt: &[u8]) -> String {
        let hash = Hmac::<Sha1>::new_from_slice(salt).unwrap().chain_update(name).finalize().into_bytes();
        format!("|1|{}|{}", BASE64.encode(salt), BASE64.encode(hash))
    }

    #[test]
    fn a_hash_of_openssh_itself_is_recognised() {
        // Written by `ssh-keygen -H` for the name `relay.test`.
        let key = &keys()[0];
        let names = "|1|AI497A3lfXD7kRyfZo//E1Z1V3E=|zea7DrqQIAqnLKZwOqlJA3fOY30=";
        assert_eq!(verdict(&line(names, key), "relay.test", 22, key), Verdict::Trusted);
        assert_ne!(verdict(&line(names, key), "relay2.test", 22, key), Verdict::Trusted);
    }

    #[test]
    fn c07_lines_as_people_write_them_are_read() {
        let [one, other, rsa, _] = keys();
        let unknown = |other_kinds: &[&'static str]| Verdict::Unknown { other_kinds: other_kinds.to_vec() };
        let both = format!("{}\n{}", line("h", other), line("h", one));
        for (what, text, host, port, expected) in [
            ("plain", line("h", one), "h", 22, Verdict::Trusted),
            ("an empty file", String::new(), "h", 22, unknown(&[])),
            ("another host", line("g", one), "h", 22, unknown(&[])),
            ("a changed key", line("h", other), "h", 22, Verdict::Changed { line: 1 }),
            ("its line counts comments", format!("# c\n\n{}", line("h", other)), "h", 22, Verdict::Changed { line: 3 }),
            ("two keys of a kind, the second matches", both, "h", 22, Verdict::Trusted),
            ("only another kind", line("h", rsa), "h", 22, unknown(&["rsa"])),
            ("tabs", line("h", one).replace(' ', "\t"), "h", 22, Verdict::Trusted),
            ("a leading space", format!("  {}", line("h", one)), "h", 22, Verdict::Trusted),
            ("double spaces", line("h", one).replace(' ', "  "), "h", 22, Verdict::Trusted),
            ("upper case", line("Host.Test", one), "hOST.test", 22, Verdict::Trusted),
            ("CRLF", format!("# c\r\n{}\r\n", line("h", one)), "h", 22, Verdict::Trusted),
            ("a byte order mark", format!("\u{feff}{}", line("h", one)), "h", 22, Verdict::Trusted),
            ("a comment after the key", format!("{} me@there today", line("h", one)), "h", 22, Verdict::Trusted),
            ("a commented line", format!("#{}", line("h", one)), "h", 22, unknown(&[])),
            ("several names", line("g,h,192.0.2.1", one), "h", 22, Verdict::Trusted),
            ("an address among names", line("g,h,192.0.2.1", one), "192.0.2.1", 22, Verdict::Trusted),
            ("a wildcard", line("*.test", one), "a.test", 22, Verdict::Trusted),
            ("a negated name", line("*.test,!a.test", one), "a.test", 22, unknown(&[])),
            ("a negation before", line("!a.test,*.test", one), "a.test", 22, unknown(&[])),
            ("another negated name", line("*.test,!b.test", one), "a.test", 22, Verdict::Trusted),
            ("a port", line("[h]:2222", one), "h", 2222, Verdict::Trusted),
            ("another port", line("[h]:2222", one), "h", 2223, unknown(&[])),
            ("a bare name on another port", line("h", one), "h", 2222, unknown(&[])),
            ("another key for the bare name", line("h", other), "h", 2222, unknown(&[])),
            ("hashed", line(&hashed("h", b"salt"), one), "H", 22, Verdict::Trusted),
            ("hashed with a port", line(&hashed("[h]:2222", b"salt"), one), "h", 2222, Verdict::Trusted),
            ("hashed, another host", line(&hashed("g", b"salt"), one), "h", 22, unknown(&[])),
            ("a broken hash", line("|1|!!|!!", one), "h", 22, unknown(&[])),
            ("IPv6 in full", line("[0:0:0:0:0:0:0:1]:22003", one), "::1", 22003, Verdict::Trusted),
            ("IPv6 in short", line("[::1]:22003", one), "0:0:0:0:0:0:0:1", 22003, Verdict::Trusted),
            ("IPv6 hashed in full", line(&hashed("0:0:0:0:0:0:0:1", b"s"), one), "::1", 22, Verdict::Trusted),
            ("IPv6 hashed in short", line(&hashed("::1", b"s"), one), "0:0:0:0:0:0:0:1", 22, Verdict::Trusted),
            (
                "an unknown kind on a line before",
                format!("h ssh-new AAAA\n{}", line("h", one)),
                "h",
                22,
                Verdict::Trusted,
            ),
            (
                "a broken key on a line before",
                format!("h ssh-ed25519 AA\n{}", line("h", one)),
                "h",
                22,
                Verdict::Trusted,
            ),
            ("half a line before", format!("h\n{}", line("h", one)), "h", 22, Verdict::Trusted),
            ("an unknown marker", format!("@other {}", line("h", one)), "h", 22, unknown(&[])),
            ("an authority is no key", format!("@cert-authority {}", line("h", one)), "h", 22, unknown(&[])),
        ] {
            assert_eq!(verdict(&text, host, port, one), expected, "{what}: {text}");
        }
    }

    #[test]
    fn l06_a_revoked_key_is_revoked_wherever_else_it_stands() {
        let [one, other, ..] = keys();
        let revoked = format!("{}\n@revoked {}", line("h", one), line("*", one));
        assert_eq!(verdict(&revoked, "h", 22, one), Verdict::Revoked { line: 2 });
        let early = format!("@revoked\t{}\n{}", line("h", one), line("[h]:2222", one));
        assert_eq!(verdict(&early, "h", 2222, one), Verdict::Revoked { line: 1 }, "on any port of the host");
        let foreign = format!("@revoked {}\n{}", line("h", other), line("h", one));
        assert_eq!(verdict(&foreign, "h", 22, one), Verdict::Trusted, "another key is revoked");
        let elsewhere = format!("@revoked {}\n{}", line("g", one), line("h", one));
        assert_eq!(verdict(&elsewhere, "h", 22, one), Verdict::Trusted, "revoked for another host");
    }

    #[test]
    fn l06_the_kinds_that_the_file_holds_are_offered_first() {
        let [ed25519, _, rsa, ecdsa] = keys();
        for (text, first) in [
            (line("h", rsa), &ALGORITHMS[4..]),
            (line("h", ed25519), &ALGORITHMS[..1]),
            (line("h", ecdsa), &ALGORITHMS[1..2]),
            (line("g", rsa), &ALGORITHMS[..1]),
            (format!("@revoked {}", line("h", rsa)), &ALGORITHMS[..1]),
        ] {
            let known = KnownHosts::parse(&text);
            let offered = known.lookup(&HostName::new("h", 22)).algorithms();
            assert_eq!(&offered[..first.len()], first, "{text}");
            assert_eq!(offered.len(), ALGORITHMS.len(), "the rest is offered too: {text}");
        }
    }

    #[test]
    fn c07_one_relay_with_many_ports_has_the_keys_of_each_port() {
        let [one, other, rsa, _] = keys();
        let text = [
            line("[relay.test]:22001", one),
            line("[relay.test]:22001", rsa),
            line("[relay.test]:22002", rsa),
            line("relay.test", other),
        ];
        let known = |text: &[String]| KnownHosts::parse(&text.join("\n"));
        let lookup = |known: &KnownHosts, port, key| known.lookup(&HostName::new("relay.test", port)).verdict(key);
        let all = known(&text);
        assert_eq!(lookup(&all, 22001, one), Verdict::Trusted);
        assert_eq!(lookup(&all, 22002, rsa), Verdict::Trusted);
        assert_eq!(lookup(&all, 22, other), Verdict::Trusted);
        let without = known(&text[2..]);
        assert_eq!(lookup(&without, 22001, one), Verdict::Unknown { other_kinds: Vec::new() });
    }

    struct Cert {
        kind: CertType,
        principals: Vec<&'static str>,
        from: u64,
        to: u64,
    }

    #[test]
    fn a_host_certificate_is_trusted_for_its_host_and_its_time_only() {
        let (authority, stranger) = (test_keys::ed25519(), test_keys::ed25519());
        let [host_key, ..] = keys();
        let sign = |cert: &Cert, by: &PrivateKey| {
            let mut builder =
                Builder::new_with_random_nonce(&mut rand::rng(), host_key.clone(), cert.from, cert.to).unwrap();
            builder.cert_type(cert.kind).unwrap();
            for principal in &cert.principals {
                builder.valid_principal(*principal).unwrap();
            }
            if cert.principals.is_empty() {
                builder.all_principals_valid().unwrap();
            }
            builder.sign(by).unwrap()
        };
        let cert =
            |kind, principals: &[&'static str], from, to| Cert { kind, principals: principals.to_vec(), from, to };
        let bad = |why| Verdict::BadCertificate { why };
        let ca = format!("@cert-authority {}", line("*.test", authority.public_key()));
        let (host, user) = (CertType::Host, CertType::User);
        for (what, text, certificate, by, expected) in [
            ("good", ca.clone(), cert(host, &["h.test"], 10, 20), &authority, Verdict::Trusted),
            ("a wildcard", ca.clone(), cert(host, &["*.test"], 10, 20), &authority, Verdict::Trusted),
            ("its last second", ca.clone(), cert(host, &["h.test"], 15, 16), &authority, Verdict::Trusted),
            ("expired", ca.clone(), cert(host, &["h.test"], 10, 15), &authority, bad("has expired")),
            ("too early", ca.clone(), cert(host, &["h.test"], 16, 20), &authority, bad("is not valid yet")),
            ("another host", ca.clone(), cert(host, &["g.test"], 10, 20), &authority, bad("names other hosts")),
            ("nobody named", ca.clone(), cert(host, &[], 10, 20), &authority, bad("names other hosts")),
            ("of a user", ca.clone(), cert(user, &["h.test"], 10, 20), &authority, bad("is not one of a host")),
            (
                "of a stranger",
                ca.clone(),
                cert(host, &["h.test"], 10, 20),
                &stranger,
                Verdict::Unknown { other_kinds: Vec::new() },
            ),
            (
                "of a stranger, the key known",
                format!("{ca}\n{}", line("[h.test]:2222", host_key)),
                cert(host, &["h.test"], 10, 20),
                &stranger,
                Verdict::Trusted,
            ),
            (
                "the authority revoked",
                format!("{ca}\n@revoked {}", line("*", authority.public_key())),
                cert(host, &["h.test"], 10, 20),
                &authority,
                Verdict::Revoked { line: 2 },
            ),
            (
                "the key revoked",
                format!("{ca}\n@revoked {}", line("*", host_key)),
                cert(host, &["h.test"], 10, 20),
                &authority,
                Verdict::Revoked { line: 2 },
            ),
        ] {
            let known = KnownHosts::parse(&text);
            let name = HostName::new("h.test", 2222);
            let lookup = known.lookup(&name);
            assert!(lookup.has_authority() && !lookup.certificate_algorithms().is_empty());
            assert_eq!(lookup.certificate_verdict(&sign(&certificate, by), &name, 15), expected, "{what}");
        }
        let none = KnownHosts::parse("");
        assert!(none.lookup(&HostName::new("h.test", 22)).certificate_algorithms().is_empty());
    }
}
