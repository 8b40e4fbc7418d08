//! Which files `-f` means, and their bytes.
//!
//! A folder holds more than manifests: editors' backups, dot files, and in a mounted `ConfigMap` each
//! file two or three times (C24). What is passed over by its name is passed over in silence; what
//! should be read and cannot be is an error, since a manifest that is missed would make an orphan.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::user_data::reason;

/// The largest file of manifests, in bytes.
const MAX: u64 = 64 << 20;

/// How deep folders are followed.
const DEPTH: usize = 32;

/// A file that was read.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// As it is shown: as given, or `stdin`.
    pub name: String,
    pub bytes: Vec<u8>,
    /// The file with its links resolved; none for stdin.
    pub real: Option<PathBuf>,
    /// The folder that it is seen in; none for stdin.
    pub folder: Option<PathBuf>,
    /// The folder that its references must stay in, links resolved; none for stdin.
    pub root: Option<PathBuf>,
    /// Which `-f` it is of.
    pub argument: usize,
}

/// What all `-f` came to.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub files: Vec<SourceFile>,
    pub problems: Vec<Problem>,
    /// Those `-f` that name folders.
    pub folders: Vec<Folder>,
}

/// A folder given with `-f`.
#[derive(Debug)]
pub(super) struct Folder {
    /// Which `-f` it is.
    pub argument: usize,
    /// As it is shown.
    pub name: String,
    /// The folder with its links resolved.
    pub real: PathBuf,
}

impl Folder {
    /// Whether `file` is of this folder, though another `-f` may have shown it first.
    pub fn holds(&self, file: &SourceFile) -> bool {
        file.argument == self.argument || file.real.as_ref().is_some_and(|real| real.starts_with(&self.real))
    }
}

/// Reads all files that `filenames` mean, each once, in a fixed order.
pub(super) fn gather(filenames: &[PathBuf], stdin: &mut dyn Read) -> Gathered {
    let mut walk = Walk::default();
    for (argument, path) in filenames.iter().enumerate() {
        if path.as_os_str() == "-" {
            walk.read_stdin(argument, stdin);
            continue;
        }
        let name = path.display().to_string();
        match (fs::metadata(path), path.canonicalize()) {
            (Ok(metadata), Ok(real)) if metadata.is_dir() => {
                walk.out.folders.push(Folder { argument, name, real: real.clone() });
                walk.folder(path, &real, argument, 0);
            }
            (Ok(_), Ok(real)) => {
                let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
                let seen_in = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.clone() };
                match seen_in.canonicalize() {
                    Ok(root) => walk.file(path, &folder, &root, real, argument),
                    Err(error) => walk.fail(&name, &error),
                }
            }
            (Err(error), _) | (_, Err(error)) => walk.fail(&name, &error),
        }
    }
    walk.out
}

#[derive(Default)]
struct Walk {
    out: Gathered,
    /// Files and folders by their real path: each is read once, and a link to a folder above ends.
    seen: BTreeSet<PathBuf>,
}

impl Walk {
    fn fail(&mut self, name: &str, error: &std::io::Error) {
        let message = match error.kind() {
            std::io::ErrorKind::FileTooLarge => "this file is larger than 64 MiB".to_owned(),
            _ => format!("this {}", reason(error)),
        };
        self.out.problems.push(Problem::of_file(name, message));
    }

    fn read_stdin(&mut self, argument: usize, stdin: &mut dyn Read) {
        match read_bounded(stdin) {
            Ok(bytes) => self.out.files.push(SourceFile {
                name: "stdin".to_owned(),
                bytes,
                real: None,
                folder: None,
                root: None,
                argument,
            }),
            Err(error) => self.fail("stdin", &error),
        }
    }

    fn file(&mut self, path: &Path, folder: &Path, root: &Path, real: PathBuf, argument: usize) {
        if !self.seen.insert(real.clone()) {
            return;
        }
        let name = path.display().to_string();
        match fs::File::open(path).and_then(|mut file| read_bounded(&mut file)) {
            Ok(bytes) => self.out.files.push(SourceFile {
                name,
                bytes,
                real: Some(real),
                folder: Some(folder.to_path_buf()),
                root: Some(root.to_path_buf()),
                argument,
            }),
            Err(error) => self.fail(&name, &error),
        }
    }

    fn folder(&mut self, path: &Path, root: &Path, argument: usize, depth: usize) {
        let shown = path.display().to_string();
        let listed = path.canonicalize().and_then(|real| {
            if !self.seen.insert(real) {
                return Ok(Vec::new());
            }
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = match listed {
            Ok(names) => names,
            Err(error) => return self.fail(&shown, &error),
        };
        if depth > DEPTH {
            return self.out.problems.push(Problem::of_file(shown, "these folders are nested too deeply"));
        }
        names.sort();
        for name in names {
            let shown = name.to_string_lossy();
            if passed_over(&shown) {
                continue;
            }
            let entry = path.join(&name);
            // Links are followed here: a dangling one fails.
            match fs::metadata(&entry) {
                Ok(metadata) if metadata.is_dir() => self.folder(&entry, root, argument, depth + 1),
                Ok(_) if !is_manifest(&shown) => {}
                Ok(metadata) if !metadata.is_file() => {
                    let problem = Problem::of_file(entry.display().to_string(), "this is no regular file");
                    self.out.problems.push(problem);
                }
                Ok(_) => match entry.canonicalize() {
                    Ok(real) => self.file(&entry, path, root, real, argument),
                    Err(error) => self.fail(&entry.display().to_string(), &error),
                },
                Err(error) => self.fail(&entry.display().to_string(), &error),
            }
        }
    }
}

/// Dot entries, and what editors leave behind.
fn passed_over(name: &str) -> bool {
    name.starts_with('.') || name.ends_with('~') || (name.starts_with('#') && name.ends_with('#'))
}

fn is_manifest(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| matches!(ending.as_str(), "yaml" | "yml" | "json"))
}

/// Reads a text file up to the bound; more is an error of kind `FileTooLarge`.
pub(super) fn read_bounded(reader: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
