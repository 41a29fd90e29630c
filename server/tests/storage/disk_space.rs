//! Outcome of commits on a disk without space, or with faults.
use super::manual_machine::ManualMachine;
use super::model::{
    Model, SMALL_LOGS, after, batch, commit, current_log, end_of_frames, put, read_files,
};
use statestored_storage::{Batch, DurableOptions, DurableStorage, Storage, StorageError};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use tempfile::TempDir;

fn open(hand: &ManualMachine, path: &Path, options: DurableOptions) -> (DurableStorage, Model) {
    let mut storage = hand.open(path, options).expect("opens");
    let model = Model::load(&mut storage).expect("loads");
    (storage, model)
}

fn is_full(result: &Result<(), StorageError>) -> bool {
    matches!(result, Err(StorageError::Full { .. }))
}

fn value_of_bytes(key: &str, count: usize) -> [Batch; 1] {
    [batch(vec![put(key.to_owned(), vec![7; count])])]
}

/// How many logs are sealed.
fn sealed(place: &Path) -> usize {
    let manifest = fs::read_to_string(place.join("statestore.manifest")).expect("a manifest");
    manifest.matches(" last ").count()
}

#[test]
fn a_commit_that_does_not_fit_uses_the_reserved_next_log() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    storage.prepare().expect("room");
    hand.fail_to_reserve(Some(ErrorKind::StorageFull));
    storage
        .commit(&value_of_bytes("one", 1500))
        .expect("it fits");
    storage
        .commit(&value_of_bytes("two", 1500))
        .expect("the next log");
    assert_eq!(sealed(place.path()), 1);
    let error = storage.commit(&value_of_bytes("three", 1500));
    assert!(is_full(&error), "{error:?}");
    hand.fail_to_reserve(None);
    storage
        .commit(&value_of_bytes("three", 1500))
        .expect("room");
    drop(storage);
    assert_eq!(open(&hand, place.path(), SMALL_LOGS).1.records.len(), 3);
}

#[test]
fn a_commit_larger_than_the_free_space_leaves_no_empty_logs() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    hand.limit_file_length(SMALL_LOGS.log_bytes);
    for _ in 0..3 {
        storage.prepare().expect("room for the next log");
        let error = storage.commit(&value_of_bytes("large", 5000));
        assert!(is_full(&error), "{error:?}");
    }
    assert_eq!(sealed(place.path()), 0);
    storage
        .commit(&value_of_bytes("small", 50))
        .expect("it fits");
}

#[test]
fn no_commit_is_accepted_after_a_failed_commit() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    storage.commit(&commit(1)).expect("commit");
    hand.fail_to_sync(Some(ErrorKind::Other));
    let error = storage.commit(&commit(2)).expect_err("not durable");
    assert!(error.to_string().contains("cannot write"), "{error}");
    assert!(error.to_string().contains("log-1"), "{error}");
    hand.fail_to_sync(None);
    let refused = |error: StorageError| error.to_string().contains("earlier commit failed");
    assert!(refused(storage.commit(&commit(2)).expect_err("refused")));
    assert!(refused(storage.prepare().expect_err("refused")));
    assert!(refused(storage.image().expect_err("refused")));
    drop(storage);
    let (_, model) = open(&hand, place.path(), SMALL_LOGS);
    assert!(model == after(1) || model == after(2), "{model:?}");
}

#[test]
fn interrupted_writes_are_retried() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    hand.interrupt();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    for number in 1..=60 {
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("room");
    }
    let files = read_files(place.path());
    let log = &files[&current_log(&files)];
    assert!(log.len() > end_of_frames(log), "it has zeros");
    drop(storage);
    assert!(open(&hand, place.path(), SMALL_LOGS).1 == after(60));
}

/// Zeros are no part of a commit, but a disk that fails is one that cannot be relied on.
#[test]
fn missing_space_for_zeros_is_tolerated_and_a_disk_error_is_not() {
    for how in [ErrorKind::StorageFull, ErrorKind::Other] {
        let place = TempDir::new().expect("a temporary directory");
        let hand = ManualMachine::default();
        let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
        storage.prepare().expect("room");
        hand.fail_to_write_zeros(how);
        let done = storage.commit(&commit(1));
        assert_eq!(done.is_ok(), how == ErrorKind::StorageFull, "{done:?}");
        let log = fs::read(place.path().join("log-1")).expect("the log");
        assert_eq!(log.len(), end_of_frames(&log));
    }
}

#[test]
fn used_up_zeros_are_replenished() {
    const ZEROS: usize = 256 << 10;
    let place = TempDir::new().expect("a temporary directory");
    let options = DurableOptions { log_bytes: 4 << 20 };
    let (mut storage, _) = open(&ManualMachine::default(), place.path(), options);
    storage.prepare().expect("room");
    let length = || fs::read(place.path().join("log-1")).expect("the log");
    for key in ["one", "two", "three"] {
        storage.commit(&value_of_bytes(key, ZEROS)).expect("commit");
        let log = length();
        assert_eq!(log.len(), end_of_frames(&log) + ZEROS, "{key}");
        storage.commit(&value_of_bytes("small", 5)).expect("commit");
        assert_eq!(length().len(), log.len(), "written over zeros");
    }
}
