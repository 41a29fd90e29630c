//! What an operator can set about the engine.
use std::hash::{BuildHasher, RandomState};

/// Limits of a store, and the secret that spreads its keys.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Most keys the store holds; a SET of one more answers `the quota has been exceeded`.
    pub max_keys: u64,
    /// Longest key, and longest SCAN pattern, in bytes. The hex form of a key, together with that of the watching
    /// client id, must fit a notification topic of 65,535 bytes.
    pub max_key_bytes: usize,
    /// Most payload bytes of a SCAN page. One key that is longer still gets through, alone.
    pub max_page_bytes: usize,
    /// Most keys of a SCAN page.
    pub max_page_keys: usize,
    /// Most keys that one client id watches at a time.
    pub max_watches_per_client: usize,
    /// How many answers to state-changing requests are remembered per client id. At least the Receive Maximum that
    /// the front grants, so that every request a client can redeliver is covered.
    pub replay_per_client: usize,
    /// How many answers are remembered over all client ids; beyond it the client ids that have been idle longest
    /// lose theirs.
    pub replay_total: usize,
    /// Key of the hash that spreads keys over the table. Secret, so that nobody can choose keys that collide;
    /// fixed in simulations, where a run must repeat itself.
    pub hash_key: [u64; 2],
}

impl Default for EngineConfig {
    /// Ten million keys of up to 16 KiB, pages of 64 KiB, and a random [`hash_key`](Self::hash_key).
    fn default() -> Self {
        Self {
            max_keys: 10_000_000,
            max_key_bytes: 16_384,
            max_page_bytes: 65_536,
            max_page_keys: 1_024,
            max_watches_per_client: 16_384,
            replay_per_client: 1_024,
            replay_total: 1 << 20,
            hash_key: [
                RandomState::new().hash_one(0),
                RandomState::new().hash_one(1),
            ],
        }
    }
}
