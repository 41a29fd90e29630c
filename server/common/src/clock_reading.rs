//! Readings of the clocks.

/// The time of both clocks at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Milliseconds since the Unix epoch; may jump. Versions and skew limits are based on it.
    pub wall_ms: u64,
    /// Milliseconds of a monotonic clock. Expiry is based on it.
    pub mono_ms: u64,
}
