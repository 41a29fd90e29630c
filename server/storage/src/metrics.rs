//! Counters of a storage, readable by any thread.
use statestored_common::histogram::{Histogram, LATENCY_BOUNDS, SIZE_BOUNDS, SharedHistogram};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bytes of memory that a merge needs for each changed key.
const MERGE_BYTES_PER_KEY: u64 = 80;

/// Counters and gauges of a storage and of its group commit. One thread counts. Others read single values, which need not
/// belong to the same moment.
#[derive(Debug, Default)]
pub struct StorageMetrics {
    batches: SharedHistogram,
    syncs: SharedHistogram,
    written_bytes: AtomicU64,
    waiting_bytes: AtomicU64,
    log_bytes: AtomicU64,
    base_bytes: AtomicU64,
    is_merging: AtomicBool,
    merges: AtomicU64,
    failed_merges: AtomicU64,
    merge_ms: AtomicU64,
    has_crashed: AtomicBool,
}

/// Values of one moment, approximately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageMetricsSnapshot {
    /// Numbers of writes in a commit; their count is the number of commits.
    pub batches: Histogram,
    /// Durations of syncs of the log, in microseconds.
    pub syncs: Histogram,
    /// Bytes appended to the log since the start.
    pub written_bytes: u64,
    /// Bytes that wait for a commit or are being committed.
    pub waiting_bytes: u64,
    /// Bytes of the current log and of the sealed ones.
    pub log_bytes: u64,
    /// Bytes of the merged file.
    pub base_bytes: u64,
    /// Whether a merge is running.
    pub is_merging: bool,
    /// Merges that ended since the start.
    pub merges: u64,
    /// Number of merges that failed, or whose result could not be used.
    pub failed_merges: u64,
    /// Duration of the last finished merge, in milliseconds.
    pub merge_ms: u64,
    /// Whether the previous run ended without closing the storage.
    pub has_crashed: bool,
}

impl StorageMetrics {
    /// Records a commit of `writes` writes.
    pub(crate) fn committed(&self, writes: usize) {
        self.batches.record(&SIZE_BOUNDS, writes as u64);
    }

    /// Records that `bytes` bytes were appended, and how long their sync took.
    pub(crate) fn synced(&self, bytes: usize, elapsed: Duration) {
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.syncs.record(&LATENCY_BOUNDS, micros);
    }

    /// Sets the number of bytes that wait.
    pub(crate) fn set_waiting(&self, bytes: usize) {
        self.waiting_bytes.store(bytes as u64, Relaxed);
    }

    /// Sets the lengths of the files.
    pub(crate) fn set_lengths(&self, log_bytes: u64, base_bytes: u64) {
        self.log_bytes.store(log_bytes, Relaxed);
        self.base_bytes.store(base_bytes, Relaxed);
    }

    /// Records that the previous run ended without closing the storage.
    pub(crate) fn record_crash(&self) {
        self.has_crashed.store(true, Relaxed);
    }

    /// Returns whether the previous run ended without closing the storage.
    pub fn has_crashed(&self) -> bool {
        self.has_crashed.load(Relaxed)
    }

    /// Records the beginning of a merge.
    pub(crate) fn merge_started(&self) {
        self.is_merging.store(true, Relaxed);
    }

    /// Returns whether a merge runs, or its result is not installed yet.
    pub(crate) fn is_merging(&self) -> bool {
        self.is_merging.load(Relaxed)
    }

    /// Records the end of a merge and how long it took.
    pub(crate) fn merge_ended(&self, elapsed: Duration, is_used: bool) {
        self.is_merging.store(false, Relaxed);
        self.merge_ms.store(
            u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            Relaxed,
        );
        let counter = if is_used {
            &self.merges
        } else {
            &self.failed_merges
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Returns the bytes of memory that waiting batches take, and a merge of a store with `keys` keys.
    pub(crate) fn memory_bytes(&self, keys: u64) -> u64 {
        let merge = if self.is_merging() {
            keys * MERGE_BYTES_PER_KEY
        } else {
            0
        };
        self.waiting_bytes.load(Relaxed) + merge
    }

    /// Returns a copy of all counters.
    pub fn snapshot(&self) -> StorageMetricsSnapshot {
        StorageMetricsSnapshot {
            batches: self.batches.read(),
            syncs: self.syncs.read(),
            written_bytes: self.written_bytes.load(Relaxed),
            waiting_bytes: self.waiting_bytes.load(Relaxed),
            log_bytes: self.log_bytes.load(Relaxed),
            base_bytes: self.base_bytes.load(Relaxed),
            is_merging: self.is_merging(),
            merges: self.merges.load(Relaxed),
            failed_merges: self.failed_merges.load(Relaxed),
            merge_ms: self.merge_ms.load(Relaxed),
            has_crashed: self.has_crashed(),
        }
    }
}
