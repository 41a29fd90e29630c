//! How much of a quota is used.

/// A configured quota of a prefix or a user, and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The prefix, or the name of the user; empty for clients without a name.
    pub owner: String,
    /// Name of the quota, as in the configuration.
    pub quota: &'static str,
    /// Amount in use.
    pub used: u64,
    /// Maximum amount.
    pub max: u64,
}

impl QuotaUsage {
    /// Returns whether it is an amount of memory, rather than a number.
    pub fn is_bytes(&self) -> bool {
        matches!(self.quota, "bytes" | "held")
    }

    /// Returns the part of the quota that is used: 1 if it is full.
    pub fn ratio(&self) -> f64 {
        used_ratio(self.used, self.max)
    }
}

/// Returns the part of a limit that is used. A limit of zero is full.
#[expect(
    clippy::cast_precision_loss,
    reason = "a part of a limit need not be exact"
)]
pub fn used_ratio(used: u64, max: u64) -> f64 {
    if max == 0 {
        return 1.0;
    }
    used as f64 / max as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_of_zero_is_full() {
        assert!((used_ratio(1, 4) - 0.25).abs() < f64::EPSILON);
        assert!((used_ratio(0, 0) - 1.0).abs() < f64::EPSILON);
    }
}
