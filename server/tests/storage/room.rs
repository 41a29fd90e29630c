//! Outcome of commits on a disk without space, or with faults.
use super::by_hand::Hand;
use super::model::{
    Model, SMALL_LOGS, after, batch, commit, current_log, end_of_frames, put, read_files,
};
use statestored::storage::{Batch, DurableOptions, DurableStorage, Storage, StorageError};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use tempfile::TempDir;

fn open(hand: &Hand, path: &Path, options: DurableOptions) -> (DurableStorage, Model) {
    let mut storage = hand.open(path, options).expect("opens");
    let model = Model::load(&mut storage).expect("loads");
    (storage, model)
}

fn is_full(result: &Result<(), StorageError>) -> bool {
    matches!(result, Err(StorageError::Full { .. }))
}

fn of_bytes(key: &str, count: usize) -> [Batch; 1] {
    [batch(vec![put(key.to_owned(), vec![7; count])])]
}

/// How many logs are sealed.
fn sealed(place: &Path) -> usize {
    let manifest = fs::read_to_string(place.join("statestore.manifest")).expect("a manifest");
    manifest.matches(" last ").count()
}

#[test]
fn what_finds_no_room_in_a_log_goes_to_the_next_one_which_has_its_room() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = Hand::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    storage.prepare().expect("room");
    hand.fail_to_reserve(Some(ErrorKind::StorageFull));
    storage.commit(&of_bytes("one", 1500)).expect("it fits");
    storage
        .commit(&of_bytes("two", 1500))
        .expect("the next log");
    assert_eq!(sealed(place.path()), 1);
    let error = storage.commit(&of_bytes("three", 1500));
    assert!(is_full(&error), "{error:?}");
    hand.fail_to_reserve(None);
    storage.commit(&of_bytes("three", 1500)).expect("room");
    drop(storage);
    assert_eq!(open(&hand, place.path(), SMALL_LOGS).1.records.len(), 3);
}

#[test]
fn what_is_larger_than_all_the_room_there_is_leaves_no_empty_logs_behind() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = Hand::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    hand.have_room(SMALL_LOGS.log_bytes);
    for _ in 0..3 {
        storage.prepare().expect("room for the next log");
        let error = storage.commit(&of_bytes("large", 5000));
        assert!(is_full(&error), "{error:?}");
    }
    assert_eq!(sealed(place.path()), 0);
    storage.commit(&of_bytes("small", 50)).expect("it fits");
}

#[test]
fn nothing_is_taken_after_a_commit_that_failed() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = Hand::default();
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
fn interrupted_writes_are_done_again() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = Hand::default();
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
fn commits_do_without_zeros_that_find_no_room_and_not_on_a_disk_that_fails() {
    for how in [ErrorKind::StorageFull, ErrorKind::Other] {
        let place = TempDir::new().expect("a temporary directory");
        let hand = Hand::default();
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
fn zeros_that_are_used_up_are_followed_by_others() {
    const ZEROS: usize = 256 << 10;
    let place = TempDir::new().expect("a temporary directory");
    let options = DurableOptions { log_bytes: 4 << 20 };
    let (mut storage, _) = open(&Hand::default(), place.path(), options);
    storage.prepare().expect("room");
    let length = || fs::read(place.path().join("log-1")).expect("the log");
    for key in ["one", "two", "three"] {
        storage.commit(&of_bytes(key, ZEROS)).expect("commit");
        let log = length();
        assert_eq!(log.len(), end_of_frames(&log) + ZEROS, "{key}");
        storage.commit(&of_bytes("small", 5)).expect("commit");
        assert_eq!(length().len(), log.len(), "written over zeros");
    }
}
