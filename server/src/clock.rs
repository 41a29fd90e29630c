//! The clocks. Only the driver reads them; everything else receives the time from it.
use statestored_common::ClockReading;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A reader of both clocks. The monotonic one is that of the timers, which tests may stop.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// Creates a reader whose monotonic clock begins at zero.
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Returns the time of both clocks.
    pub(crate) fn now(&self) -> ClockReading {
        self.now_with_micros().0
    }

    /// Returns the time of both clocks, and of the monotonic one in microseconds as well, with a single reading of
    /// each.
    pub(crate) fn now_with_micros(&self) -> (ClockReading, u64) {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mono = self.start.elapsed();
        let now = ClockReading {
            wall_ms: milliseconds(wall),
            mono_ms: milliseconds(mono),
        };
        (now, microseconds(mono))
    }

    /// Returns the microseconds of the monotonic clock.
    pub(crate) fn micros(&self) -> u64 {
        microseconds(self.start.elapsed())
    }

    /// Returns the instant at which the monotonic clock shows `mono_ms`.
    pub(crate) fn instant(&self, mono_ms: u64) -> Instant {
        self.start + Duration::from_millis(mono_ms)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
