//! Snapshots of the store in an engine, over connections of their own, so that the server does not wait for them.
use statestored_shared::{Record, RecordContent};
use statestored_storage::{RecordView, SnapshotReceiver, StorageError};

/// Passes on a record as the engine has it.
pub fn receive_record(
    to: &mut dyn SnapshotReceiver,
    key: &[u8],
    record: &Record,
) -> Result<(), StorageError> {
    if let Some(view) = view(key, record) {
        return to.record(&view);
    }
    to.deletion(record.version);
    Ok(())
}

/// Passes on the result of a change: a record or its absence.
pub fn receive_change(
    to: &mut dyn SnapshotReceiver,
    key: &[u8],
    record: Option<&Record>,
) -> Result<(), StorageError> {
    if let Some(view) = record.and_then(|record| view(key, record)) {
        return to.record_changed(&view);
    }
    if let Some(tombstone) = record {
        to.deletion(tombstone.version);
    }
    to.record_removed(key);
    Ok(())
}

/// Returns the record as a storage has it; `None` for a tombstone.
fn view<'a>(key: &'a [u8], record: &'a Record) -> Option<RecordView<'a>> {
    match &record.content {
        RecordContent::Tombstone => None,
        RecordContent::Entry {
            value,
            token,
            expiry,
        } => Some(RecordView {
            key,
            value,
            version: record.version,
            fence: token.clone(),
            expiry: *expiry,
        }),
    }
}

/// Runs the reading of a snapshot on this thread.
pub fn block_on_snapshot(
    reading: impl Future<Output = Result<(), StorageError>>,
) -> Result<(), StorageError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StorageError::io(|| {
            "cannot start reading a snapshot".into()
        }))?;
    runtime.block_on(reading)
}
