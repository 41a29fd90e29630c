//! Where entries live: the lowest room, which knows nobody but the shapes of what a storage keeps.
//!
//! ```text
//!   service ──apply, page, expire──▶ keyspace ──▶ rules: (entry or none, operation, clocks) -> (reply, entry or none)
//!                                       │
//!                                       └──▶ table, packed entries, deadlines
//! ```
//!
//! There is one keyspace, the embedded one: all entries in this process's memory. What it changes goes to a
//! [storage](crate::storage), and comes from there at start. [`rules`] know nothing of that: they are a pure function of
//! one entry.
mod embedded;
mod expiry;
mod packed;
pub mod rules;
mod scan;
mod table;

pub(crate) use embedded::{Expired, Keyspace};

/// What bounds a keyspace, and the secret that spreads its keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyspaceLimits {
    /// Most keys.
    pub(crate) max_keys: u64,
    /// Most bytes of memory that the entries take.
    pub(crate) max_bytes: u64,
    /// Most payload bytes of a page of keys.
    pub(crate) max_page_bytes: usize,
    /// Most keys of a page.
    pub(crate) max_page_keys: usize,
    /// Key of the hash that spreads keys over the table.
    pub(crate) hash_key: [u64; 2],
}
