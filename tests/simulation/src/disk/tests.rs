//! Tests of the storage on this disk, without a server.
use super::device::Faults;
use super::{Drive, End};
use crate::chance::Chance;
use bytes::Bytes;
use statestored::storage::{Batch, Record, RecordView, Restore, Storage, StorageError, Write};
use std::collections::BTreeMap;

const LOG_BYTES: u64 = 4_000;

#[derive(Debug, Default, PartialEq, Eq)]
struct Found(BTreeMap<Bytes, Bytes>);

impl Restore for Found {
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

fn load(drive: &Drive) -> Result<Found, StorageError> {
    let mut found = Found::default();
    drive.open(LOG_BYTES)?.load(&mut found)?;
    Ok(found)
}

#[test]
fn what_was_taken_back_from_a_log_is_not_in_it_after_a_power_failure() {
    let drive = Drive::new(Chance::new(1));
    drive.set_faults(Faults {
        can_reserve: false,
        ..Faults::default()
    });
    let mut storage = drive.open(LOG_BYTES).unwrap();
    storage.load(&mut Found::default()).unwrap();
    storage.commit(&[put(1, 10)]).unwrap();
    storage.prepare().unwrap();
    // A part of the next batch fits into this log, and as little into the next one.
    drive.set_faults(Faults {
        can_reserve: false,
        room: Some(2_000),
        ..Faults::default()
    });
    let next = [put(2, 2_500)];
    let full = storage.commit(&next);
    assert!(matches!(full, Err(StorageError::Full { .. })), "{full:?}");
    drive.set_faults(Faults::default());
    storage.commit(&next).unwrap();
    for _ in 0..100 {
        let found = load(&drive.if_ended(End::Power, drive.end_us())).unwrap();
        assert_eq!(found.0.len(), 2);
    }
}

#[test]
fn a_mark_that_was_written_in_pieces_is_there_after_a_power_failure() {
    for seed in 0..10 {
        let drive = Drive::new(Chance::new(seed));
        let mut storage = drive.open(1 << 20).unwrap();
        storage.load(&mut Found::default()).unwrap();
        drive.set_faults(Faults {
            most_written: 20,
            ..Faults::default()
        });
        for number in 0..50 {
            storage.commit(&[put(number, 10)]).unwrap();
            let found = load(&drive.if_ended(End::Power, drive.end_us())).unwrap();
            let expected = put(number, 10);
            let Write::Put(record) = &expected.writes[0] else {
                unreachable!("it puts");
            };
            assert_eq!(found.0.get(&record.key), Some(&record.value));
        }
    }
}
