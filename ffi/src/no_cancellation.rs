//! Systems whose threads cannot be cancelled from outside.

/// A guard that does nothing.
pub(crate) struct Uncancellable;

impl Uncancellable {
    pub(crate) fn begin() -> Self {
        Self
    }
}
