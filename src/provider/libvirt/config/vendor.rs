//! Vendor-data that every machine of an entry gets.

use crate::plan::UserData;
use crate::provider::document::{Findings, Located};
use crate::provider::libvirt::cloud_init::Content;

/// Vendor-data of the config. Printing it shows length and digest alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorData {
    /// What it is.
    pub content: Content,
    /// The bytes, as secret as user-data.
    pub bytes: UserData,
}

impl VendorData {
    /// Checks that cloud-init would do something with it. With `beside_agent`, it travels as a part
    /// beside the script that installs the guest agent.
    pub(super) fn read(raw: &Located<String>, beside_agent: bool, findings: &mut Findings) -> Option<Self> {
        let text = raw.get()?;
        if text.len() > UserData::MAX {
            findings.error(&raw.at, "vendor-data is longer than 1 MiB; make it smaller");
            return None;
        }
        match Content::recognise(text.as_bytes()) {
            Err(why) => {
                findings.error(&raw.at, format!("cloud-init would ignore this vendor-data: {why}"));
                None
            }
            Ok(content) if content.mime_type().is_none() && beside_agent => {
                findings.error(
                    &raw.at,
                    "a MIME message cannot be joined with the script that installs the guest agent; \
                     give a cloud-config or a script, or set installGuestAgent: false",
                );
                None
            }
            Ok(content) => Some(Self { content, bytes: UserData::new(text.clone().into_bytes()) }),
        }
    }
}
