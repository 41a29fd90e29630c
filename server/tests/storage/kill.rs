//! A process that is killed while it commits loses nothing that it acknowledged.
use super::model::{after, commit, open};
use statestored_storage::{DurableOptions, Storage};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) const DIRECTORY: &str = "STATESTORE_TEST_KILL_DIRECTORY";
const ACKNOWLEDGED: &str = "acknowledged ";
/// Small enough that kills hit rolls and merges as well.
const OPTIONS: DurableOptions = DurableOptions { log_bytes: 8192 };

/// Which commit was the last one of a history made by [`commit`].
fn last_commit(model: &super::model::Model) -> u64 {
    let record = model.records.get(&b"last commit"[..]);
    record.map_or(0, |record| {
        String::from_utf8_lossy(&record.value)
            .parse()
            .expect("a number")
    })
}

/// The process to be killed.
#[test]
#[ignore = "a process that other tests start"]
fn commits_until_it_is_killed() {
    let directory = std::env::var_os(DIRECTORY).expect("where, from the test that starts it");
    let (mut storage, model) = open(&PathBuf::from(directory), OPTIONS).expect("opens");
    for number in last_commit(&model) + 1.. {
        storage.commit(&commit(number)).expect("commit");
        println!("{ACKNOWLEDGED}{number}");
    }
}

fn start(directory: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args([
            "kill::commits_until_it_is_killed",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

#[test]
fn every_acknowledged_commit_survives_kills() {
    let place = TempDir::new().expect("a temporary directory");
    let mut acknowledged = 0;
    for round in 0..20_u64 {
        let mut child = start(place.path());
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut left = 1 + round.wrapping_mul(0x9e37_79b9) % 150;
        for line in output.lines() {
            let line = line.expect("text");
            let Some((_, number)) = line.split_once(ACKNOWLEDGED) else {
                continue;
            };
            acknowledged = number.parse().expect("a number");
            left = left.saturating_sub(1);
            if left == 0 {
                // Lines that are on their way are still read afterwards: they were acknowledged.
                child.kill().expect("killable");
            }
        }
        assert!(!child.wait().expect("ended").success());
        assert_eq!(left, 0, "the process ended by itself");
        let (storage, model) = open(place.path(), OPTIONS).expect("opens after a kill");
        let last = last_commit(&model);
        assert!(
            last == acknowledged || last == acknowledged + 1,
            "{acknowledged} commits were acknowledged, {last} came back"
        );
        assert!(
            model == after(last),
            "round {round}: commits are torn or missing"
        );
        drop(storage);
    }
}
