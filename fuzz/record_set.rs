//! Records in memory, read from one format and written in another.
use statestored_storage::{Record, RecordReceiver, RecordSource, RecordView, StorageError};

/// Salt of the checksums of its backups.
pub(crate) const SALT: u64 = 7;

#[derive(Default, PartialEq, Debug)]
pub(crate) struct RecordSet {
    pub(crate) records: Vec<Record>,
    /// The highest version of a deletion.
    pub(crate) floor: Option<(u64, u64)>,
}

impl RecordReceiver for RecordSet {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.records.push(Record {
            key: record.key.to_vec().into(),
            value: record.value.to_vec().into(),
            version: record.version,
            fence: record.fence.clone(),
            expiry: record.expiry,
        });
        Ok(())
    }
}

impl RecordSource for RecordSet {
    fn records(&mut self, to: &mut dyn RecordReceiver) -> Result<Option<(u64, u64)>, StorageError> {
        for record in &self.records {
            to.record(&record.view())?;
        }
        Ok(self.floor)
    }

    fn seed(&self) -> u64 {
        SALT
    }
}
