//! A disk that takes no more: nothing is acknowledged, nothing acknowledged is lost, and with room it goes on.
#![cfg(unix)]
use super::disk::Disk;
use super::model::{after, commit, open};
use statestored_storage::{DurableOptions, Storage, StorageError};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const DIRECTORY: &str = "STATESTORE_TEST_FULL_DIRECTORY";
const OPTIONS: DurableOptions = DurableOptions {
    log_bytes: 64 << 10,
};
const ACKNOWLEDGED: &str = "acknowledged ";
const FULL: &str = "full: ";
/// Commits after there is room again.
const MORE: u64 = 400;

/// Runs on a disk that becomes full.
#[test]
#[ignore = "a process that other tests start"]
fn commits_until_there_is_no_room_and_then_on() {
    let directory = std::env::var_os(DIRECTORY).expect("where, from the test that starts it");
    let (mut storage, _) = open(&PathBuf::from(directory), OPTIONS).expect("opens");
    let mut left = None;
    for number in 1.. {
        while let Err(error) = storage.commit(&commit(number)) {
            assert!(matches!(error, StorageError::Full { .. }), "{error:?}");
            if left.is_none() {
                println!("{FULL}{error}");
                left = Some(MORE);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("{ACKNOWLEDGED}{number}");
        left = left.map(|left| left - 1);
        if left == Some(0) {
            // As a kill would end it.
            std::process::abort();
        }
    }
}

fn fill_and_free(faults: &[(&str, u64)]) {
    let place = TempDir::new().expect("a temporary directory");
    let disk = Disk::under(place.path());
    disk.set(faults);
    let name = "failure::commits_until_there_is_no_room_and_then_on";
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([name, "--exact", "--ignored", "--nocapture"])
        .env(DIRECTORY, place.path())
        .envs(disk.variables())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let (mut acknowledged, mut refusal) = (0, None);
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        if let Some((_, error)) = line.split_once(FULL) {
            refusal = Some((acknowledged, error.to_owned()));
            disk.set(faults);
        } else if let Some((_, number)) = line.split_once(ACKNOWLEDGED) {
            acknowledged = number.parse().expect("a number");
            if acknowledged == 100 {
                // Only the reserved space is left.
                let mut full = faults.to_vec();
                full.push(("capacity", 0));
                disk.set(&full);
            }
        }
    }
    child.wait().expect("ended");
    let (fitted, error) = refusal.expect("the disk became full");
    assert!(fitted >= 100, "only {fitted} commits fitted");
    assert!(
        error.contains("log-") && error.contains("free some space"),
        "{error}"
    );
    assert_eq!(acknowledged, fitted + MORE, "it did not go on");
    let (_, model) = open(place.path(), OPTIONS).expect("opens");
    assert!(
        model == after(acknowledged),
        "what came back is not what was acknowledged"
    );
}

#[test]
fn a_full_disk_takes_no_commit_until_there_is_room() {
    fill_and_free(&[]);
}

#[test]
fn a_full_disk_that_cannot_reserve_takes_no_commit_until_there_is_room() {
    fill_and_free(&[("no_fallocate", 1)]);
}
