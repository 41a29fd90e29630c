//! Quotas that a change met.
use bytes::Bytes;
use std::fmt;

/// A quota that leaves no room for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quota {
    /// The number of keys.
    Keys,
    /// The memory of the entries.
    Bytes,
    /// The memory of the process.
    Memory,
    /// The keys or bytes below this prefix.
    Prefix(Bytes),
    /// The watches of all clients.
    Watches,
    /// The watches of one user.
    UserWatches,
    /// The watches of one user of patterns with the same literal prefix.
    UserPatterns,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys => f.write_str("the store holds as many keys as --max-keys allows"),
            Self::Bytes => f.write_str("the entries take as much memory as --max-bytes allows"),
            Self::Memory => f.write_str("the memory that the process may have is used up"),
            Self::Prefix(prefix) => {
                let prefix = String::from_utf8_lossy(prefix);
                write!(
                    f,
                    "the prefix {prefix:?} holds as much as --limit-prefix allows"
                )
            }
            Self::Watches => f.write_str("there are as many watches as --max-watches allows"),
            Self::UserWatches => f.write_str("the user has as many watches as --limit-user allows"),
            Self::UserPatterns => {
                f.write_str("the user watches 32 patterns with the same beginning already")
            }
        }
    }
}
