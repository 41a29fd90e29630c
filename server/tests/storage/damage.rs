//! Files that are not as they were written end in full data or in an error that leaves them alone.
use super::model::{
    Model, SMALL_LOGS, after, commit, current_log, end_of_frames, open, read_files, write_files,
};
use statestored_storage::{DurableStorage, Storage, StorageError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tempfile::TempDir;

type FileContents = BTreeMap<String, Vec<u8>>;

/// A store with every kind of file: a base, sealed logs, and a current log with some commits.
pub(crate) struct Store {
    /// Number of the last commit.
    pub(crate) last: u64,
    /// As a `kill -9` leaves it: everything is acknowledged, nothing is closed.
    pub(crate) killed: FileContents,
    pub(crate) closed: FileContents,
}

pub(crate) fn store() -> Store {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    let mut last = 0;
    let killed = loop {
        last += 1;
        storage.commit(&commit(last)).expect("commit");
        let files = read_files(place.path());
        let manifest = String::from_utf8_lossy(&files["statestore.manifest"]).into_owned();
        let current = &files[&current_log(&files)];
        if manifest.contains("base ") && manifest.contains(" last ") && end_of_frames(current) > 500
        {
            break files;
        }
        assert!(last < 10_000, "no merge was installed");
    };
    drop(storage);
    let closed = read_files(place.path());
    Store {
        last,
        killed: without_leftovers(killed),
        closed: without_leftovers(closed),
    }
}

/// The files of a merge that was under way do not count.
fn without_leftovers(mut files: FileContents) -> FileContents {
    let manifest = String::from_utf8_lossy(&files["statestore.manifest"]).into_owned();
    let is_named = |name: &str| match name.split_once('-') {
        Some((kind, id)) => manifest.contains(&format!("{kind} {id} ")),
        None => true,
    };
    files.retain(|name, _| is_named(name));
    files
}

/// Opens these files; anything but the expected content or untouched files with an error is a failure.
fn check(place: &Path, files: &FileContents, expected: &Model, case: &str) -> bool {
    write_files(place, files);
    let result = open(place, SMALL_LOGS);
    match result {
        Ok((storage, model)) => {
            assert!(model == *expected, "{case}: other content was accepted");
            drop(storage);
            true
        }
        Err(error) => {
            assert!(
                matches!(error, StorageError::Damaged(_)),
                "{case}: {error:?}"
            );
            let message = error.to_string();
            assert!(
                message.contains(place.to_str().expect("UTF-8")),
                "{case}: the message names no path: {message}"
            );
            assert!(
                read_files(place) == *files,
                "{case}: the files were changed"
            );
            false
        }
    }
}

/// Runs changes of each file through both stores; returns where the full content came back. A change is told where the zeros
/// of the current log begin, or whatever else has an end.
fn damage_each_file(
    change: impl Fn(&[u8], usize) -> Vec<(String, Option<Vec<u8>>)>,
) -> BTreeSet<String> {
    let store = store();
    let expected = after(store.last);
    let scratch = TempDir::new().expect("a temporary directory");
    let place = scratch.path().join("store");
    let mut full = BTreeSet::new();
    for (kind, files) in [("killed", &store.killed), ("closed", &store.closed)] {
        assert!(
            check(&place, files, &expected, kind),
            "the undamaged store opens"
        );
        for (name, content) in files {
            for (what, changed) in change(content, end_of_frames(content)) {
                let mut damaged = files.clone();
                match changed {
                    Some(changed) => damaged.insert(name.clone(), changed),
                    None => damaged.remove(name),
                };
                if check(
                    &place,
                    &damaged,
                    &expected,
                    &format!("{kind} {name} {what}"),
                ) {
                    full.insert(format!("{kind} {name}"));
                }
            }
        }
    }
    full
}

fn mark_only() -> BTreeSet<String> {
    ["killed acknowledged", "closed acknowledged"]
        .map(String::from)
        .into()
}

#[test]
fn truncated_files() {
    let full = damage_each_file(|content, end| {
        let cuts = (0..end).step_by(end / 40 + 1);
        let last = [end - 1];
        cuts.chain(last)
            .map(|cut| (format!("cut to {cut}"), Some(content[..cut].to_vec())))
            .collect()
    });
    assert_eq!(
        full,
        mark_only(),
        "the mark can do without its second slot, nothing else"
    );
}

#[test]
fn flipped_bits() {
    let full = damage_each_file(|content, end| {
        let places = (0..end).step_by(end / 80 + 1);
        places
            .map(|at| {
                let mut flipped = content.to_vec();
                flipped[at] ^= 1 << (at % 8);
                (format!("flipped at {at}"), Some(flipped))
            })
            .collect()
    });
    assert_eq!(
        full,
        mark_only(),
        "one of the two slots of the mark is enough"
    );
}

/// A log that is being written ends with zeros, which nothing is lost with; in a store that was closed there are none.
#[test]
fn zeros_behind_the_last_commit() {
    let store = store();
    for (name, content) in &store.closed {
        assert_eq!(end_of_frames(content), content.len(), "{name}");
    }
    let log = current_log(&store.killed);
    let content = &store.killed[&log];
    let end = end_of_frames(content);
    assert!(content.len() > end, "it has zeros");
    assert!(content[end..].iter().all(|byte| *byte == 0));
    let expected = after(store.last);
    let scratch = TempDir::new().expect("a temporary directory");
    let place = scratch.path().join("store");
    let opens_with = |changed: Vec<u8>, case: &str| {
        let mut files = store.killed.clone();
        files.insert(log.clone(), changed);
        assert!(check(&place, &files, &expected, case), "{case}");
    };
    for at in (end..content.len()).step_by(97) {
        opens_with(content[..at].to_vec(), &format!("cut to {at}"));
        let mut flipped = content.clone();
        flipped[at] ^= 1;
        opens_with(flipped, &format!("flipped at {at}"));
    }
}

#[test]
fn appended_bytes() {
    let full = damage_each_file(|content, _| {
        let twice = content.repeat(2);
        let with = |more: &[u8]| Some([content, more].concat());
        vec![
            ("twice".into(), Some(twice)),
            ("text".into(), with(b"hello")),
            ("zeros".into(), with(&[0; 5000])),
        ]
    });
    // Frames after the mark are ignored, and after a kill the current log may end with a torn commit.
    let mut expected = mark_only();
    expected.extend(
        full.iter()
            .find(|place| place.starts_with("killed log-"))
            .cloned(),
    );
    assert_eq!(full, expected);
}

#[test]
fn deleted_files() {
    let full = damage_each_file(|_, _| vec![("deleted".into(), None)]);
    assert_eq!(full, BTreeSet::new());
}

#[test]
fn foreign_content() {
    let full = damage_each_file(|content, _| {
        let zeros = vec![0; content.len()];
        let text = b"key = value\n".repeat(300);
        vec![("zeros".into(), Some(zeros)), ("text".into(), Some(text))]
    });
    assert_eq!(full, BTreeSet::new());
}

/// The same file with a higher format version.
fn newer_format(content: &[u8]) -> Vec<u8> {
    let mut newer = content.to_vec();
    if content.starts_with(b"statestore data directory\nformat 1\n") {
        newer[33] = b'2';
    } else if content.starts_with(b"sst-log\n") || content.starts_with(b"sst-base") {
        newer[8] = 2;
    }
    newer
}

#[test]
fn a_newer_format_is_reported() {
    let store = store();
    let scratch = TempDir::new().expect("a temporary directory");
    let place = scratch.path().join("store");
    for name in ["statestore.manifest".to_owned(), current_log(&store.closed)] {
        let mut files = store.closed.clone();
        let newer = newer_format(&files[&name]);
        files.insert(name, newer);
        write_files(&place, &files);
        let error = open(&place, SMALL_LOGS)
            .expect_err("a newer format")
            .to_string();
        assert!(
            error.contains("format 2") && error.contains("newer program"),
            "{error}"
        );
    }
}

#[test]
fn files_of_another_or_an_older_store() {
    let (one, other) = (store(), store());
    let expected = after(one.last);
    let scratch = TempDir::new().expect("a temporary directory");
    let place = scratch.path().join("store");
    for (name, content) in &other.killed {
        let mut files = one.killed.clone();
        files.insert(name.clone(), content.clone());
        // A log of another number is a leftover, like that of an interrupted merge.
        let is_used = one.killed.contains_key(name);
        let is_full = check(
            &place,
            &files,
            &expected,
            &format!("{name} of another store"),
        );
        assert_ne!(is_used, is_full, "{name} of another store");
    }

    // The state of some commits earlier, file by file.
    let directory = scratch.path().join("grown");
    write_files(&directory, &one.killed);
    let (mut storage, _) = open(&directory, SMALL_LOGS).expect("undamaged");
    let mut last = one.last;
    // A merge alone would change the manifest as well, but the files of the older one may still be there.
    while current_log(&read_files(&directory)) == current_log(&one.killed) {
        last += 1;
        storage.commit(&commit(last)).expect("commit");
    }
    let grown = read_files(&directory);
    let expected = after(last);
    for (name, old) in &one.killed {
        if name == "acknowledged" {
            continue;
        }
        let mut files = grown.clone();
        let is_same = files
            .insert(name.clone(), old.clone())
            .is_none_or(|new| new == *old);
        let is_full = check(&place, &files, &expected, &format!("older {name}"));
        assert_eq!(is_same, is_full, "older {name}");
    }
}

#[test]
fn only_a_torn_commit_is_dropped() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    for number in 1..=3 {
        storage.commit(&commit(number)).expect("commit");
    }
    let before = read_files(place.path());
    storage.commit(&commit(4)).expect("commit");
    let log = current_log(&before);
    let complete = read_files(place.path())[&log].clone();
    let begin = before[&log].len();

    let scratch = TempDir::new().expect("a temporary directory");
    let copy = scratch.path().join("store");
    let opens_with = |content: &[u8], last: u64, case: &str| {
        let mut files = before.clone();
        files.insert(log.clone(), content.to_vec());
        assert!(check(&copy, &files, &after(last), case), "{case}");
        // And life goes on behind it.
        let (mut storage, _) = open(&copy, SMALL_LOGS).expect("opens again");
        storage.commit(&commit(last + 1)).expect("commit");
        drop(storage);
        let (_, model) = open(&copy, SMALL_LOGS).expect("opens again");
        assert!(model == after(last + 1), "{case}: after one more commit");
    };
    for cut in begin..complete.len() {
        opens_with(&complete[..cut], 3, &format!("cut to {cut}"));
        // And if it was written over zeros, of which it may end with some.
        let mut over_zeros = complete[..cut].to_vec();
        over_zeros.resize(complete.len() + 300, 0);
        let is_whole = over_zeros.starts_with(&complete);
        let last = 3 + u64::from(is_whole);
        opens_with(&over_zeros, last, &format!("zeros from {cut}"));
    }
    for zeros in [
        begin..begin + 1,
        begin..begin + 40,
        begin + 28..begin + 29,
        begin..complete.len(),
    ] {
        let mut torn = complete.clone();
        torn[zeros.clone()].fill(0);
        opens_with(&torn, 3, &format!("zeros in {zeros:?}"));
    }
    // A complete commit that was not acknowledged.
    opens_with(&complete, 4, "complete");
}

