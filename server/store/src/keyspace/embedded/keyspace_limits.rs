//! Limits of an embedded keyspace.
use super::PrefixLimit;

/// The limits of an embedded keyspace, and the secret key of its hash.
#[derive(Debug, Clone)]
pub struct KeyspaceLimits {
    /// Maximum number of keys.
    pub max_keys: u64,
    /// Maximum bytes of memory that the entries and their deadlines take.
    pub max_bytes: u64,
    /// Limits for the keys below prefixes.
    pub prefixes: Vec<PrefixLimit>,
    /// Maximum payload bytes of a page of keys.
    pub max_page_bytes: usize,
    /// Maximum number of keys on a page.
    pub max_page_keys: usize,
    /// Secret key of the hash that distributes keys over the table.
    pub hash_key: [u64; 2],
}
