//! How much of Redis is asked for at once: whatever the size of the entries, an answer has to come in time.
use crate::keyspace::remote::portion::Portion;
use std::sync::Arc;

/// Most keys of a group of reads.
pub(super) const MOST_KEYS: usize = 128;

/// Most records of a page, or items of the stream.
const MOST_RECORDS: usize = 1_000;

/// Most entries of one answer of a snapshot.
const MOST_ENTRIES: usize = 32 * MOST_RECORDS;

#[derive(Debug, Clone)]
pub(super) struct Portions {
    /// Keys.
    pub(super) reads: Arc<Portion>,
    /// Records of a page.
    pub(super) pages: Arc<Portion>,
    /// Entries of a snapshot.
    pub(super) entries: Arc<Portion>,
    /// Items of the stream.
    pub(super) items: Arc<Portion>,
}

/// Records of the first answer to a backup: their size is not known yet.
const FIRST_RECORDS: usize = 16;

impl Portions {
    /// Portions of a backup.
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
