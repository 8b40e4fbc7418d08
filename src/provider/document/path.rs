//! Paths as configs write them.

use std::path::{Path, PathBuf};

/// What paths of a config are relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// The folder of the config file.
    pub config: PathBuf,
    /// The user's home, for `~/`.
    pub home: Option<PathBuf>,
}

/// A path that means nothing here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// An empty text.
    #[error("a path may not be empty")]
    Empty,
    /// `~user/…`, or `~` alone.
    #[error("only ~/ is expanded; write the path out")]
    Tilde,
    /// `~/` without a home.
    #[error("~/ cannot be expanded, since HOME is not set; write the path out")]
    NoHome,
    /// A character that no path can hold.
    #[error("a path may not hold a NUL character")]
    Nul,
}

impl Folders {
    /// Expands `~/` and joins what is relative to the config file's folder.
    pub fn resolve(&self, text: &str) -> Result<PathBuf, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        if let Some(rest) = text.strip_prefix("~/") {
            return self.home.as_ref().map(|home| home.join(rest)).ok_or(PathError::NoHome);
        }
        if text.starts_with('~') {
            return Err(PathError::Tilde);
        }
        Ok(self.config.join(Path::new(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c05_a_tilde_is_expanded_or_refused() {
        let folders = Folders { config: "/etc/fleet".into(), home: Some("/home/u".into()) };
        assert_eq!(folders.resolve("~/.ssh/id"), Ok(PathBuf::from("/home/u/.ssh/id")));
        assert_eq!(folders.resolve("keys/id"), Ok(PathBuf::from("/etc/fleet/keys/id")));
        assert_eq!(folders.resolve("/k"), Ok(PathBuf::from("/k")));
        assert_eq!(folders.resolve("~"), Err(PathError::Tilde));
        assert_eq!(folders.resolve("~root/id"), Err(PathError::Tilde));
        assert_eq!(folders.resolve(""), Err(PathError::Empty));
        assert_eq!(Folders { home: None, ..folders }.resolve("~/a"), Err(PathError::NoHome));
    }
}
