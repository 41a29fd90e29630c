//! Metrics of entries that this process has.
use super::Size;

/// Counters of a keyspace since the start, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyspaceMetrics {
    /// Number of entries that expired.
    pub expired: u64,
    /// Maximum size of the keyspace.
    pub max_size: Size,
}
