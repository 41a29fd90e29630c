//! Configuration of a node over a shared engine.

/// Settings of a node: those of its operators, and those that distinguish it from other nodes.
#[derive(Debug, Clone)]
pub struct SharedKeyspaceConfig {
    /// Random identifier, a new one at each start of the program. It marks the commits of this process.
    pub process: u128,
    /// Time for which this node leaves it to others to remove expired entries that are not requested; different for
    /// each node.
    pub removal_delay_ms: u64,
    /// Time for which a tombstone is kept.
    pub tombstone_lifetime_ms: u64,
    /// Maximum number of keys on a page.
    pub max_page_keys: usize,
    /// Maximum number of operations in a transaction.
    pub max_operations: u64,
    /// Maximum number of keys that are read at one moment.
    pub max_read_keys: u64,
    /// Memory for cached records in bytes. A cached record saves a change the read before it.
    pub cache_bytes: usize,
    /// Time after all changes were certainly known during which eventual reads may be answered from the cached records.
    pub max_staleness_ms: u64,
    /// Maximum lead of this node's wall clock over most others. Beyond it, the node assigns no versions.
    pub max_clock_lead_ms: u64,
    /// Interval between comparisons of the clocks.
    pub clock_interval_ms: u64,
}

impl SharedKeyspaceConfig {
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
            removal_delay_ms: u64::try_from(process % 300).unwrap_or_default(),
            tombstone_lifetime_ms: 5 * 60 * 1000,
            max_page_keys: 1_000,
            max_operations: 50,
            // Redis executes nothing else meanwhile, and unpacks fewer than 8,000 keys in a script.
            max_read_keys: 1_000,
            cache_bytes: 16 * 1024 * 1024,
            max_staleness_ms: 10_000,
            max_clock_lead_ms: 60_000,
            clock_interval_ms: 5_000,
        })
    }
}
