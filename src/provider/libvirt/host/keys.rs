//! Reads the private key and the `known_hosts` file.
//!
//! A file that is missing or cannot be read may appear a moment later (a Secret that is not mounted
//! yet), so that is transient. A file that is there and is no usable key is named by what it is,
//! with its path and nothing of its content, and nothing is dialled.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use russh::keys::{Algorithm, PrivateKey, decode_secret_key};

use super::known_hosts::KnownHosts;
use super::link::{DialError, Stage};
use super::progress::{permanent, transient};
use crate::plan::Reason;

/// No key file is longer, and no `known_hosts` file of a fleet comes near.
const KEY_MAX: usize = 64 * 1024;

/// Why a file that was read is no key that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    /// What the file is, as the end of "the SSH key file …".
    what: &'static str,
    hint: &'static str,
}

/// A path with a leading `~/` replaced by the home folder.
///
/// # Errors
/// [`Reason::CredentialsUnavailable`] when there is no home folder to put in its place.
pub fn expand(path: &Path) -> Result<PathBuf, DialError> {
    expand_with(path, std::env::home_dir())
}

fn expand_with(path: &Path, home: Option<PathBuf>) -> Result<PathBuf, DialError> {
    let Ok(rest) = path.strip_prefix("~") else { return Ok(path.to_owned()) };
    home.filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(rest)).ok_or_else(|| {
        transient(
            Stage::Credentials,
            Reason::CredentialsUnavailable,
            format!("the path {} cannot be expanded, since there is no home folder", path.display()),
        )
        .hint("Set HOME, or write the path in full.")
    })
}

/// Reads a private key.
///
/// # Errors
/// [`Reason::CredentialsUnavailable`]: transient when the file cannot be read, permanent when it is
/// no private key or one that is encrypted.
pub async fn read_key(path: &Path) -> Result<PrivateKey, DialError> {
    let path = expand(path)?;
    let bytes = read("SSH key file", &path).await?;
    parse_key(&bytes).map_err(|fault| {
        permanent(
            Stage::Credentials,
            Reason::CredentialsUnavailable,
            format!("the SSH key file {} {}", path.display(), fault.what),
        )
        .hint(fault.hint)
    })
}

/// Reads a `known_hosts` file.
///
/// # Errors
/// [`Reason::CredentialsUnavailable`]: transient when the file cannot be read, permanent when it is
/// not text.
pub async fn read_known_hosts(path: &Path) -> Result<KnownHosts, DialError> {
    let path = expand(path)?;
    let bytes = read("known_hosts file", &path).await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        permanent(
            Stage::Credentials,
            Reason::CredentialsUnavailable,
            format!("the known_hosts file {} is not UTF-8 text", path.display()),
        )
        .hint("Make it with ssh-keyscan, and compare the fingerprints on the host.")
    })?;
    Ok(KnownHosts::parse(text))
}

async fn read(what: &str, path: &Path) -> Result<Vec<u8>, DialError> {
    tokio::fs::read(path).await.map_err(|error| {
        let (why, hint) = match error.kind() {
            io::ErrorKind::NotFound => ("does not exist", "Check the path, and that the Secret or volume is mounted."),
            io::ErrorKind::PermissionDenied => ("may not be read by this user", "Check its owner and mode."),
            io::ErrorKind::IsADirectory => ("is a folder", "Name the file in it."),
            _ => ("cannot be read", "Check the path and the file system."),
        };
        transient(Stage::Credentials, Reason::CredentialsUnavailable, format!("the {what} {} {why}", path.display()))
            .hint(hint)
    })
}

fn parse_key(bytes: &[u8]) -> Result<PrivateKey, Fault> {
    if bytes.len() > KEY_MAX {
        return Err(Fault { what: "is too long for a key", hint: NAME_THE_KEY });
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Fault { what: "is UTF-16 text", hint: "Save it as plain ASCII text." });
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(Fault { what: "is not text, so no OpenSSH or PEM key", hint: NAME_THE_KEY });
    };
    // A vault may have made the line ends those of Windows, an editor may have put a mark in front.
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    if let Some(fault) = recognise(&text) {
        return Err(fault);
    }
    let key = decode_secret_key(&text, None).map_err(|error| match error {
        russh::keys::Error::KeyIsEncrypted => ENCRYPTED,
        russh::keys::Error::UnsupportedKeyType { .. } | russh::keys::Error::UnknownAlgorithm(_) => UNSUPPORTED,
        _ => Fault {
            what: "looks like a private key and cannot be decoded",
            hint: "Copy it again as a whole, or see what ssh-keygen -y -f FILE says of it.",
        },
    })?;
    if key.is_encrypted() {
        return Err(ENCRYPTED);
    }
    match key.algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. } => Ok(key),
        _ => Err(UNSUPPORTED),
    }
}

