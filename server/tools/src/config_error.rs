//! Errors of a configuration.
use crate::access_files::AccessFileError;
use statestored_admin::AdminConfigError;
use statestored_listeners::AnonymousExposure;
use statestored_listeners::TlsError;
use std::path::PathBuf;

/// Reason why a configuration is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The command line or the environment is not usable, or asks for help.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// No folder for the data is known.
    #[error(
        "no home folder is known for the data: give one with --data-dir DIR, or use --storage memory"
    )]
    NoDataFolder,
    /// A folder was given for a storage in memory.
    #[error("--storage memory keeps nothing on disk: leave out --data-dir, or --storage memory")]
    MemoryWithFolder,
    /// A folder was given for a shared storage.
    #[error("a shared storage keeps nothing on this disk: omit --data-dir")]
    SharedWithFolder,
    /// A file of users, of the keys of tokens, or of the policy is not usable.
    #[error(transparent)]
    Access(#[from] AccessFileError),
    /// A file of TLS is not usable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A network would be served without credentials.
    #[error(transparent)]
    AnonymousExposure(#[from] AnonymousExposure),
    /// The configuration file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A value in a file is invalid.
    #[error("{}:{line}:{column}: {problem}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1, in characters.
        column: usize,
        /// Problem of the value, and the expected values.
        problem: String,
    },
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
}

impl From<AdminConfigError> for ConfigError {
    fn from(error: AdminConfigError) -> Self {
        match error {
            AdminConfigError::Read { path, source } => Self::Read { path, source },
            AdminConfigError::Options(problem) => Self::Options(problem),
        }
    }
}
