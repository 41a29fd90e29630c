//! Errors in the files of TLS.
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Reason why the files of TLS are not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The content of a file is invalid.
    #[error("{} {problem}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Problem of the file.
        problem: String,
    },
    /// The cryptography cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

impl TlsError {
    pub(super) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::File {
            path: path.into(),
            problem: problem.into(),
        }
    }

    pub(super) fn setup(error: impl Display) -> Self {
        Self::Setup(error.to_string())
    }
}