const NAME_THE_KEY: &str = "Name a private key in OpenSSH or PEM form.";
const ENCRYPTED: Fault = Fault {
    what: "is a private key that is encrypted with a passphrase",
    hint: "Nobody is there to type it: make a key for this program alone, without a passphrase.",
};
const UNSUPPORTED: Fault =
    Fault { what: "is a private key of a kind that is not supported", hint: "Use an ed25519, ecdsa or RSA key." };

/// Names the usual accidents by what the file is.
fn recognise(text: &str) -> Option<Fault> {
    const BEGIN: &str = "-----BEGIN ";
    let trimmed = text.trim();
    let first = trimmed.lines().next().unwrap_or_default();
    let fault = |what, hint| Some(Fault { what, hint });
    if trimmed.is_empty() {
        return fault("is empty", "Put the private key into it.");
    }
    if first.starts_with("PuTTY-User-Key-File-") {
        return fault("is a PuTTY key", "Convert it: puttygen KEY.ppk -O private-openssh -o KEY");
    }
    if ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-", "---- BEGIN SSH2 PUBLIC KEY"]
        .iter()
        .any(|p| first.starts_with(p))
        || first.starts_with("-----BEGIN PUBLIC KEY")
        || first.starts_with("-----BEGIN RSA PUBLIC KEY")
    {
        return fault("is a public key", "Name the private key beside it, the file without .pub.");
    }
    if first.starts_with("-----BEGIN CERTIFICATE") {
        return fault("is a certificate", NAME_THE_KEY);
    }
    if !first.starts_with(BEGIN) {
        let packed: String = trimmed.chars().filter(|c| !c.is_whitespace() && *c != '=').collect();
        return match BASE64.decode(&packed) {
            Ok(inner) if inner.trim_ascii_start().starts_with(BEGIN.as_bytes()) => {
                fault("looks like base64 of a key", "Decode it once: base64 -d FILE > KEY")
            }
            _ => fault("is not a private key", NAME_THE_KEY),
        };
    }
    if first.contains("\\n") {
        return fault("is a key whose line ends are written as \\n", "Put real line ends into it.");
    }
    if first.trim_end().len() > first.find("KEY-----").map_or(usize::MAX, |at| at + "KEY-----".len()) {
        return fault("is a key that has lost its line ends", "Copy it again, line by line as it was made.");
    }
    if text.lines().any(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty()) {
        return fault("is a key with indented lines", "Remove the blanks at the start of each line.");
    }
    if first.contains("ENCRYPTED PRIVATE KEY") || text.lines().any(|line| line.starts_with("Proc-Type: 4,ENCRYPTED")) {
        return Some(ENCRYPTED);
    }
    if first.contains("BEGIN DSA PRIVATE KEY") {
        return Some(UNSUPPORTED);
    }
    if !text.lines().any(|line| line.starts_with("-----END ")) {
        return fault("is a key whose end is missing", "Copy it again as a whole, its last line included.");
    }
    None
}

#[cfg(test)]
mod tests {
    use russh::keys::ssh_key::LineEnding;
    use russh::keys::{EcdsaCurve, encode_pkcs8_pem};

    use super::super::test_keys;
    use super::*;

    fn openssh(key: &PrivateKey) -> String {
        key.to_openssh(LineEnding::LF).unwrap().to_string()
    }

    #[test]
    fn c05_a_good_key_is_read_however_its_lines_end() {
        let key = test_keys::ed25519();
        let text = openssh(&key);
        for (what, variant) in [
            ("as it was made", text.clone()),
            ("without its final newline", text.trim_end().to_owned()),
            ("with CRLF", text.replace('\n', "\r\n")),
            ("with CRLF and without its final newline", text.trim_end().replace('\n', "\r\n")),
            ("followed by a blank and a space", format!("{text}\n ")),
            ("after a byte order mark", format!("\u{feff}{text}")),
            ("after an empty line", format!("\n{text}")),
        ] {
            let read = parse_key(variant.as_bytes());
            assert_eq!(read.map(|read| read.public_key().clone()), Ok(key.public_key().clone()), "{what}");
        }
    }

