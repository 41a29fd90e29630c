//! Comparison of this node's wall clock with others, and its effect on versions.
use super::clock_comparison::ClockStatus;
use super::engine::{ClockReadings, EngineError, EngineRequest, EngineRequestId, Link};
use super::plan::VersionClock;
use super::{REQUEST_RETRY_MS, SharedKeyspace};
use statestored_common::ClockReading;

impl<L: Link> SharedKeyspace<L> {
    /// Judges the clock, and queries the other clocks if it is time.
    pub(super) fn query_clocks_if_due(&mut self, now: ClockReading) {
        self.clock_comparison.update(now);
        if self.clock_comparison.take_due(now) {
            let ask = self.request(EngineRequest::Clocks {
                process: self.config.process,
                reading_ms: now.wall_ms,
            });
            self.clock_request = Some(ask);
        }
    }

    /// Records the answer to a query of the clocks.
    pub(super) fn clocks_received(
        &mut self,
        ask: EngineRequestId,
        found: Result<ClockReadings, Option<EngineError>>,
        now: ClockReading,
    ) {
        if self
            .clock_request
            .take_if(|context| *context == ask)
            .is_none()
        {
            return;
        }
        match found {
            Ok(found) => self.clock_comparison.readings_received(&found, now),
            Err(Some(_)) => self.clock_comparison.query_rejected(),
            Err(None) => self
                .clock_comparison
                .query_unanswered(now.mono_ms + REQUEST_RETRY_MS),
        }
        self.clock_comparison.update(now);
    }

    /// Returns the stamps of changes made at this time.
    pub(super) fn version_clock(&self, now: ClockReading) -> VersionClock {
        VersionClock {
            now,
            may_assign_versions: self.clock_comparison.status(now) == ClockStatus::Trusted,
            latest_ms: self.clock_comparison.latest_ms(now),
        }
    }
}
