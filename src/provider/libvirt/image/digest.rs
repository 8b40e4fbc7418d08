//! The digest that an image must have.

use std::fmt;
use std::str::FromStr;

/// A configured or published digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Digest {
    /// 64 lower-case hex digits.
    Sha256(String),
    /// 128 lower-case hex digits.
    Sha512(String),
}

/// A text that is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected sha256: and 64 hex digits, or sha512: and 128 hex digits")]
pub struct DigestError;

impl Digest {
    /// Hex digits of a SHA-256 digest.
    pub(super) const SHA256: usize = 64;
    /// Hex digits of a SHA-512 digest.
    pub(super) const SHA512: usize = 128;

    /// A digest from bare hex digits of either case, told apart by their number.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        match text.len() {
            Self::SHA256 => Some(Self::Sha256(text.to_ascii_lowercase())),
            Self::SHA512 => Some(Self::Sha512(text.to_ascii_lowercase())),
            _ => None,
        }
    }

    /// The name of the algorithm, as the config spells it.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Sha512(_) => "sha512",
        }
    }

    /// Its hex digits, lower-case.
    #[must_use]
    pub fn hex(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::Sha512(hex) => hex,
        }
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    /// Reads `sha256:…` or `sha512:…`, hex digits of either case.
    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (algorithm, hex) = text.split_once(':').ok_or(DigestError)?;
        Self::from_hex(hex).filter(|digest| digest.algorithm() == algorithm).ok_or(DigestError)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_its_algorithm_and_as_many_hex_digits() {
        let digest: Digest = format!("sha256:{}", "AB".repeat(32)).parse().unwrap();
        assert_eq!(digest.to_string(), format!("sha256:{}", "ab".repeat(32)));
        assert!(format!("sha512:{}", "ab".repeat(64)).parse::<Digest>().is_ok());
        for bad in [
            "ab".repeat(32),
            format!("sha256:{}", "ab".repeat(31)),
            format!("sha256:{}", "ab".repeat(64)),
            format!("sha512:{}", "ab".repeat(32)),
            format!("sha1:{}", "ab".repeat(20)),
            format!("SHA256:{}", "ab".repeat(32)),
            format!("sha256:{}zz", "ab".repeat(31)),
            format!("sha256: {}", "ab".repeat(32)),
        ] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError), "{bad}");
        }
    }
}
