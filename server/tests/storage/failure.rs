//! A disk that takes no more: nothing is acknowledged from then on, and nothing acknowledged is lost.
#![cfg(unix)]
use super::model::{after, commit, open};
use statestored::storage::{DurableOptions, Storage, StorageError};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const DIRECTORY: &str = "STATESTORE_TEST_FULL_DIRECTORY";

/// Runs under a limit on the size of files: does nothing in a usual test run.
#[test]
fn commits_until_the_limit() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let (mut storage, _) =
        open(&PathBuf::from(directory), DurableOptions::default()).expect("opens");
    let error = (1..)
        .find_map(|number| match storage.commit(&commit(number)) {
            Ok(()) => {
                println!("acknowledged {number}");
                None
            }
            Err(error) => Some(error),
        })
        .expect("ends with an error");
    assert!(matches!(error, StorageError::Io { .. }), "{error:?}");
    assert!(error.to_string().contains("cannot write"), "{error}");
    let again = storage
        .commit(&commit(1))
        .expect_err("the storage has failed for good");
    println!("then: {again}");
}

#[test]
fn a_full_disk_stops_acknowledging() {
    let place = TempDir::new().expect("a temporary directory");
    // A shell sets the limit (in blocks of 512 or 1024 bytes) and makes it an error, not a signal.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this test"))
        .args(["failure::commits_until_the_limit", "--exact", "--nocapture"])
        .env(DIRECTORY, place.path())
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("then: cannot write"), "{text}");
    let acknowledged = text
        .lines()
        .filter_map(|line| line.split_once("acknowledged ")?.1.parse::<u64>().ok())
        .max()
        .expect("some commits fit");
    let (_, model) =
        open(place.path(), DurableOptions::default()).expect("opens when there is room");
    assert!(
        model == after(acknowledged),
        "what came back is not what was acknowledged"
    );
}
