//! Parameters of the model of concurrent updates.

/// Parameters of a model run.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each is varied by itself")]
pub(crate) struct ModelConfig {
    /// The key is there at the beginning.
    pub(crate) exists: bool,
    /// The key expires when this choice is made, once; the first value does, and those of updates if they say so.
    pub(crate) expires: bool,
    pub(crate) updates_expire: bool,
    /// Lag of the last writer's clock, in milliseconds.
    pub(crate) behind_ms: u64,
    /// The fence is not raised before the write.
    pub(crate) is_naive: bool,
    /// The key is protected by a token that is higher than its version.
    pub(crate) is_protected: bool,
    /// Number of writers that were outranked before, and therefore take their tokens from the clock as well.
    pub(crate) by_clock: usize,
    /// Each writer has a key of its own.
    pub(crate) is_apart: bool,
    /// Number of lost attempts that are repeated, over all writers. After that, a writer that loses gives up.
    pub(crate) retries: usize,
}

pub(crate) const PLAIN: ModelConfig = ModelConfig {
    exists: true,
    expires: false,
    updates_expire: false,
    behind_ms: 0,
    is_naive: false,
    is_protected: false,
    by_clock: 0,
    is_apart: false,
    retries: 1,
};
