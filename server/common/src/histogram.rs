//! Histograms of durations and sizes.
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the ranges. A further range is for larger values.
pub type BucketBounds = [u64; BUCKETS - 1];

const BUCKETS: usize = 18;

/// Bounds in microseconds, from ten of them to a few seconds.
pub const LATENCY_BOUNDS: BucketBounds = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000,
];

/// Bounds of sizes and counts.
pub const SIZE_BOUNDS: BucketBounds = [
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536,
];

/// Counts by range, with the sum of all recorded values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Counts of the ranges, not cumulative.
    pub counts: [u64; BUCKETS],
    /// Sum of all recorded values.
    pub sum: u64,
}

impl Histogram {
    /// Records the same value `times` times.
    pub fn record(&mut self, bounds: &BucketBounds, value: u64, times: u64) {
        self.counts[bucket_index(bounds, value)] += times;
        self.sum = self.sum.wrapping_add(value.wrapping_mul(times));
    }

    /// Returns the number of recorded values.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A histogram that other threads can read.
#[derive(Debug, Default)]
pub struct SharedHistogram {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl SharedHistogram {
    /// Records a value.
    pub fn record(&self, bounds: &BucketBounds, value: u64) {
        self.counts[bucket_index(bounds, value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Returns a copy. Values recorded meanwhile may be in the counts and not yet in the sum.
    pub fn read(&self) -> Histogram {
        Histogram {
            counts: std::array::from_fn(|range| self.counts[range].load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

fn bucket_index(bounds: &BucketBounds, value: u64) -> usize {
    bounds.partition_point(|&bound| bound < value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_are_inclusive_upper_bounds() {
        let mut histogram = Histogram::default();
        let shared = SharedHistogram::default();
        for value in [0, 10, 11, 2_500_000, 2_500_001] {
            histogram.record(&LATENCY_BOUNDS, value, 1);
            shared.record(&LATENCY_BOUNDS, value);
        }
        assert_eq!(histogram.counts[..2], [2, 1]);
        assert_eq!(histogram.counts[BUCKETS - 2..], [1, 1]);
        assert_eq!((histogram.total(), histogram.sum), (5, 5_000_022));
        assert_eq!(shared.read(), histogram);
    }
}
