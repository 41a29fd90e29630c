//! Size of the requests to Redis: whatever the size of the entries, an answer has to arrive in time.
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use std::sync::Arc;

/// Maximum number of keys in a group of reads.
pub(super) const MAX_KEYS: usize = 128;

/// Maximum number of records of a page, or of items of the stream.
const MAX_RECORDS: usize = 1_000;

/// Maximum number of entries in one answer of a snapshot.
const MAX_ENTRIES: usize = 32 * MAX_RECORDS;

#[derive(Debug, Clone)]
pub(super) struct BatchSizes {
    /// Number of keys.
    pub(super) reads: Arc<AdaptiveBatchSize>,
    /// Number of records of a page.
    pub(super) pages: Arc<AdaptiveBatchSize>,
    /// Number of entries of a snapshot.
    pub(super) entries: Arc<AdaptiveBatchSize>,
    /// Number of items of the stream.
    pub(super) items: Arc<AdaptiveBatchSize>,
}

/// Number of records in the first answer to a backup: their size is not known yet.
const FIRST_RECORDS: usize = 16;

impl BatchSizes {
    /// Creates the portions of a backup.
    pub(super) fn for_backup() -> Self {
        let pages = AdaptiveBatchSize::starting_at(FIRST_RECORDS, MAX_RECORDS);
        Self {
            pages: Arc::new(pages),
            ..Self::default()
        }
    }
}

impl Default for BatchSizes {
    fn default() -> Self {
        let of = |most| Arc::new(AdaptiveBatchSize::new(most));
        Self {
            reads: of(MAX_KEYS),
            pages: of(MAX_RECORDS),
            entries: of(MAX_ENTRIES),
            items: of(MAX_RECORDS),
        }
    }
}
