//! Base images: where they come from and how they are known.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use url::Url;

use super::raw::{RawFirmware, RawFormat, RawImage};
use crate::provider::document::check::{REQUIRED, parsed, required};
use crate::provider::document::{Findings, Located};

/// A base image of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Where it is fetched from.
    pub url: ImageUrl,
    /// The digest that it must have.
    pub digest: Option<Digest>,
    /// A digest file, read when the image is fetched. Never beside `digest`.
    pub digest_url: Option<ImageUrl>,
    /// Format of the file.
    pub format: ImageFormat,
    /// Firmware that machines boot it with.
    pub firmware: Firmware,
}

impl Image {
    /// 32 hex digits of SHA-256 over URL, digest or digest URL, and format, each with its length:
    /// another source is another image beside the old one (L23, L25).
    #[must_use]
    pub fn id(&self) -> String {
        let digest = match (&self.digest, &self.digest_url) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(url)) => url.expose().to_string(),
            (None, None) => String::new(),
        };
        let mut hash = Sha256::new();
        for part in [self.url.expose().as_str(), digest.as_str(), self.format.as_str()] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        hex::encode(hash.finalize()).chars().take(32).collect()
    }

    pub(super) fn read(raw: &Located<RawImage>, findings: &mut Findings) -> Option<Self> {
        let at = &raw.at;
        let raw = raw.get()?;
        let url = required(raw.url.as_ref(), at, "url", REQUIRED, findings);
        let url = url.and_then(|field| parsed::<ImageUrl>(field, findings));
        let digest = read_digest(raw, findings);
        let digest_url = raw.checksum_url.as_ref().and_then(|field| parsed::<ImageUrl>(field, findings));
        if let Some(field) = &raw.checksum_url
            && (raw.checksum.is_some() || raw.sha256.is_some())
        {
            findings.error(&field.at, "an image has a checksum or a checksumUrl; leave one");
        }
        let format = raw.format.as_ref().map_or(Some(ImageFormat::Qcow2), |field| field.get().copied().map(Into::into));
        let firmware = raw.firmware.as_ref().map_or(Some(Firmware::Uefi), |field| field.get().copied().map(Into::into));
        if let (Some(field), Some(url)) = (&raw.url, &url) {
            let pinned = raw.checksum.is_some()
                || raw.sha256.is_some()
                || digest_url.as_ref().is_some_and(|url| url.expose().scheme() == "https");
            let given = pinned || raw.checksum_url.is_some();
            if url.expose().scheme() == "http" && !pinned {
                findings.error(
                    &field.at,
                    "plain http needs a checksum, or a checksumUrl over https; anybody on the way could change the image",
                );
            } else if !given {
                findings.warning(
                    &field.at,
                    "this image has no checksum; whatever the server sends will be booted. Give checksum or checksumUrl",
                );
            }
            if let Some(firmware) = firmware
                && url.names_other_firmware(firmware)
            {
                findings.warning(
                    &field.at,
                    format!("this image is not known to boot with firmware {}, by its file name", firmware.as_str()),
                );
            }
        }
        Some(Self { url: url?, digest, digest_url, format: format?, firmware: firmware? })
    }
}

fn read_digest(raw: &RawImage, findings: &mut Findings) -> Option<Digest> {
    match (&raw.checksum, &raw.sha256) {
        (Some(_), Some(field)) => {
            findings.error(&field.at, "sha256 is another spelling of checksum; leave one");
            None
        }
        (Some(field), None) => parsed(field, findings),
        (None, Some(field)) => match field.get().map(|hex| Digest::new(Algorithm::Sha256, hex)) {
            Some(Ok(digest)) => Some(digest),
            Some(Err(error)) => {
                findings.error(&field.at, error.to_string());
                None
            }
            None => None,
        },
        (None, None) => None,
    }
}

/// A URL that cannot print its secrets: `Display` shows scheme and host, and `Debug` no more (L34).
#[derive(Clone, PartialEq, Eq)]
pub struct ImageUrl(Url);

/// Why a text is no URL of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not parse.
    #[error("this is no URL; expected https://host/path")]
    Unreadable,
    /// `file:`, `ftp:` and so on.
    #[error("only https and http URLs can be fetched")]
    Scheme,
    /// A user or password.
    #[error("a URL may not hold a user or password, since URLs are stored and shown; serve the image without")]
    Userinfo,
    /// `#…`.
    #[error("a URL of an image may not have a fragment (#…)")]
    Fragment,
}

impl FromStr for ImageUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let url = Url::parse(text).map_err(|_| UrlError::Unreadable)?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(UrlError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Userinfo);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(UrlError::Unreadable);
        }
        Ok(Self(url))
    }
}

impl ImageUrl {
    /// The URL, for fetching and for digests only.
    #[must_use]
    pub fn expose(&self) -> &Url {
        &self.0
    }

