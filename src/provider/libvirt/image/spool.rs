//! The file that an image is downloaded into, and the folder that it lies in.
//!
//! A spool file is readable by this user alone and goes away with its value. What was verified
//! against a configured digest may be kept in the cache folder under that digest, and is verified
//! again before it is used.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256, Sha512};
use tempfile::{NamedTempFile, TempPath};

use super::digest::Digest;
use super::inspect;
use crate::provider::libvirt::naming::Format;

const PREFIX: &str = "egress-plan-image-";
const PART: &str = ".part";
/// A spool file that nobody has written to for so long is what a killed run left.
const STALE: Duration = Duration::from_hours(24);
/// How much is read at a time.
const CHUNK: usize = 1 << 20;

/// What is known of a whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// Only when it was asked for.
    pub(super) sha512: Option<String>,
    pub(super) virtual_bytes: Option<u64>,
}

impl Facts {
    /// Whether the file is what `wanted` says.
    pub(super) fn are(&self, wanted: &Digest) -> bool {
        self.digest(wanted) == Some(wanted.hex())
    }

    /// The file's own digest of the kind that `wanted` is of.
    pub(super) fn digest(&self, wanted: &Digest) -> Option<&str> {
        match wanted {
            Digest::Sha256(_) => Some(&self.sha256),
            Digest::Sha512(_) => self.sha512.as_deref(),
        }
    }
}

/// The digests that are taken while bytes pass by.
#[derive(Clone)]
struct Hashes {
    sha256: Sha256,
    sha512: Option<Sha512>,
    bytes: u64,
    head: Vec<u8>,
}

impl Hashes {
    fn new(wanted: Option<&Digest>) -> Self {
        let sha512 = matches!(wanted, Some(Digest::Sha512(_))).then(Sha512::new);
        Self { sha256: Sha256::new(), sha512, bytes: 0, head: Vec::new() }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(bytes);
        }
        let missing = inspect::HEAD.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(missing));
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }

    fn facts(self, format: Format) -> Facts {
        Facts {
            bytes: self.bytes,
            sha256: hex::encode(self.sha256.finalize()),
            sha512: self.sha512.map(|sha512| hex::encode(sha512.finalize())),
            virtual_bytes: inspect::virtual_bytes(format, &self.head, self.bytes),
        }
    }
}

/// A file that is being downloaded.
pub(super) struct Spool {
    file: NamedTempFile,
    hashes: Hashes,
    wanted: Option<Digest>,
}

impl Spool {
    /// A new, empty file in `folder`.
    pub(super) fn new(folder: &Path, wanted: Option<Digest>) -> io::Result<Self> {
        let file = tempfile::Builder::new().prefix(PREFIX).suffix(PART).tempfile_in(folder)?;
        Ok(Self { file, hashes: Hashes::new(wanted.as_ref()), wanted })
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.hashes.bytes
    }

    /// The first bytes, at most [`inspect::HEAD`].
    pub(super) fn head(&self) -> &[u8] {
        &self.hashes.head
    }

    /// Adds bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hashes.update(bytes);
        Ok(())
    }

    /// Starts over.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.file.as_file().set_len(0)?;
        self.file.rewind()?;
        self.hashes = Hashes::new(self.wanted.as_ref());
        Ok(())
    }

    /// What the file is so far.
    pub(super) fn facts(&self, format: Format) -> Facts {
        self.hashes.clone().facts(format)
    }

    /// Keeps the file under `path`, in place of one that is there.
    pub(super) fn keep(self, path: &Path) -> io::Result<()> {
        self.file.persist(path).map(|_| ()).map_err(|error| error.error)
    }

    /// Gives the file up to its path, with which it goes away.
    pub(super) fn into_path(self) -> TempPath {
        self.file.into_temp_path()
    }
}

/// Where a verified file is kept.
pub(super) fn cached(folder: &Path, digest: &Digest, format: Format) -> PathBuf {
    folder.join([PREFIX, digest.algorithm(), "-", digest.hex(), ".", format.as_str()].concat())
}

/// Reads a kept file whole and says what it is; `None` when there is none.
pub(super) fn inspect_cached(path: &Path, wanted: &Digest, format: Format) -> io::Result<Option<Facts>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut hashes = Hashes::new(Some(wanted));
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = file.read(&mut chunk)?;
        match chunk.get(..read) {
            Some([]) | None => return Ok(Some(hashes.facts(format))),
            Some(bytes) => hashes.update(bytes),
        }
    }
}

/// Bytes that this user may still write in `folder`.
pub(super) fn room(folder: &Path) -> io::Result<u64> {
    let figures = rustix::fs::statvfs(folder)?;
    Ok(figures.f_bavail.saturating_mul(figures.f_frsize))
}

/// Removes spool files that a killed run left in the cache folder. What cannot be removed stays.
pub(super) fn sweep(folder: &Path, now: SystemTime) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(PART));
        let age = || now.duration_since(entry.metadata().ok()?.modified().ok()?).ok();
        if ours && age().is_some_and(|age| age > STALE) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn r17_a_spool_file_is_private_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path(), None).unwrap();
        let path = spool.file.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(spool);
        assert!(!path.exists());
    }

    #[test]
    fn starting_over_forgets_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path(), Some(Digest::Sha512("0".repeat(128)))).unwrap();
        spool.write(b"former content").unwrap();
        spool.reset().unwrap();
        spool.write(b"abc").unwrap();
        let facts = spool.facts(Format::Raw);
        assert_eq!(std::fs::read(spool.into_path()).unwrap(), b"abc");
        assert_eq!(facts.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(facts.sha512.unwrap().starts_with("ddaf35a193617aba"));
        assert_eq!((facts.bytes, facts.virtual_bytes), (3, Some(3)));
    }

    #[test]
    fn only_old_spool_files_of_ours_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(folder.path().join(name), b"").unwrap();
        ["egress-plan-image-x.part", "egress-plan-image-sha256-00.qcow2", "other.part"].into_iter().for_each(touch);
        let left = || {
            let mut names: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        sweep(folder.path(), SystemTime::now()).unwrap();
        assert_eq!(left().len(), 3);
        sweep(folder.path(), SystemTime::now() + 2 * STALE).unwrap();
        assert_eq!(left(), ["egress-plan-image-sha256-00.qcow2", "other.part"]);
    }

    #[test]
    fn there_is_room_in_the_temporary_folder() {
        assert!(room(&std::env::temp_dir()).unwrap() > 0);
        assert!(room(Path::new("/no/such/folder")).is_err());
    }
}
