//! Synchronization primitives for the hand-over of the runtime. The [models](crate#driving-the-runtime) replace them with
//! their own, which try every order of their steps.
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Returns the time.
pub(crate) fn now() -> Instant {
    Instant::now()
}
