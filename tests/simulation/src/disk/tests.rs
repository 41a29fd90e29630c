//! Tests of the storage on this disk, without a server.
use super::device::DiskFaults;
use super::{DiskHandle, ProcessEnd};
use crate::seeded_rng::SeededRng;
use bytes::Bytes;
use statestored_storage::{Batch, Record, RecordView, Restore, Storage, StorageError, Write};
use std::collections::BTreeMap;

const LOG_BYTES: u64 = 4_000;

#[derive(Debug, Default, PartialEq, Eq)]
struct LoadedRecords(BTreeMap<Bytes, Bytes>);

impl Restore for LoadedRecords {
    fn put(&mut self, record: &RecordView<'_>) {
        let copy = Bytes::copy_from_slice;
        self.0.insert(copy(record.key), copy(record.value));
    }
    fn delete(&mut self, key: &[u8]) {
        self.0.remove(key);
    }
}

fn put(number: u64, len: usize) -> Batch {
    let mut value = format!("{number} ").into_bytes();
    value.resize(len, b'.');
    let record = Record {
        key: format!("k{}", number % 3).into(),
        value: value.into(),
        version: (number, 0),
        fence: None,
        expiry: None,
    };
    Batch {
        writes: vec![Write::Put(record)],
        clock: None,
    }
}

fn load(drive: &DiskHandle) -> Result<LoadedRecords, StorageError> {
    let mut found = LoadedRecords::default();
    drive.open(LOG_BYTES)?.load(&mut found)?;
    Ok(found)
}

#[test]
fn a_rolled_back_commit_is_absent_after_a_power_failure() {
    let drive = DiskHandle::new(SeededRng::new(1));
    drive.set_faults(DiskFaults {
        can_reserve: false,
        ..DiskFaults::default()
    });
    let mut storage = drive.open(LOG_BYTES).unwrap();
    storage.load(&mut LoadedRecords::default()).unwrap();
    storage.commit(&[put(1, 10)]).unwrap();
    storage.prepare().unwrap();
    // A part of the next batch fits into this log, and as little into the next one.
    drive.set_faults(DiskFaults {
        can_reserve: false,
        free_bytes: Some(2_000),
        ..DiskFaults::default()
    });
    let next = [put(2, 2_500)];
    let full = storage.commit(&next);
    assert!(matches!(full, Err(StorageError::Full { .. })), "{full:?}");
    drive.set_faults(DiskFaults::default());
    storage.commit(&next).unwrap();
    for _ in 0..100 {
        let found = load(&drive.after_end(ProcessEnd::PowerFailure, drive.end_us())).unwrap();
        assert_eq!(found.0.len(), 2);
    }
}

#[test]
fn a_mark_written_in_pieces_survives_a_power_failure() {
    for seed in 0..10 {
        let drive = DiskHandle::new(SeededRng::new(seed));
        let mut storage = drive.open(1 << 20).unwrap();
        storage.load(&mut LoadedRecords::default()).unwrap();
        drive.set_faults(DiskFaults {
            max_write: 20,
            ..DiskFaults::default()
        });
        for number in 0..50 {
            storage.commit(&[put(number, 10)]).unwrap();
            let found = load(&drive.after_end(ProcessEnd::PowerFailure, drive.end_us())).unwrap();
            let expected = put(number, 10);
            let Write::Put(record) = &expected.writes[0] else {
                unreachable!("it puts");
            };
            assert_eq!(found.0.get(&record.key), Some(&record.value));
        }
    }
}
