//! Directories of stores: which can be used, and by which process.
use super::model::{SMALL_LOGS, after, commit, open, read_files};
use statestored_storage::{Storage, StorageError};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

#[test]
fn a_second_process_is_refused_with_the_owner() {
    let place = TempDir::new().expect("a temporary directory");
    let (first, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    let error = open(place.path(), SMALL_LOGS).expect_err("in use");
    assert!(matches!(error, StorageError::InUse(_)), "{error:?}");
    assert!(
        error
            .to_string()
            .contains(place.path().to_str().expect("UTF-8")),
        "{error}"
    );
    drop(first);
    open(place.path(), SMALL_LOGS).expect("free again");
}

#[test]
fn a_missing_directory_is_created() {
    let place = TempDir::new().expect("a temporary directory");
    let deep = place.path().join("a").join("b");
    let (mut storage, _) = open(&deep, SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&deep).expect("made").permissions().mode();
        assert_eq!(mode & 0o077, 0, "others can read the values");
    }
    drop(storage);
    let (_, model) = open(&deep, SMALL_LOGS).expect("opens again");
    assert!(model == after(1));
}

#[test]
fn a_store_that_was_not_closed_is_reported_once() {
    let place = TempDir::new().expect("a temporary directory");
    let crashed = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    for file in fs::read_dir(place.path()).expect("readable") {
        let file = file.expect("readable");
        fs::copy(file.path(), crashed.path().join(file.file_name())).expect("copied");
    }
    drop(storage);
    for (directory, expected) in [(&crashed, true), (&crashed, false), (&place, false)] {
        let (storage, model) = open(directory.path(), SMALL_LOGS).expect("opens");
        assert!(model == after(1));
        assert_eq!(storage.metrics().has_crashed(), expected);
    }
}

#[test]
fn a_fresh_file_system_counts_as_empty() {
    let place = TempDir::new().expect("a temporary directory");
    fs::create_dir(place.path().join("lost+found")).expect("creatable");
    open(place.path(), SMALL_LOGS).expect("a new store");
    open(place.path(), SMALL_LOGS).expect("opens again");
}

#[test]
fn a_foreign_directory_is_refused_and_unchanged() {
    let place = TempDir::new().expect("a temporary directory");
    fs::write(place.path().join("notes.txt"), "mine").expect("writable");
    let error = open(place.path(), SMALL_LOGS).expect_err("foreign");
    assert!(matches!(error, StorageError::Damaged(_)), "{error:?}");
    assert!(error.to_string().contains("notes.txt"), "{error}");
    let left: Vec<_> = fs::read_dir(place.path()).expect("readable").collect();
    assert_eq!(left.len(), 1, "something was put into a foreign directory");
    assert_eq!(
        fs::read(place.path().join("notes.txt")).expect("readable"),
        b"mine"
    );
}

#[test]
fn lost_and_found_is_not_a_foreign_file() {
    let place = TempDir::new().expect("a temporary directory");
    for name in ["lost+found", ".snapshot", ".snapshots", ".zfs"] {
        fs::create_dir_all(place.path().join(name).join("hourly.0")).expect("creatable");
    }
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    drop(storage);
    let (_, model) = open(place.path(), SMALL_LOGS).expect("opens again");
    assert!(model == after(1));
    assert!(place.path().join(".snapshot/hourly.0").is_dir());
}

#[test]
fn a_file_as_data_directory_is_refused() {
    let place = TempDir::new().expect("a temporary directory");
    let file = place.path().join("file");
    fs::write(&file, "mine").expect("writable");
    let error = open(&file, SMALL_LOGS).expect_err("a file");
    assert!(error.to_string().contains("file"), "{error}");
    assert_eq!(fs::read(&file).expect("readable"), b"mine");
}

/// A file that is not needed and cannot be removed takes space, and does no other harm.
#[test]
fn undeletable_leftovers_are_not_an_error() {
    let place = TempDir::new().expect("a temporary directory");
    drop(open(place.path(), SMALL_LOGS).expect("a new store"));
    // A folder is not removed in place of a file, not even by root.
    let stays: Vec<_> = ["log-3", "base-2", "base-6", "log-9"]
        .iter()
        .map(|name| place.path().join(name).join("kept"))
        .collect();
    for path in &stays {
        fs::create_dir_all(path).expect("creatable");
    }
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("opens");
    for number in 1..=500 {
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("no failure");
    }
    drop(storage);
    let (_, model) = open(place.path(), SMALL_LOGS).expect("opens again");
    assert!(model == after(500));
    assert!(stays.iter().all(|path| path.is_dir()));
    let files = fs::read_dir(place.path()).expect("readable").count();
    assert!(files < 20, "logs are not merged any more: {files} files");
}

/// The manifest is written last: a crash before it leaves a beginning that can be begun again.
#[test]
fn an_interrupted_creation_is_repeated() {
    let place = TempDir::new().expect("a temporary directory");
    drop(open(place.path(), SMALL_LOGS).expect("a new store"));
    let complete = read_files(place.path());
    for missing in [&["log-1", "acknowledged"][..], &["log-1"], &[]] {
        for name in missing.iter().chain(&["statestore.manifest"]) {
            fs::remove_file(place.path().join(name)).expect("removable");
        }
        fs::write(place.path().join("statestore.manifest.new"), "statest").expect("writable");
        let (mut storage, model) = open(place.path(), SMALL_LOGS).expect("begins again");
        assert!(model == after(0));
        storage.commit(&commit(1)).expect("commit");
        drop(storage);
        let (storage, model) = open(place.path(), SMALL_LOGS).expect("opens again");
        assert!(model == after(1));
        drop(storage);
        super::model::write_files(place.path(), &complete);
    }
}

/// A child process has a copy of every descriptor between its creation and the start of its program.
#[test]
fn a_closed_store_is_free_while_processes_are_started() {
    let place = TempDir::new().expect("a temporary directory");
    let path = place.path().join("data");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let status = Command::new("true").status().expect("a program");
                assert!(status.success(), "{status}");
            }
        });
        let refused = (0..300).find_map(|_| open(&path, SMALL_LOGS).err());
        ended.store(true, Ordering::Relaxed);
        assert!(refused.is_none(), "{refused:?}");
    });
}
