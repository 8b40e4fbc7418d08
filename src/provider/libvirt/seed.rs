//! The seed: the disk from which cloud-init in the guest configures it at its first boot.
//!
//! An ISO 9660 image labelled `cidata` with Joliet and Rock Ridge names, built in memory (L36). The
//! image itself is never hashed, since it carries times; `instance-id` is the digest over what is
//! in it. Nothing of its content is ever printed.

pub mod agent;
pub mod network;
pub mod vendor;

use std::io::Cursor;

use hadris_iso::joliet::JolietLevel;
use hadris_iso::read::PathSeparator;
use hadris_iso::rrip::RripOptions;
use hadris_iso::write::options::{BaseIsoLevel, CreationFeatures, IsoFormatOptions};
use hadris_iso::write::{InputEntry, InputMetadata, InputTree, IsoImageWriter};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::plan::{Network, Reason, UserData};
use crate::provider::error::{Class, ProviderError};

/// The label by which cloud-init finds the seed.
pub const LABEL: &str = "cidata";
const SECTOR: usize = 2048;
const OPERATION: &str = "build the seed";

/// What goes into a seed.
#[derive(Debug, Clone, Copy)]
pub struct SeedInput<'a> {
    /// Delivered byte for byte; an empty file when there is none, since cloud-init wants the file.
    pub user_data: Option<&'a UserData>,
    /// As [`vendor::compose`] made it; an empty file when there is none.
    pub vendor_data: Option<&'a [u8]>,
    /// Static addresses; DHCP when absent.
    pub network: Option<&'a Network>,
    /// The host name that the guest takes.
    pub hostname: &'a str,
    /// MAC address of the guest's network card.
    pub mac: &'a str,
    /// UUID of the domain that the seed is for.
    pub domain_uuid: Uuid,
}

/// A seed, ready to be uploaded.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed {
    /// The image: whole sectors.
    pub bytes: Vec<u8>,
    /// What cloud-init takes for the machine's identity: 64 hex digits.
    pub instance_id: String,
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seed({}, {} bytes)", self.instance_id, self.bytes.len())
    }
}

/// Builds a seed.
///
/// # Errors
/// Permanent when user-data is longer than [`UserData::MAX`]; transient when the image could not be
/// put together, which is this machine's trouble and not the manifest's (L36).
pub fn build(input: &SeedInput<'_>) -> Result<Seed, ProviderError> {
    let user_data = input.user_data.map(UserData::expose).unwrap_or_default();
    if user_data.len() > UserData::MAX {
        return Err(ProviderError::new(
            Class::Permanent,
            Reason::PermanentError,
            OPERATION,
            input.hostname,
            format!("user-data of {} bytes is too long; at most {} are allowed", user_data.len(), UserData::MAX),
        ));
    }
    let network = input.network.map(|network| network::config(network, input.mac));
    let instance_id = instance_id(input, user_data, network.as_deref());
    let meta_data =
        serde_json::json!({"instance-id": instance_id, "local-hostname": input.hostname}).to_string() + "\n";

    let mut files = vec![
        ("user-data", user_data.to_vec()),
        ("meta-data", meta_data.into_bytes()),
        ("vendor-data", input.vendor_data.unwrap_or_default().to_vec()),
    ];
    files.extend(network.map(|network| ("network-config", network.into_bytes())));
    let bytes = image(files).map_err(|message| {
        ProviderError::new(Class::Transient, Reason::TransientError, OPERATION, input.hostname, message)
    })?;
    Ok(Seed { bytes, instance_id })
}

fn instance_id(input: &SeedInput<'_>, user_data: &[u8], network: Option<&str>) -> String {
    let mut hash = Sha256::new();
    for part in [
        user_data,
        input.vendor_data.unwrap_or_default(),
        network.unwrap_or_default().as_bytes(),
        input.hostname.as_bytes(),
        input.domain_uuid.to_string().as_bytes(),
    ] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}

