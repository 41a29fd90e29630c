//! Samples of the metrics of the last quarter of an hour, for `/api/history`.
use super::reply::{self, Reply};
use hyper::StatusCode;
use serde_json::{Value, json};
use statestored_broker::hub::HubMetrics;
use statestored_common::histogram::{Histogram, LATENCY_BOUNDS};
use statestored_storage::metrics::StorageMetricsSnapshot;
use statestored_store::service::{RequestMetrics, Verb};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Interval of samples.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of samples. A further sample replaces the oldest one.
const MAX_SAMPLES: usize = 180;
/// Number of results that are no failures: the first ones of [`RESULTS`](statestored_store::service::RESULTS), `ok`, `absent` and
/// `not_applied`.
const SUCCESSES: usize = 3;

/// Counters since the start, and gauges, at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    /// Milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    pub(super) requests: RequestMetrics,
    pub(super) hub: HubMetrics,
    /// Number of refusals.
    pub(super) refused: u64,
    /// Counters of a storage on disk.
    pub(super) storage: Option<StorageMetricsSnapshot>,
    pub(super) disk_free: Option<u64>,
    pub(super) resident_bytes: Option<u64>,
}

/// The changes of counters between two readings, and the gauges of the latter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sample {
    at_ms: u64,
    /// Numbers of requests, in the order of [`Verb::ALL`].
    requests: [u64; Verb::ALL.len()],
    failed: u64,
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    connections: u64,
    sessions: u64,
    entry_bytes: Option<u64>,
    held_bytes: u64,
    resident_bytes: Option<u64>,
    commits: Option<u64>,
    sync_p99_us: Option<u64>,
    disk_free: Option<u64>,
    refused: u64,
    notifications: u64,
}

/// The last samples, oldest first.
#[derive(Debug, Default)]
pub(super) struct History(RefCell<VecDeque<Sample>>);

impl History {
    /// Takes a sample of the result of `read` in each interval, as long as it is polled. An interval that begins or ends without a
    /// reading has no sample.
    pub(super) async fn record(&self, read: impl AsyncFn() -> Option<Reading>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate, and all counters begin at zero.
        ticks.tick().await;
        let mut before = Some(Reading::default());
        loop {
            ticks.tick().await;
            let after = read().await;
            if let (Some(before), Some(after)) = (&before, &after) {
                self.push(Sample::between(before, after));
            }
            before = after;
        }
    }

    fn push(&self, sample: Sample) {
        let mut samples = self.0.borrow_mut();
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns all samples.
    pub(super) fn reply(&self) -> Reply {
        let samples: Value = self.0.borrow().iter().map(Sample::describe).collect();
        let document = json!({ "interval_s": INTERVAL.as_secs(), "samples": samples });
        reply::json(StatusCode::OK, &document)
    }
}

impl Sample {
    fn between(before: &Reading, after: &Reading) -> Self {
        let counts = || before.requests.counts.iter().zip(&after.requests.counts);
        let mut requests = [0; Verb::ALL.len()];
        for (total, (before, after)) in requests.iter_mut().zip(counts()) {
            *total = increase(before, after);
        }
        let failures = counts().map(|(before, after)| {
            let (before, after) = (&before[SUCCESSES..], &after[SUCCESSES..]);
            increase(before, after)
        });
        let mut took = Histogram::default();
        let latencies = before.requests.latencies.iter();
        for (before, after) in latencies.zip(&after.requests.latencies) {
            add_increase(&mut took, before, after);
        }
        let storage = after.storage.map(|after| {
            let before = before.storage.unwrap_or_default();
            let mut syncs = Histogram::default();
            add_increase(&mut syncs, &before.syncs, &after.syncs);
            (
                increase(&before.batches.counts, &after.batches.counts),
                syncs,
            )
        });
        Self {
            at_ms: after.at_ms,
            requests,
            failed: failures.sum(),
            p50_us: percentile(&took, 50),
            p99_us: percentile(&took, 99),
            connections: after.hub.connections,
            sessions: after.hub.sessions,
            entry_bytes: after.hub.entry_bytes,
            held_bytes: after.hub.held_bytes,
            resident_bytes: after.resident_bytes,
            commits: storage.map(|(commits, _)| commits),
            sync_p99_us: storage.and_then(|(_, syncs)| percentile(&syncs, 99)),
            disk_free: after.disk_free,
            refused: after.refused.saturating_sub(before.refused),
            notifications: after
                .hub
                .notifications
                .saturating_sub(before.hub.notifications),
        }
    }

