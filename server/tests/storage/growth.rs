//! Space on disk follows what is stored, not what was ever written.
use super::model::{batch, open, put};
use bytes::Bytes;
use statestored::storage::{DurableOptions, Storage, Write};
use std::path::Path;
use tempfile::TempDir;

const OPTIONS: DurableOptions = DurableOptions { log_bytes: 1 << 20 };

fn bytes_on_disk(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("readable");
    // A merge may be removing files meanwhile.
    entries
        .filter_map(|entry| entry.expect("readable").metadata().ok())
        .map(|file| file.len())
        .sum()
}

#[test]
fn a_million_changes_of_one_key() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), OPTIONS).expect("a new store");
    let value = |n: u32| Bytes::from(format!("{n:0100}"));
    let mut most = 0;
    for thousand in 0..1000 {
        let writes = (0..1000).map(|n| put("counter", value(thousand * 1000 + n)));
        storage.commit(&[batch(writes.collect())]).expect("commit");
        most = most.max(bytes_on_disk(place.path()));
    }
    // Five sealed logs and the current one, and what comes while commits are slowed down for a merge that is behind.
    assert!(most < 16 * OPTIONS.log_bytes, "{most} bytes for one key");
    drop(storage);
    let (_, model) = open(place.path(), OPTIONS).expect("opens again");
    assert_eq!(model.records.len(), 1);
    assert_eq!(model.records[&b"counter"[..]].value, value(999_999));
}

#[test]
fn deleted_keys_give_their_space_back() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), OPTIONS).expect("a new store");
    let mut round = 0_u32;
    let mut most = 0;
    while round < 60 {
        let key = |n: u32| Bytes::from(format!("{round}-{n}"));
        let puts = (0..1000).map(|n| put(key(n), vec![7; 400])).collect();
        let deletes = (0..1000).map(|n| Write::Delete(key(n))).collect();
        storage.commit(&[batch(puts)]).expect("commit");
        storage.commit(&[batch(deletes)]).expect("commit");
        most = most.max(bytes_on_disk(place.path()));
        round += 1;
    }
    assert!(most < 16 * OPTIONS.log_bytes, "{most} bytes for no key");
    drop(storage);
    let (_, model) = open(place.path(), OPTIONS).expect("opens again");
    assert_eq!(model.records.len(), 0);
}
