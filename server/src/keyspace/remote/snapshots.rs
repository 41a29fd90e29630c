//! Snapshots of the store in an engine, over connections of their own, so that the server does not wait for them.
use super::record::{Content, Record};
use crate::storage::{ReceiveSnapshot, RecordView, StorageError};

/// Passes on a record as the engine has it.
pub(super) fn found(
    to: &mut dyn ReceiveSnapshot,
    key: &[u8],
    record: &Record,
) -> Result<(), StorageError> {
    if let Some(view) = view(key, record) {
        return to.found(&view);
    }
    to.deletion(record.version);
    Ok(())
}

/// Passes on the result of a change: a record or its absence.
#[cfg(feature = "redis")]
pub(super) fn changed(
    to: &mut dyn ReceiveSnapshot,
    key: &[u8],
    record: Option<&Record>,
) -> Result<(), StorageError> {
    if let Some(view) = record.and_then(|record| view(key, record)) {
        return to.changed(&view);
    }
    if let Some(tombstone) = record {
        to.deletion(tombstone.version);
    }
    to.removed(key);
    Ok(())
}

/// Returns the record as a storage has it; `None` for a tombstone.
fn view<'a>(key: &'a [u8], record: &'a Record) -> Option<RecordView<'a>> {
    match &record.content {
        Content::Tombstone => None,
        Content::Entry {
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
pub(super) fn run(
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