    fn describe(&self) -> Value {
        let requests = Verb::ALL.iter().zip(self.requests);
        let requests = requests.map(|(verb, count)| (verb.name().to_owned(), Value::from(count)));
        json!({
            "at_ms": self.at_ms,
            "requests": requests.collect::<serde_json::Map<_, _>>(),
            "failed": self.failed,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "connections": self.connections,
            "sessions": self.sessions,
            "entry_bytes": self.entry_bytes,
            "held_bytes": self.held_bytes,
            "resident_bytes": self.resident_bytes,
            "commits": self.commits,
            "sync_p99_us": self.sync_p99_us,
            "disk_free": self.disk_free,
            "refused": self.refused,
            "notifications": self.notifications,
        })
    }
}

/// Returns by how much the sum of counters has risen.
fn increase(before: &[u64], after: &[u64]) -> u64 {
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    sum(after).saturating_sub(sum(before))
}

/// Adds the values that were recorded between two states of a histogram.
fn add_increase(sum: &mut Histogram, before: &Histogram, after: &Histogram) {
    let counts = before.counts.iter().zip(&after.counts);
    for (count, (before, after)) in sum.counts.iter_mut().zip(counts) {
        *count += after.saturating_sub(*before);
    }
}

/// Returns the bound in microseconds that a share of the values does not exceed; `None` without values. Longer times than the last
/// bound count as that one.
fn percentile(histogram: &Histogram, percent: u64) -> Option<u64> {
    let total = histogram.total();
    let mut so_far = 0;
    let range = histogram.counts.iter().position(|count| {
        so_far += count;
        so_far > 0 && so_far * 100 >= total * percent
    })?;
    let last = LATENCY_BOUNDS.len() - 1;
    Some(LATENCY_BOUNDS[range.min(last)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading after this many GETs of 20 microseconds, half of them of absent keys, and as many rejected SETs of four seconds.
    fn reading(requests: u64) -> Reading {
        let mut reading = Reading {
            at_ms: requests,
            refused: requests,
            ..Reading::default()
        };
        let metrics = &mut reading.requests;
        let (get, set) = (Verb::Get as usize, Verb::Set as usize);
        metrics.counts[get][0] = requests / 2;
        metrics.counts[get][1] = requests / 2;
        metrics.counts[set][SUCCESSES] = requests;
        metrics.latencies[get].record(&LATENCY_BOUNDS, 20, requests);
        metrics.latencies[set].record(&LATENCY_BOUNDS, 4_000_000, requests);
        reading
    }

    #[test]
    fn a_sample_has_the_changes_between_two_readings() {
        let sample = Sample::between(&reading(100), &reading(300)).describe();
        assert_eq!(sample["requests"]["get"], 200);
        assert_eq!(sample["requests"]["set"], 200);
        assert_eq!(sample["failed"], 200);
        assert_eq!(
            (&sample["p50_us"], &sample["p99_us"]),
            (&25.into(), &2_500_000.into())
        );
        assert_eq!(
            (&sample["at_ms"], &sample["refused"]),
            (&300.into(), &200.into())
        );
        for unknown in ["entry_bytes", "commits", "sync_p99_us", "disk_free"] {
            assert_eq!(sample[unknown], Value::Null, "{unknown}");
        }
        let idle = Sample::between(&reading(2), &reading(2)).describe();
        assert_eq!(idle["p50_us"], Value::Null);
        assert_eq!(idle["requests"]["get"], 0);
    }

    #[test]
    fn the_storage_is_part_of_a_sample_if_there_is_one() {
        let mut after = reading(2);
        let mut storage = StorageMetricsSnapshot::default();
        storage.batches.counts[3] = 7;
        storage.syncs.record(&LATENCY_BOUNDS, 900, 7);
        after.storage = Some(storage);
        let sample = Sample::between(&reading(0), &after);
        assert_eq!((sample.commits, sample.sync_p99_us), (Some(7), Some(1_000)));
    }

    #[test]
    fn a_further_sample_replaces_the_oldest() {
        let history = History::default();
        let first = reading(0);
        for requests in 0..=MAX_SAMPLES as u64 {
            history.push(Sample::between(&first, &reading(requests)));
        }
        let samples = history.0.borrow();
        assert_eq!(samples.len(), MAX_SAMPLES);
        assert_eq!((samples[0].at_ms, samples[MAX_SAMPLES - 1].at_ms), (1, 180));
    }

    #[tokio::test(start_paused = true)]
    async fn no_sample_covers_a_time_without_readings() {
        let history = History::default();
        let readings = [Some(2), Some(6), None, Some(10), Some(16)];
        let readings = RefCell::new(readings.into_iter());
        let read = async || readings.borrow_mut().next().flatten().map(reading);
        let recording = history.record(read);
        let end = tokio::time::timeout(INTERVAL * 6, recording).await;
        assert!(end.is_err(), "recording never ends");
        let gets = history.0.borrow();
        let gets: Vec<_> = gets
            .iter()
            .map(|it| it.requests[Verb::Get as usize])
            .collect();
        assert_eq!(gets, [2, 4, 6]);
    }
}
