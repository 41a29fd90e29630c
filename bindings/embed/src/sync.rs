//! What the threads wait with that hand the runtime to each other. The [models](crate#who-drives-the-runtime) have their own in its
//! place, which tries every order of their steps.
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// The time.
pub(crate) fn now() -> Instant {
    Instant::now()
}
