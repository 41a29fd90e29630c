//! The expected contents of the disk: everything that was reported as durable, and perhaps the pending commit.
use bytes::Bytes;
use statestored_common::ClockReading;
use statestored_storage::{Batch, Record, RecordView, Restore, Write};
use statestored_store::keyspace::EmbeddedKeyspace;
use std::collections::{BTreeMap, VecDeque};

/// All records of a storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StoredRecords {
    pub(super) records: BTreeMap<Bytes, Record>,
    pub(super) clock: Option<(u64, u64)>,
}

impl StoredRecords {
    fn apply(&mut self, batch: &Batch) {
        self.clock = self.clock.max(batch.clock);
        for write in &batch.writes {
            match write {
                Write::Put(record) => {
                    self.records.insert(record.key.clone(), record.clone());
                }
                Write::Delete(key) => {
                    self.records.remove(key);
                }
            }
        }
    }
}

/// Receiver that fills the keyspace and records its content.
#[derive(Debug)]
pub(super) struct LoadingKeyspace {
    pub(super) keyspace: EmbeddedKeyspace,
    pub(super) now: ClockReading,
    pub(super) records: StoredRecords,
}

impl Restore for LoadingKeyspace {
    fn announce(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) {
        self.keyspace.prefetch(keys);
    }

    fn put(&mut self, record: &RecordView<'_>) {
        self.keyspace.restore(record, self.now);
        let record = Record {
            key: Bytes::copy_from_slice(record.key),
            value: Bytes::copy_from_slice(record.value),
            version: record.version,
            fence: record.fence.clone(),
            expiry: record.expiry,
        };
        self.records.records.insert(record.key.clone(), record);
    }

    fn delete(&mut self, key: &[u8]) {
        self.keyspace.restore_deletion(key);
        self.records.records.remove(key);
    }
}

/// The expected contents of the disk.
#[derive(Debug, Default)]
pub(super) struct ExpectedRecords {
    /// Records that were reported as durable.
    pub(super) durable: StoredRecords,
    /// Batches that were submitted since.
    submitted: VecDeque<(u64, Batch)>,
    /// Numbers of batches of the tail that may be durable, one for each commit that was begun since. A commit that failed for
    /// lack of space may be found after a power failure.
    attempted: Vec<usize>,
}

impl ExpectedRecords {
    /// Adds a submitted batch.
    pub(super) fn push(&mut self, sequence: u64, batch: Batch) {
        self.submitted.push_back((sequence, batch));
    }

    /// Whether all batches are durable.
    pub(super) fn is_complete(&self) -> bool {
        self.submitted.is_empty()
    }

    /// Whether no record was ever reported as durable.
    pub(super) fn is_untouched(&self) -> bool {
        self.durable == StoredRecords::default()
    }

    /// Starts a commit of all batches.
    pub(super) fn attempt(&mut self) {
        self.attempted.push(self.submitted.len());
    }

    /// Ends a commit that made this number of batches durable. Returns the number of the last one.
    pub(super) fn commit(&mut self, count: usize) -> Option<u64> {
        let mut last = None;
        for (sequence, batch) in self.submitted.drain(..count.min(self.submitted.len())) {
            self.durable.apply(&batch);
            last = Some(sequence);
        }
        self.attempted.clear();
        last
    }

    /// Handles the end of the process: batches that are not durable are lost.
    pub(super) fn drop_submitted(&mut self) {
        self.submitted.clear();
        self.attempted.clear();
    }

    /// Returns the number of batches on the disk beyond those reported as durable.
    ///
    /// # Errors
    /// The disk has neither the durable records, nor these and one of the commits begun since.
    pub(super) fn check(&self, found: &StoredRecords) -> Result<usize, String> {
        if *found == self.durable {
            return Ok(0);
        }
        let mut more = self.durable.clone();
        for (count, (_, batch)) in (1..).zip(&self.submitted) {
            more.apply(batch);
            if self.attempted.contains(&count) && *found == more {
                return Ok(count);
            }
        }
        let all = &self.durable;
        Err(format!(
            "the disk has\n  {found:?}\nin the place of\n  {all:?}\nor with the first of {:?} batches up to\n  {more:?}",
            self.attempted
        ))
    }
}
