//! A data folder of format 1 whose files were changed: it opens, and then has versions of each key that its history has, or it is
//! refused; and what has opened once opens again with the same.
#![no_main]
#[path = "../record_set.rs"]
mod record_set;

use libfuzzer_sys::fuzz_target;
use record_set::RecordSet;
use statestored_storage::durable::check;
use statestored_storage::{
    DurableOptions, DurableStorage, RecordReceiver, RecordView, Restore, Storage, StorageError,
};
use std::path::Path;
use tempfile::TempDir;

const FILES: [(&str, &[u8]); 5] = [
    (
        "acknowledged",
        include_bytes!("../../server/tests/storage/format-1/acknowledged"),
    ),
    (
        "base-4",
        include_bytes!("../../server/tests/storage/format-1/base-4"),
    ),
    (
        "log-3",
        include_bytes!("../../server/tests/storage/format-1/log-3"),
    ),
    (
        "log-5",
        include_bytes!("../../server/tests/storage/format-1/log-5"),
    ),
    (
        "statestore.manifest",
        include_bytes!("../../server/tests/storage/format-1/statestore.manifest"),
    ),
];

fn load(folder: &Path) -> Result<RecordSet, StorageError> {
    let mut storage = DurableStorage::open(folder, DurableOptions { log_bytes: 1_000 })?;
    let mut content = RecordSet::default();
    content.floor = storage.load(&mut RecordCollector(&mut content))?;
    Ok(content)
}

/// Notes what a start hands over.
struct RecordCollector<'a>(&'a mut RecordSet);

impl Restore for RecordCollector<'_> {
    fn put(&mut self, record: &RecordView<'_>) {
        self.delete(record.key);
        self.0.record(record).expect("there is room");
    }
    fn delete(&mut self, key: &[u8]) {
        self.0.records.retain(|record| record.key != key);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut files = FILES.map(|(name, bytes)| (name, bytes.to_vec()));
    // Each change is a file, a place in it, and what becomes of it.
    for change in input.chunks_exact(5).take(16) {
        let (_, bytes) = &mut files[usize::from(change[0]) % FILES.len()];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % (bytes.len() + 1);
        match (change[3] % 4, bytes.get_mut(at)) {
            (0, Some(byte)) => *byte = change[4],
            (1, Some(byte)) => *byte ^= 1 << (change[4] % 8),
            (2, _) => bytes.truncate(at),
            _ => bytes.insert(at, change[4]),
        }
    }
    let place = TempDir::new().expect("a folder");
    for (name, bytes) in &files {
        std::fs::write(place.path().join(name), bytes).expect("it can be written");
    }
    let _ = check(place.path(), &mut |_| Ok(()));
    for (name, bytes) in &files {
        let found = std::fs::read(place.path().join(name)).expect("it is still there");
        assert_eq!(found, *bytes, "a check changes nothing");
    }
    if let Ok(content) = load(place.path()) {
        let again = load(place.path()).expect("what opened once opens again");
        assert_eq!(again.records.len(), content.records.len());
        assert!(
            again
                .records
                .iter()
                .all(|record| content.records.contains(record))
        );
        assert_eq!(again.floor, content.floor);
    }
});
