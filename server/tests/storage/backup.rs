//! Backups of a store that goes on, and what reading one finds.
use super::model::{Model, SMALL_LOGS, after, commit, open};
use bytes::Bytes;
use statestored_storage::backup::{self, BackupReader, Header};
use statestored_storage::{
    DurableOptions, Record, RecordReceiver, RecordView, Storage, StorageError, StorageImage,
};
use std::path::Path;
use tempfile::TempDir;

impl RecordReceiver for Model {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        let record = Record {
            key: Bytes::copy_from_slice(record.key),
            value: Bytes::copy_from_slice(record.value),
            version: record.version,
            fence: record.fence.clone(),
            expiry: record.expiry,
        };
        let former = self.records.insert(record.key.clone(), record);
        assert_eq!(former, None, "a record comes once");
        Ok(())
    }
}

/// A backup of what an image holds.
pub(crate) fn backup_of(image: &mut dyn StorageImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    backup::write(image, &mut bytes, &|| true).expect("a backup");
    bytes
}

/// Everything that a backup holds.
fn read(bytes: &[u8]) -> Result<(Header, Model), StorageError> {
    let reader = BackupReader::new(Path::new("the.backup"), bytes)?;
    let header = *reader.header();
    let mut model = Model::default();
    model.clock = reader.records(&mut model)?;
    Ok((header, model))
}

/// A backup of the store after these commits.
fn backup_after(last: u64) -> Vec<u8> {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    for number in 1..=last {
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("room");
    }
    backup_of(&mut *storage.image().expect("an image"))
}

#[test]
fn a_backup_is_a_snapshot_of_its_start() {
    const IMAGES: u64 = 60;
    const BETWEEN: u64 = 7;
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    let mut images = vec![(0, storage.image().expect("an image"))];
    for number in 1..=IMAGES * BETWEEN {
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("room");
        if number.is_multiple_of(BETWEEN) {
            images.push((number, storage.image().expect("an image")));
        }
    }
    // Merges have replaced most of the files since.
    for (number, mut image) in images {
        let (header, model) = read(&backup_of(&mut *image)).expect("whole");
        let expected = after(number);
        assert_eq!(header.records, expected.records.len() as u64);
        assert_eq!(Some(header.salt), storage.seed());
        assert_eq!(header.highest, expected.highest());
        assert!(model == expected, "after {number} commits");
    }
    let files = std::fs::read_dir(place.path()).expect("readable").count();
    assert!(files > 20, "nothing was held: {files} files");
    // The files are no longer read.
    storage.prepare().expect("room");
    drop(storage);
    let files = std::fs::read_dir(place.path()).expect("readable").count();
    assert!(files < 20, "what was held stays: {files} files");
}

#[test]
fn a_truncated_backup_is_detected_at_any_length() {
    let backup = backup_after(40);
    assert!(read(&backup).expect("whole").1 == after(40));
    for length in 0..backup.len() {
        let error = read(&backup[..length]).expect_err("cut off");
        let StorageError::Damaged(damage) = &error else {
            panic!("cut to {length}: {error}");
        };
        assert_eq!(damage.path(), Path::new("the.backup"));
        assert!(damage.offset().is_some_and(|at| at <= length as u64));
    }
    let longer = [&backup[..], b"\n"].concat();
    let error = read(&longer).expect_err("something follows").to_string();
    assert!(error.contains("follows its end"), "{error}");
}

#[test]
fn every_flipped_bit_of_a_backup_is_detected() {
    let backup = backup_after(40);
    for at in 0..backup.len() {
        for bit in 0..8 {
            let mut flipped = backup.clone();
            flipped[at] ^= 1 << bit;
            let error = read(&flipped).expect_err("damaged");
            let StorageError::Damaged(damage) = &error else {
                panic!("bit {bit} at {at}: {error}");
            };
            assert!(damage.offset().is_none_or(|offset| offset <= at as u64));
            assert!(error.to_string().starts_with("the.backup "), "{error}");
        }
    }
}

#[test]
fn a_backup_of_a_newer_format_is_refused_as_such() {
    let backup = backup_after(3);
    let text = String::from_utf8_lossy(&backup).into_owned();
    let newer = [b"statestore backup\nformat 2\n", &backup[27..]].concat();
    assert!(text.starts_with("statestore backup\nformat 1\n"), "{text}");
    let error = read(&newer).expect_err("newer").to_string();
    assert!(
        error.contains("has format 2, this program reads up to format 1"),
        "{error}"
    );
}

#[test]
fn an_empty_store_has_a_backup() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), DurableOptions::default()).expect("a new store");
    let backup = backup_of(&mut *storage.image().expect("an image"));
    let (header, model) = read(&backup).expect("whole");
    assert_eq!((header.records, header.highest), (0, (0, 0)));
    assert!(model == Model::default());
}

#[test]
fn a_backup_can_be_cancelled() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    let mut image = storage.image().expect("an image");
    let ended = backup::write(&mut *image, &mut Vec::new(), &|| false);
    assert!(matches!(ended, Err(StorageError::Stopped)), "{ended:?}");
}
