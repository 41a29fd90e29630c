//! The outcome of work under a lease.

/// How work under a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The work succeeded, and needed the lease for its whole duration.
    SucceededUnderLease,
    /// The work succeeded, and may have released the lease early.
    Succeeded,
    /// The work failed. This failure counts: a loss of the lease is only logged.
    Failed,
}

impl WorkOutcome {
    /// Returns the outcome of a block of the foreign language, which releases the lease at its end unless it did before.
    pub fn from_block(has_failed: bool) -> Self {
        if has_failed {
            Self::Failed
        } else {
            Self::Succeeded
        }
    }
}
