//! Copies of a store that goes on.
use super::model::{SMALL_LOGS, after, commit, end_of_frames, open, read_files};
use statestored_storage::{
    DurableOptions, DurableStorage, MemoryStorage, RecordReceiver, RecordView, Storage,
    StorageError,
};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn snapshot(storage: &mut DurableStorage, to: &Path) -> Result<(), StorageError> {
    storage.image()?.copy_to(to)
}

#[test]
fn a_snapshot_is_unaffected_by_later_changes() {
    const COPIES: u64 = 40;
    const BETWEEN: u64 = 9;
    let place = TempDir::new().expect("a temporary directory");
    let (data, copies) = (place.path().join("data"), place.path().join("copies"));
    let (mut storage, _) = open(&data, SMALL_LOGS).expect("a new store");
    let copy = |number: u64| copies.join(number.to_string());
    for number in 0..=COPIES * BETWEEN {
        if number > 0 {
            storage.commit(&commit(number)).expect("commit");
            storage.prepare().expect("room");
        }
        if number.is_multiple_of(BETWEEN) {
            snapshot(&mut storage, &copy(number)).expect("a copy");
        }
    }
    drop(storage);
    for number in (0..=COPIES * BETWEEN).step_by(9) {
        // A copy is a store like any other: it can be written, and copied.
        let (mut storage, model) = open(&copy(number), SMALL_LOGS).expect("a store");
        assert_eq!(model, after(number), "after {number} commits");
        storage.commit(&commit(number + 1)).expect("commit");
        let of_copy = copies.join(format!("{number}-again"));
        snapshot(&mut storage, &of_copy).expect("a copy of the copy");
        let (_, model) = open(&of_copy, SMALL_LOGS).expect("a store");
        assert_eq!(model, after(number + 1));
    }
    let (_, model) = open(&data, SMALL_LOGS).expect("opens again");
    assert_eq!(model, after(COPIES * BETWEEN));
}

/// Counts the bytes that are reported as read, and stops beyond a maximum, if there is one.
#[derive(Default)]
struct ReadCounter {
    bytes: u64,
    max_bytes: Option<u64>,
}

impl RecordReceiver for ReadCounter {
    fn record(&mut self, _record: &RecordView<'_>) -> Result<(), StorageError> {
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.bytes += bytes;
        match self.max_bytes {
            Some(most) if self.bytes > most => Err(StorageError::Stopped),
            _ => Ok(()),
        }
    }
}

#[test]
fn copying_an_image_reports_progress_and_can_be_cancelled() {
    const HEADER: u64 = 40;
    let place = TempDir::new().expect("a temporary directory");
    let data = place.path().join("data");
    let (mut storage, _) = open(&data, SMALL_LOGS).expect("a new store");
    for number in 1..=300 {
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("room");
    }
    drop(storage);
    let (mut storage, _) = open(&data, SMALL_LOGS).expect("a store");
    let files = read_files(&data);
    let frames_of = |begin: &str| {
        let named = files.iter().filter(|(name, _)| name.starts_with(begin));
        let lengths = named.map(|(_, bytes)| end_of_frames(bytes) as u64 - HEADER);
        lengths.sum::<u64>()
    };
    let (base, logs) = (frames_of("base-"), frames_of("log-"));
    assert!(base > 0 && logs > 0, "{base} and {logs}");
    let mut image = storage.image().expect("an image");
    let mut reads = ReadCounter::default();
    image.records(&mut reads).expect("records");
    // Logs once more before, for what is the last change of each key.
    assert_eq!(reads.bytes, base + 2 * logs);
    for most in [0, logs, logs + base, logs + base + logs / 2] {
        let mut image = storage.image().expect("an image");
        let mut reads = ReadCounter {
            bytes: 0,
            max_bytes: Some(most),
        };
        let ended = image.records(&mut reads);
        assert!(
            matches!(ended, Err(StorageError::Stopped)),
            "{most}: {ended:?}"
        );
    }
}

#[test]
fn a_non_empty_folder_is_unchanged() {
    let place = TempDir::new().expect("a temporary directory");
    let (data, taken) = (place.path().join("data"), place.path().join("taken"));
    let (mut storage, _) = open(&data, DurableOptions::default()).expect("a new store");
    fs::create_dir(&taken).expect("a folder");
    fs::write(taken.join("mine"), "precious").expect("a file");
    let error = snapshot(&mut storage, &taken).expect_err("it is not empty");
    assert!(error.to_string().contains("not empty"), "{error}");
    let error = snapshot(&mut storage, &data).expect_err("it is the store itself");
    assert!(error.to_string().contains("not empty"), "{error}");
    let names: Vec<_> = fs::read_dir(&taken).expect("readable").collect();
    assert_eq!(names.len(), 1);
    storage.commit(&commit(1)).expect("it goes on");
}

#[test]
fn an_unfinished_snapshot_is_no_store_and_can_be_repeated() {
    let place = TempDir::new().expect("a temporary directory");
    let (data, copy) = (place.path().join("data"), place.path().join("copy"));
    let (mut storage, _) = open(&data, DurableOptions::default()).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    // The name of its log is gone; the store has it open, and does not notice.
    let (log, hidden) = (data.join("log-1"), data.join("hidden"));
    fs::rename(&log, &hidden).expect("renamed");
    let error = snapshot(&mut storage, &copy).expect_err("a file is missing");
    assert!(matches!(error, StorageError::Io { .. }), "{error}");
    assert_eq!(fs::read_dir(&copy).expect("readable").count(), 0);
    // Or another one has it, which is shorter.
    let bytes = fs::read(&hidden).expect("readable");
    fs::write(&log, &bytes[..50]).expect("a file");
    let error = snapshot(&mut storage, &copy).expect_err("the log is too short");
    assert!(matches!(error, StorageError::Io { .. }), "{error}");
    assert_eq!(fs::read_dir(&copy).expect("readable").count(), 0);
    fs::rename(&hidden, &log).expect("renamed");
    snapshot(&mut storage, &copy).expect("a copy");
    assert_eq!(
        open(&copy, DurableOptions::default()).expect("a store").1,
        after(1)
    );
}

#[test]
fn a_memory_store_has_no_snapshot() {
    let error = MemoryStorage.image().expect_err("nothing to copy");
    assert!(error.to_string().contains("in memory only"), "{error}");
}
