//! `vendor-data` of a seed: what the config gives, the agent's script, or both in one MIME message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::agent;

/// The first bytes by which cloud-init tells what a document is, and the type that it then has in a
/// MIME message. Longer ones come before those that they begin with.
const KINDS: [(&str, &str); 9] = [
    ("#cloud-config-archive", "text/cloud-config-archive"),
    ("#cloud-config-jsonp", "text/cloud-config-jsonp"),
    ("#cloud-config", "text/cloud-config"),
    ("#cloud-boothook", "text/cloud-boothook"),
    ("#include-once", "text/x-include-once-url"),
    ("#include", "text/x-include-url"),
    ("#part-handler", "text/part-handler"),
    ("## template: jinja", "text/jinja2"),
    ("#!", "text/x-shellscript"),
];

/// Headers with which a MIME message may begin, lower-case.
const MESSAGE: [&str; 2] = ["mime-version:", "content-type:"];

/// What a document is to cloud-init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A document of this MIME type.
    Document(&'static str),
    /// A MIME message.
    Message,
}

/// Vendor-data that cloud-init would drop without a word (L38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("vendor-data is of no kind that cloud-init knows; begin it with #cloud-config, #! or another of its headers")]
pub struct UnknownKind;

/// What a document is, by its first bytes; `None` for what cloud-init would not recognise.
#[must_use]
pub fn kind(document: &[u8]) -> Option<Kind> {
    if let Some((_, kind)) = KINDS.iter().find(|(start, _)| document.starts_with(start.as_bytes())) {
        return Some(Kind::Document(kind));
    }
    MESSAGE
        .iter()
        .any(|header| document.get(..header.len()).is_some_and(|start| start.eq_ignore_ascii_case(header.as_bytes())))
        .then_some(Kind::Message)
}

/// Joins the config's vendor-data with the script that installs the guest's agent. `None` when
/// there is neither; either alone is given as it is.
///
/// # Errors
/// When the vendor-data is of no kind that cloud-init knows. The config refuses that at load.
pub fn compose(vendor_data: Option<&[u8]>, install_agent: bool) -> Result<Option<Vec<u8>>, UnknownKind> {
    let Some(vendor) = vendor_data else {
        return Ok(install_agent.then(|| agent::SCRIPT.as_bytes().to_vec()));
    };
    let kind = kind(vendor).ok_or(UnknownKind)?;
    Ok(Some(if install_agent { multipart(kind, vendor) } else { vendor.to_vec() }))
}

/// One message of both. `MIME-Version` comes first, since that is what cloud-init looks for.
/// Documents travel in base64, so that no byte of them is taken for a boundary or re-encoded; a
/// message goes in as it is, since a part of a message may be a message's own parts.
fn multipart(kind: Kind, vendor: &[u8]) -> Vec<u8> {
    let boundary = ["egress-plan-", &hex::encode(Sha256::digest(vendor))].concat();
    let mut out = Vec::new();
    let mut line = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(b"\n");
    };
    line(&[b"MIME-Version: 1.0"]);
    line(&[b"Content-Type: multipart/mixed; boundary=\"", boundary.as_bytes(), b"\""]);
    line(&[]);
    for (kind, body) in [(kind, vendor), (Kind::Document("text/x-shellscript"), agent::SCRIPT.as_bytes())] {
        line(&[b"--", boundary.as_bytes()]);
        match kind {
            Kind::Message => line(&[body]),
            Kind::Document(kind) => {
                line(&[b"Content-Type: ", kind.as_bytes(), b"; charset=\"utf-8\""]);
                line(&[b"Content-Transfer-Encoding: base64"]);
                line(&[]);
                for row in STANDARD.encode(body).as_bytes().chunks(76) {
                    line(&[row]);
                }
            }
        }
    }
    line(&[b"--", boundary.as_bytes(), b"--"]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l38_what_cloud_init_does_not_know_is_refused() {
        for unknown in ["", "packages: [squid]", "\u{feff}#cloud-config\n", " #cloud-config", "# cloud-config", "---"] {
            assert_eq!(compose(Some(unknown.as_bytes()), true), Err(UnknownKind), "{unknown:?}");
            assert_eq!(compose(Some(unknown.as_bytes()), false), Err(UnknownKind), "{unknown:?}");
        }
    }

    #[test]
    fn each_header_has_its_type() {
        for (start, expected) in KINDS {
            assert_eq!(kind(format!("{start}\nrest").as_bytes()), Some(Kind::Document(expected)));
        }
        assert_eq!(kind(b"#!/usr/bin/env python3"), Some(Kind::Document("text/x-shellscript")));
        assert_eq!(kind(b"Content-Type: multipart/mixed; boundary=x"), Some(Kind::Message));
        assert_eq!(kind(b"MIME-Version: 1.0"), Some(Kind::Message));
    }

    #[test]
    fn one_of_the_two_travels_as_it_is() {
        assert_eq!(compose(None, false), Ok(None));
        assert_eq!(compose(None, true), Ok(Some(agent::SCRIPT.as_bytes().to_vec())));
        assert_eq!(compose(Some(b"#cloud-config\na: 1"), false), Ok(Some(b"#cloud-config\na: 1".to_vec())));
    }

    #[test]
    fn both_travel_in_one_message_that_begins_with_mime_version() {
        let vendor = "#cloud-config\nmotd: é--egress-plan-\n";
        let message = String::from_utf8(compose(Some(vendor.as_bytes()), true).unwrap().unwrap()).unwrap();
        assert!(message.starts_with("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\""), "{message}");
        let boundary = message.split('"').nth(1).unwrap();
        let parts: Vec<&str> = message.split(&format!("--{boundary}")).collect();
        assert_eq!((parts.len(), parts[3]), (4, "--\n"));
        for (part, kind, body) in
            [(parts[1], "text/cloud-config", vendor), (parts[2], "text/x-shellscript", agent::SCRIPT)]
        {
            let (head, encoded) = part.trim_start().split_once("\n\n").unwrap();
            assert!(head.starts_with(&format!("Content-Type: {kind};")), "{head}");
            let decoded = STANDARD.decode(encoded.replace('\n', "")).unwrap();
            assert_eq!(String::from_utf8(decoded).unwrap(), body);
        }
    }

    #[test]
    fn a_message_goes_in_as_a_part_with_its_own_parts() {
        let vendor = "Content-Type: multipart/mixed; boundary=\"in\"\n\n--in\n\n#!/bin/sh\n--in--\n";
        let message = String::from_utf8(compose(Some(vendor.as_bytes()), true).unwrap().unwrap()).unwrap();
        assert!(message.contains(vendor), "{message}");
    }
}
