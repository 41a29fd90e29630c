//! Configuration of a node over a shared engine.

/// Settings of a node: those of its operators, and those that distinguish it from other nodes.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// Random identifier, a new one at each start of the program. It marks the commits of this process.
    pub process: u128,
    /// Time for which this node leaves it to others to remove expired entries that are not requested; different for
    /// each node.
    pub patience_ms: u64,
    /// Time for which a tombstone is kept.
    pub tombstone_ms: u64,
    /// Maximum number of keys on a page.
    pub page_keys: usize,
    /// Maximum number of operations in a transaction.
    pub max_operations: u64,
    /// Memory for cached records in bytes. A cached record saves a change the read before it.
    pub guess_bytes: usize,
    /// Time after all changes were certainly known during which eventual reads may be answered from the cached records.
    pub trust_ms: u64,
    /// Maximum lead of this node's wall clock over most others. Beyond it, the node assigns no versions.
    pub clock_limit_ms: u64,
    /// Interval between comparisons of the clocks.
    pub compare_ms: u64,
}

impl RemoteConfig {
    /// Returns the default configuration with its random values.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut process = [0; 16];
        getrandom::fill(&mut process).map_err(std::io::Error::other)?;
        let process = u128::from_ne_bytes(process);
        Ok(Self {
            process,
            patience_ms: u64::try_from(process % 300).unwrap_or_default(),
            tombstone_ms: 5 * 60 * 1000,
            page_keys: 1_000,
            max_operations: 50,
            guess_bytes: 16 * 1024 * 1024,
            trust_ms: 10_000,
            clock_limit_ms: 60_000,
            compare_ms: 5_000,
        })
    }
}
