//! Systems whose threads cannot be cancelled from outside, or not in a way that leaves anything to be kept.

/// Nothing, here.
pub(crate) struct Uncancellable;

impl Uncancellable {
    pub(crate) fn begin() -> Self {
        Self
    }
}
