//! Whether a host's key is trusted, and what to say when it is not.
//!
//! Messages tell the file, the line, the name that was looked up and the fingerprint of the key
//! that the host showed. They never tell a token of the file.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use russh::keys::{Algorithm, HashAlg, PublicKeyOrCertificate};

use super::host_name::HostName;
use super::known_hosts::{KnownHosts, Verdict, kind};
use super::link::{DialError, Stage};
use super::progress::permanent;
use super::target::SshTarget;
use crate::plan::Reason;

/// How a host's key is judged.
#[derive(Debug, Clone)]
pub struct HostKeyPolicy {
    name: HostName,
    /// `None` takes any key.
    file: Option<(PathBuf, KnownHosts)>,
    scan: Scan,
}

/// What the printed `ssh-keyscan` line needs.
#[derive(Debug, Clone)]
struct Scan {
    host: String,
    port: u16,
    alias: Option<String>,
}

impl HostKeyPolicy {
    /// The policy for a host: its `known_hosts` file as it was read, or none to take any key.
    #[must_use]
    pub fn new(target: &SshTarget, file: Option<(PathBuf, KnownHosts)>) -> Self {
        let scan = Scan { host: target.host.clone(), port: target.port, alias: target.host_key_alias.clone() };
        Self { name: target.host_name(), file, scan }
    }

    /// Algorithms of host keys to offer, and of host certificates.
    #[must_use]
    pub fn algorithms(&self) -> (Vec<Algorithm>, Vec<Algorithm>) {
        let nothing = KnownHosts::default();
        let lookup = self.file.as_ref().map_or(&nothing, |(_, known)| known).lookup(&self.name);
        (lookup.algorithms(), lookup.certificate_algorithms())
    }

    /// Judges what the host showed.
    ///
    /// # Errors
    /// [`Reason::HostKeyMismatch`], permanent, when the key is unknown, changed or revoked.
    pub fn check(&self, shown: &PublicKeyOrCertificate) -> Result<(), DialError> {
        let Some((file, known)) = &self.file else { return Ok(()) };
        let lookup = known.lookup(&self.name);
        let verdict = match shown.certificate() {
            Some(certificate) => lookup.certificate_verdict(certificate, &self.name, now()),
            None => lookup.verdict(&shown.public_key()),
        };
        if verdict == Verdict::Trusted {
            return Ok(());
        }
        Err(self.explain(file, &verdict, shown, lookup.has_authority()))
    }

    fn explain(
        &self,
        file: &Path,
        verdict: &Verdict,
        shown: &PublicKeyOrCertificate,
        has_authority: bool,
    ) -> DialError {
        let key = shown.public_key();
        let (file, name) = (file.display(), &self.name);
        let what = if shown.certificate().is_some() { "certificate with the key" } else { "key" };
        let shown =
            format!("the host shows the {} {what} {}", kind(&key.algorithm()), key.fingerprint(HashAlg::Sha256));
        let scan = self.scan.line(kind(&key.algorithm()), &file.to_string());
        let (message, hint) = match verdict {
            Verdict::Trusted | Verdict::Unknown { .. } => {
                let other = match verdict {
                    Verdict::Unknown { other_kinds } if !other_kinds.is_empty() => {
                        format!(" of this kind for {name}, only {}", other_kinds.join(" and "))
                    }
                    _ if has_authority => format!(" for {name}, only certificate authorities"),
                    _ => format!(" for {name}"),
                };
                (
                    format!("the host key is unknown: {file} has no key{other}; {shown}"),
                    format!("Compare the fingerprint on the host, then: {scan}"),
                )
            }
            Verdict::Changed { line } => (
                format!("the host key has changed: {file}:{line} has another key for {name}; {shown}"),
                format!(
                    "Find out why on the host. If the new key is right, remove line {line}, compare the fingerprint, then: {scan}"
                ),
            ),
            Verdict::Revoked { line } => (
                format!("the host key is revoked: {file}:{line} revokes it for {name}; {shown}"),
                "Give the host a new key; a revoked one is not to be trusted again.".to_owned(),
            ),
            Verdict::BadCertificate { why } => (
                format!(
                    "the host certificate is not good: it is of an authority in {file} for {name}, but {why}; {shown}"
                ),
                "Sign the host's key anew, for this name and a time that holds.".to_owned(),
            ),
        };
        permanent(Stage::Ssh, Reason::HostKeyMismatch, message).hint(hint)
    }
}

impl Scan {
    /// The command that adds the host's key of one kind to the file.
    fn line(&self, kind: &str, file: &str) -> String {
        let Self { host, port, alias } = self;
        let rename = alias.as_ref().map_or_else(String::new, |alias| format!(" | sed 's/^[^# ]*/{alias}/'"));
        format!("ssh-keyscan -p {port} -t {kind} {host}{rename} >> {file}")
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
