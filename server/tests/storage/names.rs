//! Which names are durable when: all that a folder's content depends on.
#![cfg(unix)]
use super::disk::Disk;
use super::kill;
use super::model::{SMALL_LOGS, open};
use statestored_storage::DurableOptions;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const DIRECTORY: &str = "STATESTORE_TEST_NEW_DIRECTORY";

/// The process that is watched.
#[test]
#[ignore = "a process that other tests start"]
fn begins_a_store() {
    let directory = std::env::var_os(DIRECTORY).expect("where, from the test that starts it");
    open(&PathBuf::from(directory), DurableOptions::default()).expect("opens");
}

#[test]
fn new_parent_folders_have_durable_names() {
    let place = TempDir::new().expect("a temporary directory");
    assert_names_are_durable(&place, &[".", "a", "a/b", "a/b/c"]);
}

#[test]
fn folders_of_an_interrupted_creation_have_durable_names() {
    let place = TempDir::new().expect("a temporary directory");
    std::fs::create_dir_all(place.path().join("a/b")).expect("folders");
    assert_names_are_durable(&place, &["a", "a/b", "a/b/c"]);
    let place = TempDir::new().expect("a temporary directory");
    std::fs::create_dir_all(place.path().join("a/b/c")).expect("folders");
    assert_names_are_durable(&place, &["a/b", "a/b/c"]);
}

/// Begins a store in `a/b/c`, which has to sync these folders before there is a manifest.
fn assert_names_are_durable(place: &TempDir, folders: &[&str]) {
    let disk = Disk::under(place.path());
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["names::begins_a_store", "--exact", "--ignored"])
        .env(DIRECTORY, place.path().join("a/b/c"))
        .envs(disk.variables())
        .stdout(Stdio::null())
        .status()
        .expect("starts");
    assert!(status.success());
    let trace = disk.trace();
    let manifest = trace
        .iter()
        .position(|line| line == "rename a/b/c/statestore.manifest");
    let before = &trace[..manifest.expect("a manifest")];
    for folder in folders {
        let is_synced = before.iter().any(|line| *line == format!("sync {folder}"));
        assert!(is_synced, "{folder}: {trace:?}");
    }
}

#[test]
fn a_merged_base_has_a_durable_name_before_the_manifest_refers_to_it() {
    let place = TempDir::new().expect("a temporary directory");
    let disk = Disk::under(place.path());
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "kill::commits_until_it_is_killed",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(kill::DIRECTORY, place.path())
        .envs(disk.variables())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut installed = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        line.expect("text");
        let trace = disk.trace();
        installed = installs(&trace);
        if installed.len() >= 3 {
            child.kill().expect("killable");
            break;
        }
    }
    child.wait().expect("ended");
    assert!(installed.len() >= 3);
    assert!(
        installed.iter().all(|is_durable| *is_durable),
        "{:?}",
        disk.trace()
    );
    open(place.path(), SMALL_LOGS).expect("opens");
}

/// For each manifest that names a new base, whether the base's name was durable.
fn installs(trace: &[String]) -> Vec<bool> {
    let mut installed = Vec::new();
    let mut last = 0;
    for (at, line) in trace.iter().enumerate() {
        if line != "rename statestore.manifest" {
            continue;
        }
        // A roll has the acknowledgement mark synced right before its manifest; a merge may go on meanwhile.
        let is_merge = |line: &&String| line.starts_with("sync base-") || *line == "sync .";
        let mut before = trace[..at].iter().rev().filter(|line| !is_merge(line));
        if before
            .nth(1)
            .is_some_and(|line| line == "sync acknowledged")
        {
            continue;
        }
        let since = &trace[last..at];
        last = at;
        if let Some(base) = since
            .iter()
            .rposition(|line| line.starts_with("sync base-"))
        {
            installed.push(since[base..].iter().any(|line| line == "sync ."));
        }
    }
    installed
}