fn image(files: Vec<(&str, Vec<u8>)>) -> Result<Vec<u8>, String> {
    // Secrets lie in these files, and only root reads them.
    let metadata = InputMetadata { mode: Some(0o400), uid: Some(0), gid: Some(0), ..InputMetadata::default() };
    let entries =
        files.into_iter().map(|(name, bytes)| InputEntry::file(name, bytes).with_metadata(metadata)).collect();
    let options = IsoFormatOptions {
        volume_name: LABEL.to_owned(),
        system_id: None,
        volume_set_id: None,
        publisher_id: None,
        preparer_id: None,
        application_id: None,
        sector_size: SECTOR,
        path_separator: PathSeparator::ForwardSlash,
        features: CreationFeatures {
            filenames: BaseIsoLevel::Level1 { supports_lowercase: false, supports_rrip: true },
            joliet: Some(JolietLevel::Level3),
            rock_ridge: Some(RripOptions::default()),
            ..CreationFeatures::default()
        },
        // The label is lower-case, which ISO 9660 itself does not allow and cloud-init wants.
        strict_charset: false,
    };
    let tree = InputTree::new(PathSeparator::ForwardSlash, entries);
    let image = IsoImageWriter::create(Cursor::new(Vec::new()), tree, options).map_err(|error| error.to_string())?;
    let mut bytes = image.into_inner();
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use hadris_iso::read::IsoReader;

    use super::*;

    const UUID: Uuid = Uuid::from_u128(1);

    fn input(user_data: &UserData) -> SeedInput<'_> {
        SeedInput {
            user_data: Some(user_data),
            vendor_data: None,
            network: None,
            hostname: "p1",
            mac: "52:b5:14:aa:c4:1c",
            domain_uuid: UUID,
        }
    }

    fn network() -> Network {
        Network {
            addresses: vec!["192.0.2.17/24".parse().unwrap()],
            gateway: Some("192.0.2.1".parse().unwrap()),
            nameservers: vec!["192.0.2.1".parse().unwrap()],
        }
    }

    fn files(seed: &Seed) -> BTreeMap<String, Vec<u8>> {
        let mut reader = IsoReader::open(Cursor::new(seed.bytes.clone())).unwrap();
        let mut files = BTreeMap::new();
        for name in ["user-data", "meta-data", "vendor-data", "network-config"] {
            if let Some(entry) = reader.find_path(name).unwrap() {
                let mut file = reader.open_file(&entry).unwrap();
                let mut bytes = vec![];
                let mut chunk = [0; 4096];
                loop {
                    let read = file.read_chunk(&mut chunk).unwrap();
                    if read == 0 {
                        break;
                    }
                    bytes.extend(&chunk[..read]);
                }
                files.insert(name.to_owned(), bytes);
            }
        }
        files
    }

    #[test]
    fn c18_user_data_arrives_byte_for_byte() {
        let long = vec![0xa5; UserData::MAX];
        for bytes in [
            b"".as_slice(),
            b"#cloud-config\r\n",
            b"\xef\xbb\xbf#cloud-config\n",
            b"\x1f\x8b\x08\x00\x00\xff\x00",
            b"## template: jinja\n#cloud-config\n",
            &[7; 2048],
            &[7; 2049],
            &long,
        ] {
            let user_data = UserData::new(bytes.to_vec());
            let seed = build(&input(&user_data)).unwrap();
            assert!(files(&seed)["user-data"] == bytes, "{} bytes", bytes.len());
        }
    }

    #[test]
    fn network_config_is_there_only_when_a_network_is_given() {
        let user_data = UserData::new(vec![]);
        let bare = build(&SeedInput { user_data: None, ..input(&user_data) }).unwrap();
        assert_eq!(files(&bare).into_keys().collect::<Vec<_>>(), ["meta-data", "user-data", "vendor-data"]);
        let network = network();
        let full =
            build(&SeedInput { vendor_data: Some(b"#!/bin/sh\n"), network: Some(&network), ..input(&user_data) })
                .unwrap();
        assert_eq!(
            files(&full).into_keys().collect::<Vec<_>>(),
            ["meta-data", "network-config", "user-data", "vendor-data"]
        );
    }

    #[test]
    fn the_label_is_in_both_volume_descriptors() {
        let user_data = UserData::new(b"x".to_vec());
        let seed = build(&input(&user_data)).unwrap();
        let mut labels = vec![];
        for sector in 16.. {
            let at = sector * SECTOR;
            let descriptor = &seed.bytes[at..at + SECTOR];
            assert_eq!(&descriptor[1..6], b"CD001");
            match descriptor[0] {
                255 => break,
                1 => labels.push(String::from_utf8(descriptor[40..72].to_vec()).unwrap()),
                2 => {
                    let units: Vec<u16> =
                        descriptor[40..72].chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
                    labels.push(String::from_utf16(&units).unwrap());
                }
                _ => {}
            }
        }
        let labels: Vec<&str> = labels.iter().map(|label| label.trim_end_matches([' ', '\0'])).collect();
        assert_eq!(labels, [LABEL, LABEL]);
        assert_eq!(seed.bytes.len() % SECTOR, 0);
    }

    #[test]
    fn meta_data_names_the_machine_and_its_identity() {
        let user_data = UserData::new(b"x".to_vec());
        let seed = build(&input(&user_data)).unwrap();
        let meta: BTreeMap<String, String> = serde_json::from_slice(&files(&seed)["meta-data"]).unwrap();
        assert_eq!(meta["local-hostname"], "p1");
        assert_eq!(meta["instance-id"], seed.instance_id);
        assert_eq!(seed.instance_id.len(), 64);
    }

    #[test]
    fn r16_the_identity_follows_the_content_and_nothing_else() {
        let (one, two) = (UserData::new(b"ab".to_vec()), UserData::new(b"a".to_vec()));
        let network = network();
        let id = |input: &SeedInput<'_>| build(input).unwrap().instance_id;
        let same = id(&input(&one));
        assert_eq!(same, id(&input(&one)));
        let others = [
            id(&input(&two)),
            id(&SeedInput { vendor_data: Some(b"b"), ..input(&two) }),
            id(&SeedInput { network: Some(&network), ..input(&one) }),
            id(&SeedInput { hostname: "p2", ..input(&one) }),
            id(&SeedInput { domain_uuid: Uuid::from_u128(2), ..input(&one) }),
        ];
        let mut all: std::collections::BTreeSet<String> = others.into();
        all.insert(same);
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn user_data_beyond_the_bound_is_refused_without_showing_it() {
        let user_data = UserData::new(vec![b'Z'; UserData::MAX + 1]);
        let error = build(&input(&user_data)).unwrap_err();
        assert_eq!(error.class, Class::Permanent);
        assert!(!error.to_string().contains("ZZ"), "{error}");
    }

    #[test]
    fn r17_debug_output_shows_no_content() {
        let user_data = UserData::new(b"hunter2".to_vec());
        let input = input(&user_data);
        let seed = build(&input).unwrap();
        assert!(!format!("{input:?} {seed:?}").contains("hunter2"));
        let mut found = vec![];
        Cursor::new(seed.bytes).read_to_end(&mut found).unwrap();
        assert!(found.windows(7).any(|window| window == b"hunter2"), "and the image does hold it");
    }
}
