//! Damage of files: the problem and its position.
use super::StorageError;
use std::fmt;
use std::path::{Path, PathBuf};

/// A file or directory that is damaged or not part of a store. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    path: PathBuf,
    offset: Option<u64>,
    problem: String,
    advice: &'static str,
}

impl Damage {
    /// Creates the description of a problem. `what` follows the path, like "is damaged: it is empty"; the advice
    /// follows "nothing was changed".
    pub(super) fn new(path: &Path, what: String, advice: &'static str) -> Self {
        Self {
            path: path.into(),
            offset: None,
            problem: what,
            advice,
        }
    }

    /// Adds the position in the file.
    #[must_use]
    pub(super) fn at(self, offset: u64) -> Self {
        Self {
            offset: Some(offset),
            ..self
        }
    }

    /// Returns the file or directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the position in bytes from the beginning of the file, if it is known.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Returns the problem as a sentence whose subject is the path.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            problem: what,
            advice,
            ..
        } = self;
        write!(
            f,
            "{} {what}; nothing was changed, {advice}",
            path.display()
        )
    }
}

impl From<Damage> for StorageError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}
