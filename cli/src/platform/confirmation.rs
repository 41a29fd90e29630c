//! Confirmations that a lock is still held. Without them the command under the lock is ended.
use std::time::Duration;

/// Returns the part of a lease that each confirmation covers. It is sent only while at least that much is left, which is more
/// than a third less than when the lease is renewed.
pub(crate) fn confirmed_duration(lease: Duration) -> Duration {
    lease / 2
}

/// The time from one confirmation to the next.
pub(crate) fn confirmation_interval(lease: Duration) -> Duration {
    lease / 20
}

/// How long after the last confirmation the lock counts as lost. `statestore` itself, as long as it runs, reports the loss
/// earlier.
pub(super) fn confirmation_timeout(lease: Duration) -> Duration {
    confirmed_duration(lease) + 2 * confirmation_interval(lease)
}
