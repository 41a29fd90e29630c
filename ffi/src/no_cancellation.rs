//! Systems whose threads cannot be cancelled from outside.

/// A guard that does nothing.
pub(crate) struct CancellationGuard;

impl CancellationGuard {
    pub(crate) fn begin() -> Self {
        Self
    }
}
