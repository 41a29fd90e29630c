//! The clock that all processes of a machine share.
use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds of `CLOCK_MONOTONIC`, which the faults of the clock (`tests/disk`) do not change.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}
