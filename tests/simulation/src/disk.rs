//! A disk that loses what it has not finished.
use bytes::Bytes;
use statestored::storage::{Batch, Record, Write};
use std::collections::{BTreeMap, VecDeque};

/// Batches that the server handed over, with their numbers.
pub(crate) type Batches = Vec<(u64, Batch)>;

/// A disk that loses what it has not finished.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) records: BTreeMap<Bytes, Record>,
    pub(crate) clock: Option<(u64, u64)>,
    pub(crate) waiting: VecDeque<(u64, Batch)>,
    pub(crate) committing: Batches,
    /// The number of the last batch that it has.
    pub(crate) durable: u64,
}

impl Disk {
    pub(crate) fn apply(&mut self, batches: Batches) {
        for (sequence, batch) in batches {
            self.durable = sequence;
            self.clock = batch.clock.or(self.clock);
            for write in batch.writes {
                match write {
                    Write::Put(record) => {
                        self.records.insert(record.key.clone(), record);
                    }
                    Write::Delete(key) => {
                        self.records.remove(&key);
                    }
                }
            }
        }
    }
}
