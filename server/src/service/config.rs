//! What an operator can set about the service.
use super::Retention;
use crate::access::LimitsOfUsers;
use crate::keyspace::{KeyspaceLimits, PrefixLimit};
use std::hash::{BuildHasher, RandomState};

/// Limits of a store, and the secret that spreads its keys.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// Most keys the store holds; a SET of one more answers `the quota has been exceeded`.
    pub max_keys: u64,
    /// Most bytes of memory that the entries take, with what is needed to find them; a SET that would make it more
    /// answers the same. One that makes its entry no larger is never refused, and neither is a deletion.
    pub max_bytes: u64,
    /// How much of that there may be below prefixes of keys.
    pub prefixes: Vec<PrefixLimit>,
    /// Longest key, and longest SCAN pattern, in bytes. The hex form of a key, together with that of the watching
    /// client id, must fit a notification topic of 65,535 bytes.
    pub max_key_bytes: usize,
    /// Most payload bytes of a SCAN page. One key that is longer still gets through, alone.
    pub max_page_bytes: usize,
    /// Most keys of a SCAN page.
    pub max_page_keys: usize,
    /// Most watches of all clients together.
    pub max_watches: u64,
    /// What each user may have; of it, watches are counted here.
    pub users: LimitsOfUsers,
    /// Most keys that one client id watches at a time.
    pub max_watches_per_client: usize,
    /// Most bytes of the keys that one client id watches at a time.
    pub max_watched_bytes_per_client: usize,
    /// How many answers to state-changing requests are remembered per client id. At least the Receive Maximum that
    /// the hub grants, so that every request a client can redeliver is covered.
    pub replay_per_client: usize,
    /// Whether a storage keeps what is changed: then there are [batches](super::Service::take_batch), and outcomes wait for
    /// [`durable`](super::Service::durable).
    pub is_durable: bool,
    /// Which keys the storage keeps.
    pub retention: Retention,
    /// Key of the hash that spreads keys over the table. Secret, so that nobody can choose keys that collide;
    /// fixed in simulations, where a run must repeat itself.
    pub hash_key: [u64; 2],
}

impl ServiceConfig {
    /// The same with a [`hash_key`](Self::hash_key) made of a random number: with the same number, keys are scanned in
    /// the same order.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self {
            hash_key: [seed, seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15],
            ..self
        }
    }

    /// What concerns an embedded keyspace.
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
    /// Ten million keys of up to 16 KiB, in as many bytes as there are, pages of 64 KiB, no storage, and a random
    /// [`hash_key`](Self::hash_key).
    fn default() -> Self {
        Self {
            max_keys: 10_000_000,
            max_bytes: u64::MAX,
            prefixes: Vec::new(),
            max_key_bytes: 16_384,
            max_page_bytes: 65_536,
            max_page_keys: 1_024,
            max_watches: u64::MAX,
            users: LimitsOfUsers::default(),
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