/// After a power failure the mark may be older than the log.
#[test]
fn an_outdated_mark_hides_neither_commits_nor_damage() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    let old_mark = read_files(place.path())["acknowledged"].clone();
    for number in 1..=6 {
        storage.commit(&commit(number)).expect("commit");
    }
    let mut files = read_files(place.path());
    files.insert("acknowledged".into(), old_mark);
    let scratch = TempDir::new().expect("a temporary directory");
    let copy = scratch.path().join("store");
    assert!(check(&copy, &files, &after(6), "old mark"));
    // In the middle of the log: what follows shows that it was acknowledged.
    let log = current_log(&files);
    if let Some(content) = files.get_mut(&log) {
        content[60] ^= 1;
    }
    assert!(!check(
        &copy,
        &files,
        &after(6),
        "old mark and a flipped bit"
    ));
}

/// Bytes in a value that look like a frame of some store do not turn a torn commit into damage.
#[test]
fn a_value_cannot_imitate_a_frame() {
    use super::model::{batch, put};
    let place = TempDir::new().expect("a temporary directory");
    let other = store();
    let mut storage = DurableStorage::open(place.path(), SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    let mut files = read_files(place.path());
    let log = current_log(&other.killed);
    let value = other.killed[&log].clone();
    storage
        .commit(&[batch(vec![put("k", value), put("l", "m")])])
        .expect("commit");
    let mut torn = read_files(place.path())[&current_log(&files)].clone();
    torn.truncate(torn.len() - 3);
    files.insert(current_log(&files), torn);
    let scratch = TempDir::new().expect("a temporary directory");
    assert!(check(
        &scratch.path().join("store"),
        &files,
        &after(1),
        "torn"
    ));
}

#[test]
fn data_after_the_close_of_a_store_is_refused() {
    let place = TempDir::new().expect("a temporary directory");
    let path = place.path().join("data");
    let (mut storage, _) = open(&path, SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    drop(storage);
    let mark = read_files(&path)["acknowledged"].clone();
    let (mut storage, _) = open(&path, SMALL_LOGS).expect("a store");
    storage.commit(&commit(2)).expect("commit");
    drop(storage);
    // All that is in the log is whole, but it was closed before the last of it.
    let mut files = read_files(&path);
    files.insert("acknowledged".into(), mark);
    let found = place.path().join("found");
    write_files(&found, &files);
    let refused = open(&found, SMALL_LOGS).expect_err("it was changed");
    assert!(
        refused.to_string().contains("after the store was closed"),
        "{refused}"
    );
    assert_eq!(read_files(&found), files);
}
