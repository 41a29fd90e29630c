//! Files that define access: users, passwords, keys of tokens, and the policy.
//!
//! ```text
//!   file ─▶ read (size, permissions, ReadTracker) ─▶ text ─▶ statestored-access parses it
//! ```
//!
//! A reload reads all files again. Only [`KeyFile`] also reads its file again when it changes.
mod key_file;
mod policy_file;
mod users_file;

pub use key_file::KeyFile;
pub use policy_file::read_policy;
pub use users_file::{read_password, read_single_user, read_users};

use statestored_access::{JwksError, PolicyDiagnostic, UsersError};
use std::io;
use std::path::PathBuf;

/// An error in a file that defines access.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessFileError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The users, or the password, cannot be used.
    #[error("{path}: {source}")]
    Users {
        /// The file.
        path: PathBuf,
        /// Line and reason.
        source: UsersError,
    },
    /// The keys of tokens cannot be used.
    #[error("{path}: {source}")]
    Keys {
        /// The file.
        path: PathBuf,
        /// Key and reason.
        source: JwksError,
    },
    /// The policy cannot be used.
    #[error("{path}:{source}")]
    Policy {
        /// The file.
        path: PathBuf,
        /// Position and reason.
        source: PolicyDiagnostic,
    },
}
