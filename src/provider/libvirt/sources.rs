//! The base images of an entry by the id that the plan names them with.

use std::collections::{BTreeMap, BTreeSet};

use super::config::{self, Algorithm, ImageFormat, LibvirtConfig};
use super::image::{AllowedHosts, Digest, Format, ImageSource};
use crate::plan::{ImageNeed, Reason};
use crate::provider::error::{Class, ProviderError};

/// Where each image comes from.
pub(super) struct ImageSources {
    by_id: BTreeMap<String, ImageSource>,
}

impl ImageSources {
    /// The images of the config, and those that manifests name by URL.
    pub fn new(config: &LibvirtConfig, urls: &BTreeSet<String>) -> Self {
        let named: BTreeSet<String> = config
            .images
            .values()
            .flat_map(|image| [Some(&image.url), image.digest_url.as_ref()])
            .flatten()
            .map(|url| url.host().to_owned())
            .collect();
        let keyed = config.images.iter().map(|(key, image)| {
            source(key.as_str(), image, AllowedHosts::Any { named: named.clone() }, config.max_image_bytes)
        });
        let by_url = urls.iter().filter_map(|url| config.image(url).ok()).map(|(key, image)| {
            source(&key, &image, AllowedHosts::Only { hosts: config.image_hosts.clone() }, config.max_image_bytes)
        });
        Self { by_id: keyed.chain(by_url).map(|source| (source.id.clone(), source)).collect() }
    }

    pub fn ids(&self) -> BTreeSet<String> {
        self.by_id.keys().cloned().collect()
    }

    pub fn source(&self, need: &ImageNeed) -> Result<ImageSource, ProviderError> {
        self.by_id.get(&need.id).cloned().ok_or_else(|| {
            ProviderError::new(
                Class::Permanent,
                Reason::Unresolved,
                "find the image",
                &need.key,
                "it is not in the config",
            )
        })
    }
}

fn source(key: &str, image: &config::Image, allowed_hosts: AllowedHosts, max_bytes: u64) -> ImageSource {
    ImageSource {
        id: image.id(),
        key: key.to_owned(),
        url: image.url.expose().clone(),
        digest: image.digest.as_ref().map(digest),
        digest_url: image.digest_url.as_ref().map(|url| url.expose().clone()),
        format: match image.format {
            ImageFormat::Qcow2 => Format::Qcow2,
            ImageFormat::Raw => Format::Raw,
        },
        allowed_hosts,
        max_bytes,
    }
}

fn digest(digest: &config::Digest) -> Digest {
    match digest.algorithm() {
        Algorithm::Sha256 => Digest::Sha256(digest.hex().to_owned()),
        Algorithm::Sha512 => Digest::Sha512(digest.hex().to_owned()),
    }
}
