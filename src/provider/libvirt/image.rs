//! Fetching base images to a private file on this machine, once a run, verified before use.
//!
//! [`Downloads`] is the way in. It talks to image servers and to the local file system, to no
//! host; bringing an image to a host is another module's work.

mod address;
mod attempts;
mod client;
mod digest;
mod digest_file;
mod download;
mod downloads;
mod inspect;
mod limits;
mod shown;
mod spool;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use url::Url;

pub use digest::{Digest, DigestError};
pub use digest_file::{DigestFileError, find as find_digest};
pub use downloads::Downloads;
pub use limits::Limits;
pub use shown::ShownUrl;

use crate::provider::error::ProviderError;
pub use crate::provider::libvirt::naming::Format;

/// A base image and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSource {
    /// Digest over URL, configured digest or digest URL, and format: 32 hex digits. Two sources
    /// with one id are one image.
    pub id: String,
    /// The config's key for it, for people.
    pub key: String,
    /// Where it is.
    pub url: Url,
    /// What it must be.
    pub digest: Option<Digest>,
    /// Where to read what it must be, when `digest` is absent.
    pub digest_url: Option<Url>,
    /// What it must begin like.
    pub format: Format,
    /// Whom it may come from.
    pub allowed_hosts: AllowedHosts,
    /// `maxImageGiB` in bytes: nothing longer is read.
    pub max_bytes: u64,
}

/// Whom an image may come from (L35). Names are host names or addresses as in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHosts {
    /// An image of the config: its URL and redirects may name any public host, and these others
    /// even when their addresses are private. The hosts of its own URLs are always among them.
    Any {
        /// Hosts that the config names.
        named: BTreeSet<String>,
    },
    /// An image of a manifest: its URL and redirects may name these hosts and no others.
    Only {
        /// `imageHosts` of the config.
        hosts: BTreeSet<String>,
    },
}

/// A verified image on this machine.
#[derive(Debug)]
pub struct Fetched {
    /// The file: readable by this user alone. It is removed with this value unless it lies in the
    /// cache folder under its digest.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// 64 lower-case hex digits of SHA-256 over it.
    pub sha256: String,
    /// The size of the disk that it holds, in bytes.
    pub virtual_bytes: Option<u64>,
    temporary: Option<Arc<tempfile::TempPath>>,
}

impl Fetched {
    fn in_cache(path: &Path, facts: spool::Facts) -> Self {
        Self {
            path: path.to_owned(),
            bytes: facts.bytes,
            sha256: facts.sha256,
            virtual_bytes: facts.virtual_bytes,
            temporary: None,
        }
    }

    fn temporary(path: tempfile::TempPath, facts: spool::Facts) -> Self {
        let kept = Arc::new(path);
        Self { temporary: Some(kept.clone()), ..Self::in_cache(&kept, facts) }
    }

    /// Whether the file goes away with this value.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

/// Is told how a download goes. Called from the download's own task; must not block.
pub trait Watch: Send + Sync {
    /// So many bytes of so many, where the server said how many. A download that starts over
    /// begins again at nothing.
    fn progress(&self, received: u64, total: Option<u64>) {
        let _ = (received, total);
    }

    /// An attempt failed, and another one follows (L15). Attempts count from 1.
    fn attempt_failed(&self, attempt: u32, error: &ProviderError) {
        let _ = (attempt, error);
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
