//! Space on disk follows what is stored, not what was ever written.
use super::model::{batch, open, put};
use bytes::Bytes;
use statestored_storage::{DurableOptions, DurableStorage, Storage, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long merges may take to catch up.
const MERGE_TIMEOUT: Duration = Duration::from_secs(60);

const OPTIONS: DurableOptions = DurableOptions { log_bytes: 1 << 20 };

fn bytes_on_disk(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("readable");
    // A merge may be removing files meanwhile.
    entries
        .filter_map(|entry| entry.expect("readable").metadata().ok())
        .map(|file| file.len())
        .sum()
}

/// Commits little by little until the merges have caught up. How far they are behind before that depends on how busy the machine is.
fn settle(storage: &mut DurableStorage, place: &Path) {
    let begin = Instant::now();
    // Five sealed logs, the current one and the next one.
    while bytes_on_disk(place) > 8 * OPTIONS.log_bytes {
        let nothing = Write::Delete(Bytes::from_static(b"nothing"));
        storage.commit(&[batch(vec![nothing])]).expect("commit");
        let bytes = bytes_on_disk(place);
        assert!(begin.elapsed() < MERGE_TIMEOUT, "{bytes} bytes stay");
    }
}

#[test]
fn a_million_changes_of_one_key_take_bounded_space() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), OPTIONS).expect("a new store");
    let value = |n: u32| Bytes::from(format!("{n:0100}"));
    for thousand in 0..1000 {
        let writes = (0..1000).map(|n| put("counter", value(thousand * 1000 + n)));
        storage.commit(&[batch(writes.collect())]).expect("commit");
    }
    settle(&mut storage, place.path());
    drop(storage);
    let (_, model) = open(place.path(), OPTIONS).expect("opens again");
    assert_eq!(model.records.len(), 1);
    assert_eq!(model.records[&b"counter"[..]].value, value(999_999));
}

#[test]
fn deleted_keys_free_their_space() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), OPTIONS).expect("a new store");
    let mut round = 0_u32;
    while round < 60 {
        let key = |n: u32| Bytes::from(format!("{round}-{n}"));
        let puts = (0..1000).map(|n| put(key(n), vec![7; 400])).collect();
        let deletes = (0..1000).map(|n| Write::Delete(key(n))).collect();
        storage.commit(&[batch(puts)]).expect("commit");
        storage.commit(&[batch(deletes)]).expect("commit");
        round += 1;
    }
    settle(&mut storage, place.path());
    drop(storage);
    let (_, model) = open(place.path(), OPTIONS).expect("opens again");
    assert_eq!(model.records.len(), 0);
}
