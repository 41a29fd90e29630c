//! Systems whose threads cannot be cancelled from outside.

/// Nothing, here.
pub(crate) struct Uncancellable;

impl Uncancellable {
    pub(crate) fn begin() -> Self {
        Self
    }
}
