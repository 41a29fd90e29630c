//! What a node over an engine elsewhere is told at its start.

/// What the operators of a node decide, and what makes it differ from the others.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// Random, another one whenever a program starts: its commits are known by it.
    pub process: u128,
    /// How long this node leaves it to others to end what is over and nobody asks for; another time for each node.
    pub patience_ms: u64,
    /// How long a tombstone is kept.
    pub tombstone_ms: u64,
    /// Most keys of a page.
    pub page_keys: usize,
    /// Most operations of a transaction.
    pub max_operations: u64,
    /// Bytes of memory for what keys held last: it saves a change the read before it.
    pub guess_bytes: usize,
    /// For how long after all changes were certainly known reads may be answered from that, if they ask for no more.
    pub trust_ms: u64,
    /// By how much the wall clock of this node may be ahead of most others' before it gives no versions any more.
    pub clock_limit_ms: u64,
    /// How often clocks are compared.
    pub compare_ms: u64,
}

impl RemoteConfig {
    /// As it should be, with what is to be random.
    ///
    /// # Errors
    /// The system gives no random numbers.
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
