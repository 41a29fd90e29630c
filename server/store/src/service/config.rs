//! Configuration of the service.
use super::Retention;
use crate::keyspace::{KeyspaceLimits, PrefixLimit};
use statestored_access::UserLimitsMap;
use std::hash::{BuildHasher, RandomState};

/// Limits of a store, and the secret that spreads its keys.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// Maximum number of keys. A SET of one more is answered with `the quota has been exceeded`.
    pub max_keys: u64,
    /// Maximum bytes of memory that the entries and their index take. A SET that would exceed it is answered the same
    /// way. A SET that makes its entry no larger is never rejected, and neither is a deletion.
    pub max_bytes: u64,
    /// Limits of the entries below prefixes of keys.
    pub prefixes: Vec<PrefixLimit>,
    /// Maximum length of a key and of a SCAN pattern, in bytes. The hex form of a key, together with that of the
    /// watching client id, must fit a notification topic of 65,535 bytes.
    pub max_key_bytes: usize,
    /// Maximum payload bytes of a SCAN page. A single key that is longer is still returned, alone on its page.
    pub max_page_bytes: usize,
    /// Maximum number of keys on a SCAN page.
    pub max_page_keys: usize,
    /// Maximum number of watches of all clients together.
    pub max_watches: u64,
    /// Limits of each user. The service enforces the limit of watches.
    pub users: UserLimitsMap,
    /// Maximum number of keys and patterns that one client id watches at a time.
    pub max_watches_per_client: usize,
    /// Maximum bytes of the keys and compiled patterns that one client id watches at a time.
    pub max_watched_bytes_per_client: usize,
    /// Number of answers to state-changing requests that are remembered per client id. It must be at least the Receive
    /// Maximum that the hub grants, so that every request that a client can redeliver is covered.
    pub replay_per_client: usize,
    /// Whether a storage keeps changes. If so, there are [batches](super::Service::take_batch), and outcomes wait for
    /// [`mark_durable`](super::Service::mark_durable).
    pub is_durable: bool,
    /// Keys that the storage keeps.
    pub retention: Retention,
    /// Key of the hash that spreads keys over the table. The key is secret, so that clients cannot choose keys that
    /// collide. Simulations use a fixed key, since a run must be repeatable.
    pub hash_key: [u64; 2],
}

impl ServiceConfig {
    /// Returns this configuration with a [`hash_key`](Self::hash_key) made of a random number. With the same number,
    /// keys are scanned in the same order.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self {
            hash_key: [seed, seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15],
            ..self
        }
    }

    /// Returns the limits of an embedded keyspace.
    pub fn keyspace(&self) -> KeyspaceLimits {
        KeyspaceLimits {
            max_keys: self.max_keys,
            max_bytes: self.max_bytes,
            prefixes: self.prefixes.clone(),
            max_page_bytes: self.max_page_bytes,
            max_page_keys: self.max_page_keys,
            hash_key: self.hash_key,
        }
    }
}

impl Default for ServiceConfig {
    /// Returns a configuration for ten million keys of up to 16 KiB and pages of 64 KiB. It has no limit of bytes or
    /// watches of all clients, no storage, and a random [`hash_key`](Self::hash_key).
    fn default() -> Self {
        Self {
            max_keys: 10_000_000,
            max_bytes: u64::MAX,
            prefixes: Vec::new(),
            max_key_bytes: 16_384,
            max_page_bytes: 65_536,
            max_page_keys: 1_024,
            max_watches: u64::MAX,
            users: UserLimitsMap::default(),
            max_watches_per_client: 16_384,
            max_watched_bytes_per_client: 4 * 1024 * 1024,
            replay_per_client: 1_024,
            is_durable: false,
            retention: Retention::default(),
            hash_key: [
                RandomState::new().hash_one(0),
                RandomState::new().hash_one(1),
            ],
        }
    }
}
