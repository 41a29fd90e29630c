//! What a storage counts, to be read by whichever thread wants to know.
use crate::histogram::{Histogram, SIZES, SharedHistogram, TIMES};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Memory that a merge needs for each key that was changed.
const MERGE_BYTES_PER_KEY: u64 = 80;

/// Counters and gauges of a storage and of its group commit. One thread counts; others read single figures, which need not
/// belong to one moment.
#[derive(Debug, Default)]
pub struct StorageFigures {
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
}

/// The figures of one moment, roughly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StorageReading {
    /// Writes in each commit; their number is that of the commits.
    pub(crate) batches: Histogram,
    /// Microseconds that syncing the log took.
    pub(crate) syncs: Histogram,
    /// Bytes appended to the log since the start.
    pub(crate) written_bytes: u64,
    /// Bytes that wait for a commit or are being committed.
    pub(crate) waiting_bytes: u64,
    /// Bytes of the current log and of the sealed ones.
    pub(crate) log_bytes: u64,
    /// Bytes of the merged file.
    pub(crate) base_bytes: u64,
    /// Whether a merge is under way.
    pub(crate) is_merging: bool,
    /// Merges that ended since the start.
    pub(crate) merges: u64,
    /// Merges that failed, or whose result could not be used.
    pub(crate) failed_merges: u64,
    /// How long the last one took that ended.
    pub(crate) merge_ms: u64,
}

impl StorageFigures {
    /// A commit of so many writes was made.
    pub(crate) fn committed(&self, writes: usize) {
        self.batches.record(&SIZES, writes as u64);
    }

    /// So many bytes were appended, and synced in this time.
    pub(crate) fn synced(&self, bytes: usize, took: Duration) {
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.syncs.record(&TIMES, micros);
    }

    /// So many bytes wait now.
    pub(crate) fn waiting(&self, bytes: usize) {
        self.waiting_bytes.store(bytes as u64, Relaxed);
    }

    /// The files have these lengths now.
    pub(crate) fn lengths(&self, log_bytes: u64, base_bytes: u64) {
        self.log_bytes.store(log_bytes, Relaxed);
        self.base_bytes.store(base_bytes, Relaxed);
    }

    /// A merge has begun.
    pub(crate) fn merge_began(&self) {
        self.is_merging.store(true, Relaxed);
    }

    /// A merge has ended after this time.
    pub(crate) fn merge_ended(&self, took: Duration, is_used: bool) {
        self.is_merging.store(false, Relaxed);
        self.merge_ms
            .store(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Relaxed);
        let counter = if is_used {
            &self.merges
        } else {
            &self.failed_merges
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Bytes of memory of what waits for a commit, and of a merge of a store with so many keys.
    pub(crate) fn memory_bytes(&self, keys: u64) -> u64 {
        let is_merging = self.is_merging.load(Relaxed);
        let merge = if is_merging {
            keys * MERGE_BYTES_PER_KEY
        } else {
            0
        };
        self.waiting_bytes.load(Relaxed) + merge
    }

    /// All of them.
    pub(crate) fn read(&self) -> StorageReading {
        StorageReading {
            batches: self.batches.read(),
            syncs: self.syncs.read(),
            written_bytes: self.written_bytes.load(Relaxed),
            waiting_bytes: self.waiting_bytes.load(Relaxed),
            log_bytes: self.log_bytes.load(Relaxed),
            base_bytes: self.base_bytes.load(Relaxed),
            is_merging: self.is_merging.load(Relaxed),
            merges: self.merges.load(Relaxed),
            failed_merges: self.failed_merges.load(Relaxed),
            merge_ms: self.merge_ms.load(Relaxed),
        }
    }
}
