//! Stores in an engine that are filled from a backup. An engine key marks the store as unfinished from the first write to the last: servers
//! reject it until then.
use bytes::Bytes;
use statestored_shared::{Record, RecordContent, WriteId};
use statestored_storage::{Expiry, RecordReceiver, RecordView, StorageError};
use statestored_store::keyspace::rules::Version;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

/// Format in the manifest of an unfinished store.
pub const UNFINISHED: &str = "libstatestore restoring";

/// Reason why servers reject an unfinished store.
pub const UNFINISHED_OBJECTION: &str =
    "`statestored restore` has not filled it completely: run it again";

/// Reason why a restore rejects a store.
pub const EXISTS: &str =
    "there is a store already: name another prefix, or remove all its keys while no server runs";

/// A key and its record.
pub type Entry = (Bytes, Record);

/// An unfinished store in an engine. All writes fail once the store is no longer the one that was begun.
pub trait NewStore: Sized {
    /// Location of the engine.
    type Config;

    /// Maximum number of records in one write.
    const MOST_RECORDS: usize;
    /// Size of the records in bytes above which a write is complete.
    const MOST_BYTES: usize;

    /// Returns the name of the engine, for messages.
    fn place(config: &Self::Config) -> String;

    /// Connects, and begins a store below a prefix that is empty, or has an unfinished store.
    fn begin(config: &Self::Config) -> impl Future<Output = Result<Self, String>>;

    /// Writes records.
    fn write(&mut self, entries: &[Entry]) -> impl Future<Output = Result<(), String>>;

    /// Completes the store with this floor in all buckets.
    fn finish(&mut self, floor: Version) -> impl Future<Output = Result<(), String>>;

    /// Removes the store.
    fn remove(&mut self) -> impl Future<Output = Result<(), String>>;
}

/// Creates a store in an engine, and fills it with the records that `fill` passes. `fill` returns the clock of the backup: all later versions
/// of absent keys are higher. Servers reject the store until it is complete. Returns the name of the engine.
///
/// # Errors
/// The engine does not answer or was restarted, there is a store already, or `fill` failed. The store is removed.
///
/// # Panics
/// In a task of a tokio runtime, which must not block.
pub fn restore<S: NewStore>(
    config: &S::Config,
    fill: impl FnOnce(&mut dyn RecordReceiver) -> Result<Option<Version>, StorageError>,
) -> Result<String, StorageError> {
    let mut filling = Filling::<S>::begin(config)?;
    let clock = fill(&mut filling)?;
    filling.finish(clock)
}

/// A store in an engine that is filled by a restore. It is removed if it is dropped before it is [finished](Self::finish).
struct Filling<S: NewStore> {
    runtime: Runtime,
    store: S,
    place: String,
    entries: Vec<Entry>,
    bytes: usize,
    /// Highest version of an expired record.
    floor: Version,
    write: WriteId,
    is_finished: bool,
}

impl<S: NewStore> Filling<S> {
    /// Connects, and begins the store.
    fn begin(config: &S::Config) -> Result<Self, StorageError> {
        let cannot = || "cannot start the connection to the engine".to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StorageError::io(cannot))?;
        let mut process = [0; 16];
        getrandom::fill(&mut process)
            .map_err(std::io::Error::other)
            .map_err(StorageError::io(|| "cannot get random numbers".into()))?;
        let begun = runtime.block_on(S::begin(config));
        Ok(Self {
            store: begun.map_err(StorageError::Restore)?,
            runtime,
            place: S::place(config),
            entries: Vec::new(),
            bytes: 0,
            floor: (0, 0),
            write: WriteId {
                process: u128::from_ne_bytes(process),
                number: 0,
            },
            is_finished: false,
        })
    }

    fn failed(&self, why: &str) -> StorageError {
        StorageError::Restore(format!("{}: {why}", self.place))
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        if entries.is_empty() {
            return Ok(());
        }
        let written = self.runtime.block_on(self.store.write(&entries));
        written.map_err(|why| self.failed(&why))
    }

    /// Completes the store with the clock of the backup. Returns the name of the engine.
    fn finish(mut self, clock: Option<Version>) -> Result<String, StorageError> {
        self.flush()?;
        let floor = self.floor.max(clock.unwrap_or_default());
        let finished = self.runtime.block_on(self.store.finish(floor));
        finished.map_err(|why| self.failed(&why))?;
        self.is_finished = true;
        Ok(std::mem::take(&mut self.place))
    }
}

impl<S: NewStore> RecordReceiver for Filling<S> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        let Some(expiry) = left(record.expiry, now_ms()) else {
            self.floor = self.floor.max(record.version);
            return Ok(());
        };
        self.write.number += 1;
        let content = RecordContent::Entry {
            value: Bytes::copy_from_slice(record.value),
            token: record.fence.clone(),
            expiry,
        };
        let restored = Record {
            version: record.version,
            write: self.write,
            content,
        };
        let bytes = restored.encoded_len() + record.key.len();
        if self.bytes + bytes > S::MOST_BYTES || self.entries.len() == S::MOST_RECORDS {
            self.flush()?;
        }
        self.bytes += bytes;
        self.entries
            .push((Bytes::copy_from_slice(record.key), restored));
        Ok(())
    }
}

impl<S: NewStore> Drop for Filling<S> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        if let Err(error) = self.runtime.block_on(self.store.remove()) {
            tracing::warn!(
                "cannot remove the unfinished store from {}: {error}; servers reject it until `statestored restore` has filled it",
                self.place
            );
        }
    }
}

/// Returns the expiry with the lifetime that is left. Servers count the lifetime from when they first see the record. `None` if the record
/// has expired.
#[expect(clippy::option_option, reason = "a record need not expire")]
fn left(expiry: Option<Expiry>, now_ms: u64) -> Option<Option<Expiry>> {
    let Some(expiry) = expiry else {
        return Some(None);
    };
    let left_ms = expiry.at_wall_ms.saturating_sub(now_ms);
    let ttl_ms = left_ms.min(expiry.ttl_ms);
    (ttl_ms > 0).then_some(Some(Expiry { ttl_ms, ..expiry }))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Returns a description of a record that an engine does not take.
pub fn too_large(key: &[u8], most_bytes: usize) -> String {
    let key = String::from_utf8_lossy(key);
    format!(
        "the entry {key:?} is larger than the {most_bytes} bytes that it accepts, including its metadata"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_keeps_its_time_and_never_grows() {
        let expiry = |at_wall_ms, ttl_ms| Expiry { at_wall_ms, ttl_ms };
        assert_eq!(left(None, 5), Some(None));
        assert_eq!(left(Some(expiry(100, 50)), 70), Some(Some(expiry(100, 30))));
        assert_eq!(left(Some(expiry(100, 50)), 10), Some(Some(expiry(100, 50))));
        assert_eq!(left(Some(expiry(100, 50)), 100), None);
    }
}
