//! Digest files, in the forms that distributions write them (C13).
//!
//! Strict where it matters: a line that is not understood is never a reason to go on without a
//! digest, and two answers are none. Reads text alone.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use url::Url;

use super::digest::Digest;

/// Why a digest file gives no digest for an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestFileError {
    /// No line is about the file.
    #[error("the digest file has no SHA-256 or SHA-512 line for {name:?}")]
    NotListed {
        /// The file's name.
        name: String,
    },
    /// Only lines with digests that prove too little are about it.
    #[error("the digest file lists {name:?} with a weaker digest alone; SHA-256 or SHA-512 is needed")]
    TooWeak {
        /// The file's name.
        name: String,
    },
    /// Two lines are about it and differ.
    #[error("the digest file gives two different {algorithm} digests for {name:?}")]
    Ambiguous {
        /// The file's name.
        name: String,
        /// `sha256` or `sha512`.
        algorithm: &'static str,
    },
    /// A web page came instead.
    #[error("the digest URL gave a web page, not a digest file")]
    WebPage,
    /// The image's URL ends in no file name, so that no line can be about it.
    #[error("the image's URL ends in no file name to look up in the digest file")]
    NoName,
}

/// Finds the digest of the file that `image` names in the text of a digest file. SHA-512 is taken
/// where both are given. A bare digest counts when it is all there is.
pub fn find(text: &str, image: &Url) -> Result<Digest, DigestFileError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let head: String = text.chars().take(200).collect::<String>().to_ascii_lowercase();
    if head.starts_with('<') && (head.contains("<html") || head.contains("<!doctype") || head.contains("<?xml")) {
        return Err(DigestFileError::WebPage);
    }
    if let Some(bare) = Digest::from_hex(text) {
        return Ok(bare);
    }
    let raw = image.path_segments().and_then(Iterator::last).filter(|name| !name.is_empty());
    let raw = raw.ok_or(DigestFileError::NoName)?;
    let decoded = percent_decode_str(raw).decode_utf8_lossy().into_owned();

    let mut found: BTreeSet<Digest> = BTreeSet::new();
    let mut weak = false;
    for line in text.lines() {
        let Some((hex, name)) = gnu(line).or_else(|| bsd(line)) else { continue };
        let file = name.rsplit('/').next().unwrap_or(name);
        if file != decoded && file != raw {
            continue;
        }
        match Digest::from_hex(hex) {
            Some(digest) => {
                found.insert(digest);
            }
            None => weak = true,
        }
    }
    for algorithm in ["sha512", "sha256"] {
        let mut of_kind = found.iter().filter(|digest| digest.algorithm() == algorithm);
        match (of_kind.next(), of_kind.next()) {
            (Some(_), Some(_)) => return Err(DigestFileError::Ambiguous { name: decoded, algorithm }),
            (Some(digest), None) => return Ok(digest.clone()),
            (None, _) => {}
        }
    }
    Err(if weak { DigestFileError::TooWeak { name: decoded } } else { DigestFileError::NotListed { name: decoded } })
}

/// `H  name` and `H *name`: the digest comes first.
fn gnu(line: &str) -> Option<(&str, &str)> {
    let (hex, rest) = line.trim().split_once([' ', '\t'])?;
    let name = rest.trim_start();
    let name = name.strip_prefix('*').unwrap_or(name);
    (is_digest(hex) && !name.is_empty()).then_some((hex, name))
}

/// `SHA256 (name) = H` as BSD writes it, and `SHA256(name)= H` as OpenSSL does.
fn bsd(line: &str) -> Option<(&str, &str)> {
    let (algorithm, rest) = line.trim().split_once('(')?;
    let (name, hex) = rest.rsplit_once(')')?;
    let hex = hex.trim_start().strip_prefix('=')?.trim();
    let digits = match algorithm.trim().to_ascii_lowercase().replace('-', "").as_str() {
        "sha256" | "sha2256" => Some(Digest::SHA256),
        "sha512" | "sha2512" => Some(Digest::SHA512),
        "md5" | "sha1" | "sha224" | "sha384" => None,
        // The length alone does not tell SHA-512 from other digests of that length.
        _ => return None,
    };
    let fits = digits.is_none_or(|digits| digits == hex.len());
    (is_digest(hex) && fits && !name.is_empty()).then_some((hex, name))
}

