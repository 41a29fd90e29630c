//! Observation of the wall clock, for the log and the health report.
use super::Hub;
use statestored_common::ClockReading;
use statestored_store::service::{ClockSkew, SkewEvidence, TOLERANCE_MS};

/// Smallest difference between two looks at the wall clock that counts as a step, in milliseconds.
const MIN_STEP_MS: u64 = 1_000;

/// The wall clock as it was seen last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClockObservation {
    /// Wall time minus monotonic time.
    offset_ms: Option<i64>,
    skew: Option<SkewEvidence>,
    are_versions_ahead: bool,
    steps: u64,
}

/// Metrics of the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct ClockMetrics {
    /// Sign that the clock is wrong.
    pub skew: Option<SkewEvidence>,
    /// Milliseconds by which the highest version is ahead of the clock.
    pub version_ahead_ms: u64,
    /// Timestamps of changes more than a minute ahead of the clock, and behind it.
    pub skewed: [u64; 2],
    /// Number of times that the clock was set.
    pub steps: u64,
}

impl ClockMetrics {
    /// Returns the direction in which the clock seems to be wrong.
    pub fn suspected_skew(&self) -> Option<ClockSkew> {
        self.skew.map(|sign| sign.skew)
    }

    /// Returns whether versions are ahead of the clock by more than clients may be.
    pub fn are_versions_ahead(&self) -> bool {
        self.version_ahead_ms > TOLERANCE_MS
    }
}

impl Hub {
    pub(super) fn clock_metrics(&mut self, now: ClockReading) -> ClockMetrics {
        let (highest_ms, _) = self.service.highest_version();
        ClockMetrics {
            skew: self.service.skew(now),
            version_ahead_ms: highest_ms.saturating_sub(now.wall_ms),
            skewed: self.service.skewed_counts(),
            steps: self.clock_observation.steps,
        }
    }

    /// Logs changes of the wall clock.
    pub(super) fn observe_clock(&mut self, now: ClockReading) {
        let offset_ms = now
            .wall_ms
            .cast_signed()
            .saturating_sub(now.mono_ms.cast_signed());
        if let Some(former_ms) = self.clock_observation.offset_ms.replace(offset_ms)
            && offset_ms.abs_diff(former_ms) >= MIN_STEP_MS
        {
            self.clock_observation.steps += 1;
            #[expect(clippy::cast_precision_loss, reason = "shown to people")]
            let seconds = offset_ms.saturating_sub(former_ms) as f64 / 1e3;
            tracing::warn!(seconds, "the wall clock of this machine was set");
        }
        let figures = self.clock_metrics(now);
        if figures.skew != self.clock_observation.skew {
            self.clock_observation.skew = figures.skew;
            match figures.skew {
                Some(SkewEvidence {
                    skew: ClockSkew::Behind,
                    is_agreed: true,
                }) => tracing::error!(
                    "SETs are refused, since timestamps of clients are more than a minute ahead of this machine's clock: \
                     set the clock, and synchronize it with NTP"
                ),
                Some(SkewEvidence {
                    skew: ClockSkew::Behind,
                    is_agreed: false,
                }) => tracing::warn!(
                    "SETs of one or two users or addresses are refused, since their timestamps are more than a minute ahead of \
                     this machine's clock: check the clocks of these clients and of this machine"
                ),
                Some(SkewEvidence {
                    skew: ClockSkew::Ahead,
                    ..
                }) => tracing::warn!(
                    "timestamps of clients are more than a minute behind this machine's clock, which may be ahead, and versions \
                     with it: check the clock, and synchronize it with NTP"
                ),
                None => tracing::info!("timestamps of clients agree with this machine's clock"),
            }
        }
        let are_ahead = figures.are_versions_ahead();
        if are_ahead != self.clock_observation.are_versions_ahead {
            self.clock_observation.are_versions_ahead = are_ahead;
            if are_ahead {
                tracing::warn!(
                    seconds = figures.version_ahead_ms / 1000,
                    "versions of entries are ahead of this machine's clock: it was ahead before, or is behind now. \
                     New versions go on from the highest one"
                );
            } else {
                tracing::info!(
                    "versions of entries are not ahead of this machine's clock any more"
                );
            }
        }
    }
}