    #[test]
    fn every_supported_kind_is_read_in_both_forms() {
        let curves = [EcdsaCurve::NistP256, EcdsaCurve::NistP384, EcdsaCurve::NistP521];
        let kinds = curves
            .map(|curve| Algorithm::Ecdsa { curve })
            .into_iter()
            .chain([Algorithm::Ed25519, Algorithm::Rsa { hash: None }]);
        for kind in kinds {
            let key = if kind.clone().is_rsa() { test_keys::rsa() } else { test_keys::new(kind.clone()) };
            let mut pem = Vec::new();
            encode_pkcs8_pem(&key, &mut pem).unwrap();
            for text in [openssh(&key).into_bytes(), pem] {
                let read = parse_key(&text).map(|read| read.public_key().key_data().clone());
                assert_eq!(read, Ok(key.public_key().key_data().clone()), "{kind}");
            }
        }
    }

    #[test]
    fn c05_a_file_that_is_no_usable_key_is_named_by_what_it_is() {
        let key = test_keys::ed25519();
        let text = openssh(&key);
        let encrypted = key.encrypt(&mut rand::rng(), "secret").unwrap();
        let packed = base64::engine::general_purpose::STANDARD.encode(&text);
        let lines = |from: &str, prefix: &str, count: usize| {
            from.lines().take(count).flat_map(|line| [prefix, line, "\n"]).collect::<String>()
        };
        let wrapped: String = packed.split_inclusive('L').flat_map(|part| [part, "\n"]).collect();
        let body = text.lines().filter(|line| !line.starts_with('-')).collect::<String>();
        for (what, variant) in [
            ("is empty", String::new()),
            ("is empty", " \n\t\n".to_owned()),
            ("is a key with indented lines", lines(&text, "  ", 99)),
            ("looks like base64 of a key", packed),
            ("looks like base64 of a key", wrapped),
            ("is a public key", key.public_key().to_openssh().unwrap()),
            ("is a public key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_owned()),
            ("is a private key that is encrypted with a passphrase", openssh(&encrypted)),
            (
                "is a private key that is encrypted with a passphrase",
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAA==\n-----END RSA PRIVATE KEY-----\n".to_owned(),
            ),
            ("is a key whose line ends are written as \\n", text.replace('\n', "\\n")),
            ("is a key that has lost its line ends", text.replace('\n', " ")),
            ("is a key whose end is missing", lines(&text, "", 3)),
            ("is a PuTTY key", "PuTTY-User-Key-File-3: ssh-ed25519\n".to_owned()),
            ("is a certificate", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n".to_owned()),
            ("is not a private key", "hello\n".to_owned()),
            ("is not a private key", body),
            (
                "looks like a private key and cannot be decoded",
                "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n".to_owned(),
            ),
            ("is a private key of a kind that is not supported", "-----BEGIN DSA PRIVATE KEY-----\nAA==\n-----END DSA PRIVATE KEY-----\n".to_owned()),
        ] {
            assert_eq!(parse_key(variant.as_bytes()).map_err(|fault| fault.what).err(), Some(what));
        }
        let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(parse_key(&wide).map_err(|fault| fault.what).err(), Some("is UTF-16 text"));
        assert_eq!(
            parse_key(&[0x30, 0x82, 0xff]).map_err(|fault| fault.what).err(),
            Some("is not text, so no OpenSSH or PEM key")
        );
    }

    #[tokio::test]
    async fn c05_the_class_tells_a_missing_file_from_a_bad_one_and_no_content_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let missing = read_key(&path).await.unwrap_err();
        assert_eq!(
            (missing.class, missing.reason),
            (crate::provider::error::Class::Transient, Reason::CredentialsUnavailable)
        );
        assert!(missing.message.contains(path.to_str().unwrap()), "{missing}");

        std::fs::write(&path, "Q0FOQVJZ canary\n").unwrap();
        let bad = read_key(&path).await.unwrap_err();
        assert_eq!((bad.class, bad.stage), (crate::provider::error::Class::Permanent, Stage::Credentials));
        assert!(bad.message.contains(path.to_str().unwrap()) && !format!("{bad:?}").contains("canary"), "{bad:?}");
        assert!(!format!("{bad:?}").contains("Q0FO"), "{bad:?}");

        let folder = read_key(folder.path()).await.unwrap_err();
        assert_eq!(folder.class, crate::provider::error::Class::Transient);
    }

    #[test]
    fn c05_a_leading_tilde_is_the_home_folder() {
        let home = || Some(PathBuf::from("/home/u"));
        assert_eq!(expand_with(Path::new("~/.ssh/id"), home()).unwrap(), Path::new("/home/u/.ssh/id"));
        assert_eq!(expand_with(Path::new("/a/~/b"), home()).unwrap(), Path::new("/a/~/b"));
        assert_eq!(expand_with(Path::new("~other/b"), home()).unwrap(), Path::new("~other/b"));
        assert!(expand_with(Path::new("~/b"), None).is_err());
    }
}
