//! Boundary of exports that return no status: errors and panics become a default value, and `pthread_cancel` is deferred.
use crate::cancellation::CancellationGuard;
use statestore_embed::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an export that returns a value, or `otherwise` if the body fails.
pub(crate) fn value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Error>) -> T {
    let _uncancellable = CancellationGuard::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) | Err(_) => otherwise,
    }
}

/// Runs the body of an export that returns nothing.
pub(crate) fn run(body: impl FnOnce()) {
    let _uncancellable = CancellationGuard::begin();
    // Such an export cannot report a panic, and has no state that a panic could leave half done.
    let _ = catch_unwind(AssertUnwindSafe(body));
}
