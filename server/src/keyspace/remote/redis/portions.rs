//! Size of the requests to Redis: whatever the size of the entries, an answer has to arrive in time.
use crate::keyspace::remote::portion::Portion;
use std::sync::Arc;

/// Maximum number of keys in a group of reads.
pub(super) const MOST_KEYS: usize = 128;

/// Maximum number of records of a page, or of items of the stream.
const MOST_RECORDS: usize = 1_000;

/// Maximum number of entries in one answer of a snapshot.
const MOST_ENTRIES: usize = 32 * MOST_RECORDS;

#[derive(Debug, Clone)]
pub(super) struct Portions {
    /// Number of keys.
    pub(super) reads: Arc<Portion>,
    /// Number of records of a page.
    pub(super) pages: Arc<Portion>,
    /// Number of entries of a snapshot.
    pub(super) entries: Arc<Portion>,
    /// Number of items of the stream.
    pub(super) items: Arc<Portion>,
}

/// Number of records in the first answer to a backup: their size is not known yet.
const FIRST_RECORDS: usize = 16;

impl Portions {
    /// Creates the portions of a backup.
    pub(super) fn of_backup() -> Self {
        let pages = Portion::beginning_with(FIRST_RECORDS, MOST_RECORDS);
        Self {
            pages: Arc::new(pages),
            ..Self::default()
        }
    }
}

impl Default for Portions {
    fn default() -> Self {
        let of = |most| Arc::new(Portion::new(most));
        Self {
            reads: of(MOST_KEYS),
            pages: of(MOST_RECORDS),
            entries: of(MOST_ENTRIES),
            items: of(MOST_RECORDS),
        }
    }
}
