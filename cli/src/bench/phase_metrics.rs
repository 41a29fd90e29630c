//! The counters of a load.
use super::{latency::LatencyHistogram, workload_mix::Verb};
use crate::exit::Exit;
use std::{collections::BTreeMap, time::Duration};

/// The counts of one worker in one phase, or of all of them together.
#[derive(Debug, Clone)]
pub(crate) struct PhaseMetrics {
    /// Latencies of successful operations, by `Verb as usize`.
    pub(crate) latencies: [LatencyHistogram; Verb::ALL.len()],
    /// GETs and DELs that found no key.
    pub(crate) absent: u64,
    /// Failed operations by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Exit code for the first error.
    pub(crate) exit: Exit,
    /// Whether the store stopped answering, and the phase ended early.
    pub(crate) gave_up: bool,
    /// Time from the first operation to the end of the last.
    pub(crate) elapsed: Duration,
}

impl PhaseMetrics {
    /// Creates empty counters that distinguish latencies up to `longest`.
    pub(crate) fn with_max_latency(longest: Duration) -> Self {
        Self {
            latencies: std::array::from_fn(|_| LatencyHistogram::with_max(longest)),
            absent: 0,
            errors: BTreeMap::new(),
            exit: Exit::Done,
            gave_up: false,
            elapsed: Duration::ZERO,
        }
    }

    /// Counts a success.
    pub(crate) fn record(&mut self, verb: Verb, latency: Duration, found: bool) {
        self.latencies[verb as usize].record(latency);
        self.absent += u64::from(!found);
    }

    /// Counts a failure.
    pub(crate) fn record_error(&mut self, kind: String, exit: Exit) {
        *self.errors.entry(kind).or_default() += 1;
        if self.exit == Exit::Done {
            self.exit = exit;
        }
    }

    /// Adds the counts of another worker in the same phase.
    pub(crate) fn merge(&mut self, other: Self) {
        for (sum, part) in self.latencies.iter_mut().zip(&other.latencies) {
            sum.add(part);
        }
        self.absent += other.absent;
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        if self.exit == Exit::Done {
            self.exit = other.exit;
        }
        self.gave_up |= other.gave_up;
        self.elapsed = self.elapsed.max(other.elapsed);
    }
}
