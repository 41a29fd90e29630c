//! Errors of the configuration of the HTTP port.
use std::io;
use std::path::PathBuf;

/// Reason why the configuration of the HTTP port is not usable.
#[derive(Debug, thiserror::Error)]
pub enum AdminConfigError {
    /// The file of a token cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A token or the address is not usable, or they contradict each other.
    #[error("{0}")]
    Options(String),
}