/// Whether `text` may be a digest of any kind: from MD5 to SHA-512.
fn is_digest(text: &str) -> bool {
    matches!(text.len(), 32 | 40 | 56 | 64 | 96 | 128) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn h(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn find_disk(text: &str) -> Result<Digest, DigestFileError> {
        find(text, &Url::parse("https://host.test/images/disk.qcow2").unwrap())
    }

    #[test]
    fn c13_each_form_of_a_line_gives_the_digest() {
        let (h, other) = (h('a'), h('b'));
        for text in [
            format!("{h} *disk.qcow2\n"),
            format!("{h}  ./images/disk.qcow2\n"),
            format!(
                "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# disk.qcow2: 9 bytes\nSHA256 (disk.qcow2) = {h}\n\
                 -----BEGIN PGP SIGNATURE-----\n\niQIzBAEB\n-----END PGP SIGNATURE-----\n"
            ),
            format!("SHA256(disk.qcow2)= {h}\n"),
            format!("{}  disk.qcow2\n{h}  disk.qcow2\n", "c".repeat(40)),
            format!("{}  disk.qcow2\r\n", h.to_uppercase()),
            h.clone(),
            format!("\u{feff}{h}\r\n"),
            format!("{other}  olddisk.qcow2\n{h}  disk.qcow2\n"),
            format!("{h}  disk.qcow2\n{other}  disk.qcow2.zsync\n{h} *disk.qcow2\n"),
        ] {
            assert_eq!(find_disk(&text), Ok(Digest::Sha256(h.clone())), "{text}");
        }
    }

    #[test]
    fn c13_sha_512_is_used_alone_and_beside_sha_256() {
        let strong = "d".repeat(128);
        for text in [
            strong.clone(),
            format!("{strong}  disk.qcow2\n"),
            format!("SHA256 (disk.qcow2) = {}\nSHA512 (disk.qcow2) = {strong}\n", h('a')),
        ] {
            assert_eq!(find_disk(&text), Ok(Digest::Sha512(strong.clone())), "{text}");
        }
    }

    #[test]
    fn c13_what_gives_no_single_answer_is_refused() {
        let (h1, h2) = (h('1'), h('2'));
        let name = || "disk.qcow2".to_owned();
        let not_listed = DigestFileError::NotListed { name: name() };
        for (text, error) in [
            (
                format!("{h1}  disk.qcow2\n{h2}  disk.qcow2\n"),
                DigestFileError::Ambiguous { name: name(), algorithm: "sha256" },
            ),
            ("<!DOCTYPE html><html><body>disk.qcow2</body></html>".to_owned(), DigestFileError::WebPage),
            (format!("{}  disk.qcow2\n", "c".repeat(40)), DigestFileError::TooWeak { name: name() }),
            (format!("{h1}  olddisk.qcow2\n"), not_listed.clone()),
            (format!("{h1}\n{h2}\n"), not_listed.clone()),
            (format!("{h1} and more"), not_listed.clone()),
            (format!("SHA256 (disk.qcow2) = {}\n", "a".repeat(128)), not_listed.clone()),
            (String::new(), not_listed),
        ] {
            assert_eq!(find_disk(&text), Err(error), "{text}");
        }
    }

    #[test]
    fn c13_an_escaped_file_name_is_looked_up_as_it_is_meant() {
        let url = Url::parse("https://host.test/disk%2B1.qcow2?token=CANARY").unwrap();
        let text = format!("{}  disk+1.qcow2\n", h('a'));
        assert_eq!(find(&text, &url), Ok(Digest::Sha256(h('a'))));
        let text = format!("{}  disk%2B1.qcow2\n", h('a'));
        assert_eq!(find(&text, &url), Ok(Digest::Sha256(h('a'))));
    }

    proptest! {
        #[test]
        fn reading_any_text_never_panics(text in "(?s)([0-9a-f]{40,64}|[ *()=\n\r<é./]|SHA256|disk.qcow2){0,20}") {
            let _ = find_disk(&text);
        }
    }
}