    /// The host that it names.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Distributions that publish one file for each firmware say so in the file's name.
    fn names_other_firmware(&self, firmware: Firmware) -> bool {
        let file = self.0.path().rsplit('/').next().unwrap_or_default();
        let names = |word: &str| file.split(['-', '_', '.']).any(|part| part.eq_ignore_ascii_case(word));
        match firmware {
            Firmware::Uefi => names("bios") && !names("uefi"),
            Firmware::Bios => names("uefi") && !names("bios"),
        }
    }
}

impl fmt::Display for ImageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/…", self.0.scheme(), self.host())
    }
}

impl fmt::Debug for ImageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageUrl({self})")
    }
}

/// A digest algorithm that distributions publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// The algorithm as `checksum` spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// How many hex digits its digests have.
    #[must_use]
    pub fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A digest in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected sha256: and 64 hex digits, or sha512: and 128 hex digits")]
pub struct DigestError;

impl Digest {
    /// Checks the digits.
    pub fn new(algorithm: Algorithm, hex: &str) -> Result<Self, DigestError> {
        if hex.len() != algorithm.digits() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(DigestError);
        }
        Ok(Self { algorithm, hex: hex.to_ascii_lowercase() })
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Lower-case hex digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        match text.split_once(':') {
            Some(("sha256", hex)) => Self::new(Algorithm::Sha256, hex),
            Some(("sha512", hex)) => Self::new(Algorithm::Sha512, hex),
            _ => Err(DigestError),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

/// Format of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// QEMU's copy-on-write format, version 2 or 3.
    Qcow2,
    /// The disk's bytes.
    Raw,
}

impl ImageFormat {
    /// The format as the config and libvirt spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
        }
    }
}

impl From<RawFormat> for ImageFormat {
    fn from(raw: RawFormat) -> Self {
        match raw {
            RawFormat::Qcow2 => Self::Qcow2,
            RawFormat::Raw => Self::Raw,
        }
    }
}

/// Firmware of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firmware {
    /// UEFI, secure boot off.
    Uefi,
    /// The PC BIOS.
    Bios,
}

impl Firmware {
    /// The firmware as the config spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uefi => "uefi",
            Self::Bios => "bios",
        }
    }
}

impl From<RawFirmware> for Firmware {
    fn from(raw: RawFirmware) -> Self {
        match raw {
            RawFirmware::Uefi => Self::Uefi,
            RawFirmware::Bios => Self::Bios,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(url: &str, digest: Option<&str>, format: ImageFormat) -> Image {
        Image {
            url: url.parse().expect("a URL"),
            digest: digest.map(|text| text.parse().expect("a digest")),
            digest_url: None,
            format,
            firmware: Firmware::Uefi,
        }
    }

    #[test]
    fn l23_l25_r8_another_url_digest_or_format_is_another_image() {
        let sum = format!("sha256:{}", "a".repeat(64));
        let ids = [
            image("https://a.example/d.qcow2", None, ImageFormat::Qcow2).id(),
            image("https://b.example/d.qcow2", None, ImageFormat::Qcow2).id(),
            image("https://a.example/d.qcow2", Some(&sum), ImageFormat::Qcow2).id(),
            image("https://a.example/d.qcow2", None, ImageFormat::Raw).id(),
        ];
        let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())));
    }

    #[test]
    fn the_case_of_a_digest_does_not_make_another_image() {
        let lower = format!("sha256:{}", "ab".repeat(32));
        let upper = format!("sha256:{}", "AB".repeat(32));
        let url = "https://a.example/d.qcow2";
        assert_eq!(
            image(url, Some(&lower), ImageFormat::Qcow2).id(),
            image(url, Some(&upper), ImageFormat::Qcow2).id()
        );
    }

    #[test]
    fn l34_a_url_with_a_password_is_refused_and_none_prints_its_query() {
        for text in ["https://u:CANARY@a.example/x", "https://CANARY@a.example/x"] {
            assert_eq!(text.parse::<ImageUrl>(), Err(UrlError::Userinfo));
        }
        let url: ImageUrl = "https://a.example/p/CANARY?sig=CANARY".parse().expect("a URL");
        assert_eq!(format!("{url} {url:?}"), "https://a.example/… ImageUrl(https://a.example/…)");
        for (text, error) in [
            ("file:///etc/passwd", UrlError::Scheme),
            ("disk.qcow2", UrlError::Unreadable),
            ("https://", UrlError::Unreadable),
            ("https://a.example/x#y", UrlError::Fragment),
        ] {
            assert_eq!(text.parse::<ImageUrl>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_digest_is_sha256_or_sha512() {
        assert!(format!("sha512:{}", "0".repeat(128)).parse::<Digest>().is_ok());
        for bad in ["", "md5:00", "sha256:", "sha256:zz", &"0".repeat(64), &format!("sha512:{}", "0".repeat(64))] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError), "{bad:?}");
        }
    }
}
