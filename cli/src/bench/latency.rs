//! Latencies of one kind of operation.
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// A histogram of nanoseconds with three significant digits.
#[derive(Debug, Clone)]
pub(crate) struct LatencyHistogram(Histogram<u64>);

impl LatencyHistogram {
    /// Creates an empty histogram that distinguishes latencies up to `longest`; longer ones count as `longest`.
    pub(crate) fn with_max(longest: Duration) -> Self {
        let longest = nanoseconds(longest).max(2);
        Self(
            Histogram::new_with_max(longest, 3)
                .expect("three digits and a bound above one are valid"),
        )
    }

    /// Counts a latency.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(nanoseconds(latency));
    }

    /// Adds the counts of another histogram.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Returns the number of counted latencies.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the figures for a report, or `None` if no latency was counted.
    pub(crate) fn summary(&self) -> Option<LatencySummary> {
        (!self.0.is_empty()).then(|| LatencySummary {
            count: self.0.len(),
            mean_us: self.0.mean() / 1e3,
            p50_us: microseconds(self.0.value_at_quantile(0.5)),
            p90_us: microseconds(self.0.value_at_quantile(0.9)),
            p99_us: microseconds(self.0.value_at_quantile(0.99)),
            p99_9_us: microseconds(self.0.value_at_quantile(0.999)),
            max_us: microseconds(self.0.max()),
        })
    }
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LatencySummary {
    pub(crate) count: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p99_9_us: f64,
    pub(crate) max_us: f64,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a latency of 2^53 ns would be 104 days"
)]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::LatencyHistogram;
    use std::time::Duration;

    #[test]
    fn percentiles_match_the_recorded_latencies() {
        let (mut low, mut high) = (latencies(), latencies());
        for microsecond in 1..=500 {
            low.record(Duration::from_micros(microsecond));
            high.record(Duration::from_micros(500 + microsecond));
        }
        low.add(&high);
        let summary = low.summary().unwrap();
        assert_eq!(summary.count, 1000);
        for (got, expected) in [
            (summary.p50_us, 500.0),
            (summary.p90_us, 900.0),
            (summary.p99_us, 990.0),
            (summary.p99_9_us, 999.0),
            (summary.max_us, 1000.0),
            (summary.mean_us, 500.5),
        ] {
            assert!(
                (got - expected).abs() <= expected / 500.0,
                "{got} is not about {expected}"
            );
        }
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles_and_long_latencies_are_clamped() {
        let mut latencies = latencies();
        assert_eq!(latencies.summary(), None);
        latencies.record(Duration::from_secs(3600));
        assert!(latencies.summary().unwrap().max_us < 3e7);
    }

    fn latencies() -> LatencyHistogram {
        LatencyHistogram::with_max(Duration::from_secs(10))
    }
}
