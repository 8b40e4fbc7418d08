//! Writes a file so that a reader sees the old one or the new one, whole, and that a crash leaves one
//! of the two.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Format, Rendered};

/// Permission bits of a new file: a list without secrets that other programs read.
const MODE: u32 = 0o644;

/// What must not be lost.
#[derive(Debug, Clone, Copy)]
pub enum Keep<'a> {
    /// Nothing: the file is replaced by whatever comes.
    Nothing,
    /// A list of this format that is not empty, when the new one is empty although proxies are wanted:
    /// its readers would lose every exit at once, over what may be a passing fault here.
    NonEmpty(&'a Format, &'a Rendered),
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The file held these bytes already and was not touched.
    Unchanged,
    /// There was none.
    Created,
    /// It was replaced.
    Replaced,
}

/// Why a file was not written; it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// See [`Keep::NonEmpty`].
    #[error(
        "{} lists proxies and is kept, since not one of the {desired} wanted proxies can be listed now",
        path.display()
    )]
    WouldEmpty {
        /// The file.
        path: PathBuf,
        /// Proxies that are wanted.
        desired: usize,
    },
    /// The file system refused.
    #[error("{operation} {} failed", path.display())]
    Io {
        /// What was tried: `reading`.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What came back.
        #[source]
        source: io::Error,
    },
}

/// Writes `bytes` to `path` by way of a temporary file in the same folder, synced and renamed. Content
/// that is there already leaves the file alone, so that its readers are not woken. A symbolic link stays
/// one: the file that it names is replaced. Permissions of a file that was there are kept.
///
/// # Errors
/// When `keep` forbids it, or the file system does.
pub fn write_atomically(path: &Path, bytes: &[u8], keep: Keep<'_>) -> Result<Written, WriteError> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(source) => return Err(failed("finding", path, source)),
    };
    let before = match fs::read(&target) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(failed("reading", &target, source)),
    };
    if before.as_deref() == Some(bytes) {
        return Ok(Written::Unchanged);
    }
    if let (Some(before), Keep::NonEmpty(format, rendered)) = (&before, keep)
        && rendered.listed == 0
        && rendered.desired > 0
        && !format.is_empty_list(before)
    {
        return Err(WriteError::WouldEmpty { path: path.to_owned(), desired: rendered.desired });
    }
    replace(&target, bytes)?;
    Ok(if before.is_some() { Written::Replaced } else { Written::Created })
}

fn replace(target: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mode = fs::metadata(target).map_or(MODE, |there| there.permissions().mode());
    let mut file = tempfile::Builder::new()
        .prefix(".egress-plan-")
        .tempfile_in(folder)
        .map_err(|source| failed("making a file in", folder, source))?;
    file.write_all(bytes)
        .and_then(|()| file.as_file().set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.as_file().sync_all())
        .map_err(|source| failed("writing", target, source))?;
    file.persist(target).map_err(|error| failed("replacing", target, error.error))?;
    // The rename itself is on disk only when the folder is.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| failed("syncing", folder, source))
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> WriteError {
    WriteError::Io { operation, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn rendered(listed: usize, desired: usize) -> Rendered {
        Rendered { text: String::new(), listed, desired }
    }

    fn list() -> Format {
        Format::List(super::super::Template::default())
    }

    #[test]
    fn unchanged_content_leaves_the_file_untouched() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("list");
        assert_eq!(write_atomically(&path, b"a\n", Keep::Nothing).expect("written"), Written::Created);
        let inode = fs::metadata(&path).expect("there").ino();
        assert_eq!(write_atomically(&path, b"a\n", Keep::Nothing).expect("written"), Written::Unchanged);
        assert_eq!(fs::metadata(&path).expect("there").ino(), inode);
        assert_eq!(write_atomically(&path, b"b\n", Keep::Nothing).expect("written"), Written::Replaced);
        assert_ne!(fs::metadata(&path).expect("there").ino(), inode);
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_list_that_lists_something_is_not_replaced_by_an_empty_one() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("list");
        fs::write(&path, "http://192.0.2.1:3128\n").expect("written");
        let (format, none) = (list(), rendered(0, 3));
        let refusal = write_atomically(&path, b"", Keep::NonEmpty(&format, &none)).expect_err("refused");
        assert!(matches!(refusal, WriteError::WouldEmpty { desired: 3, .. }), "{refusal}");
        assert_eq!(fs::read_to_string(&path).expect("read"), "http://192.0.2.1:3128\n");

        let unwanted = rendered(0, 0);
        assert_eq!(
            write_atomically(&path, b"", Keep::NonEmpty(&format, &unwanted)).expect("nothing is wanted"),
            Written::Replaced
        );
    }

    #[test]
    fn an_empty_list_may_be_written_where_there_was_none() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("sd.json");
        let none = rendered(0, 3);
        let write = |bytes: &[u8]| write_atomically(&path, bytes, Keep::NonEmpty(&Format::FileSd, &none));
        assert_eq!(write(b"[]\n").expect("written"), Written::Created);
        assert_eq!(write(b"[ ]\n").expect("still empty"), Written::Replaced);
    }

    #[test]
    fn permissions_are_kept_and_new_files_can_be_read_by_others() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("list");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        write_atomically(&path, b"a", Keep::Nothing).expect("written");
        assert_eq!(mode(&path), 0o644);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
        write_atomically(&path, b"b", Keep::Nothing).expect("written");
        assert_eq!(mode(&path), 0o640);
    }

    #[test]
    fn a_symbolic_link_stays_one() {
        let folder = tempfile::tempdir().expect("folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        write_atomically(&link, b"new", Keep::Nothing).expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("read"), "new");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().expect("folder");
        let error = write_atomically(&folder.path().join("no/list"), b"a", Keep::Nothing).expect_err("no folder");
        assert!(error.to_string().contains("no"), "{error}");
        assert!(matches!(error, WriteError::Io { operation: "making a file in", .. }), "{error:?}");
    }
}
