//! Behaviour of a store while its merges, its clock and the space on its disk stand still.
use super::manual_machine::ManualMachine;
use super::model::{
    Model, SMALL_LOGS, after, batch, commit, end_of_frames, put, read_files, write_files,
};
use bytes::Bytes;
use statestored_storage::group_commit::{CommitQueue, GroupCommit};
use statestored_storage::{DurableOptions, DurableStorage, Storage, StorageError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// How soon it is tried again to reserve space.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Just not so long, and the rest.
const JUST_BEFORE_RETRY: Duration = Duration::from_millis(499);
const INSTANT: Duration = Duration::from_millis(1);

fn open(hand: &ManualMachine, path: &Path, options: DurableOptions) -> (DurableStorage, Model) {
    let mut storage = hand.open(path, options).expect("opens");
    let model = Model::load(&mut storage).expect("loads");
    (storage, model)
}

/// The logs that the manifest calls sealed, each with its length and its first and its last commit.
fn sealed(place: &Path) -> Vec<(u64, u64, u64)> {
    let manifest = std::fs::read_to_string(place.join("statestore.manifest")).expect("a manifest");
    let words = manifest.lines().map(|line| line.split(' ').collect());
    words
        .filter_map(|words: Vec<_>| match words[..] {
            ["log", _, "length", length, "first", first, "last", last] => {
                let number = |text: &str| text.parse().expect("a number");
                Some((number(length), number(first), number(last)))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn commits_are_delayed_in_proportion_to_the_merge_backlog() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    // Each commit fills a log.
    let one = [batch(vec![put("key", vec![7; 3000])])];
    storage.commit(&one).expect("commit");
    let files = read_files(place.path());
    let written = end_of_frames(&files["log-1"]) as u64 - 40;
    let mut through = None;
    let (mut longest, mut commits) = (Duration::ZERO, 0);
    while longest < Duration::from_millis(40) {
        storage.commit(&one).expect("commit");
        let sealed = sealed(place.path());
        let is_behind = |first: u64| through.is_some_and(|through| first > through);
        let behind = sealed.iter().filter(|(_, first, _)| is_behind(*first));
        let behind: u64 = behind.map(|(length, ..)| length).sum();
        let expected = (behind / SMALL_LOGS.log_bytes)
            .checked_sub(2)
            .map(|doublings| {
                let nanoseconds = (written * 15) << doublings.min(10);
                Duration::from_nanos(nanoseconds).min(Duration::from_millis(40))
            });
        let slept = hand.slept();
        assert_eq!(slept, Vec::from_iter(expected), "{behind} bytes behind");
        longest = longest.max(expected.unwrap_or_default());
        if through.is_none() && hand.is_busy("merge") {
            through = sealed.last().map(|(.., last)| *last);
        }
        commits += 1;
        assert!(commits < 100, "it never waits long");
    }
    // The next merge has everything that this one has not.
    hand.finish("merge");
    storage.commit(&one).expect("commit");
    assert!(hand.slept().is_empty());
    assert!(hand.is_busy("merge"));
    storage.commit(&one).expect("commit");
    assert!(hand.slept().is_empty());
    drop(storage);
    let (_, model) = open(&hand, place.path(), SMALL_LOGS);
    assert_eq!(model.records.len(), 1);
}

#[test]
fn a_finished_merge_replaces_its_files_without_another_commit() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (storage, _) = open(&hand, place.path(), SMALL_LOGS);
    let (mut commits, mut waiting) = (GroupCommit::new(Box::new(storage)), CommitQueue::default());
    let advance = |commits: &mut GroupCommit| {
        while commits.advance().expect("advance").is_some() {}
    };
    advance(&mut commits);
    assert_eq!(commits.max_wait(), None);
    while !hand.is_busy("merge") {
        waiting.push(batch(vec![put("key", vec![7; 3000])]).into());
        assert!(commits.take(&mut waiting));
        advance(&mut commits);
    }
    let merged = sealed(place.path());
    assert!(!merged.is_empty());
    // The committer looks for the end of the merge at this interval.
    assert_eq!(commits.max_wait(), Some(Duration::from_secs(1)));
    hand.finish("merge");
    assert!(commits.is_idle(&waiting));
    assert!(commits.take(&mut waiting));
    advance(&mut commits);
    assert_eq!(commits.max_wait(), None);
    let left = sealed(place.path());
    assert!(merged.iter().all(|log| !left.contains(log)), "{left:?}");
}

#[test]
fn free_space_is_checked_twice_a_second() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    hand.advance(RETRY_INTERVAL * 10);
    let full = |result| matches!(result, Err(StorageError::Full { .. }));
    hand.fail_to_reserve(Some(ErrorKind::StorageFull));
    assert!(full(storage.prepare()));
    assert_eq!(hand.count("reserve"), 1);
    hand.fail_to_reserve(None);
    assert!(full(storage.prepare()));
    hand.advance(JUST_BEFORE_RETRY);
    assert!(full(storage.prepare()));
    assert_eq!(hand.count("reserve"), 0, "asked too soon");
    hand.advance(INSTANT);
    storage.prepare().expect("room");
    assert!(hand.count("reserve") > 0);
}

#[test]
fn an_unrelated_reservation_error_is_tolerated() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    hand.advance(RETRY_INTERVAL * 10);
    hand.fail_to_reserve(Some(ErrorKind::Other));
    for _ in 0..3 {
        storage.prepare().expect("no reason to wait");
    }
    assert_eq!(hand.count("reserve"), 1, "asked too soon");
    hand.fail_to_reserve(None);
    hand.advance(RETRY_INTERVAL);
    storage.commit(&commit(1)).expect("commit");
    storage.prepare().expect("room");
    drop(storage);
    assert!(open(&hand, place.path(), SMALL_LOGS).1 == after(1));
}

#[test]
fn preparing_before_loading_loses_nothing() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let mut storage = hand.open(place.path(), SMALL_LOGS).expect("a new store");
    storage.prepare().expect("nothing to do");
    Model::load(&mut storage).expect("loads");
    for number in 1..=60 {
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("room");
    }
    drop(storage);
    assert!(open(&hand, place.path(), SMALL_LOGS).1 == after(60));
}

/// Files of an image are removed soon after it is let go, and those of a merge under way are not.
#[test]
fn files_of_an_image_are_removed_after_its_release() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    storage.commit(&commit(1)).expect("commit");
    let image = storage.image().expect("an image");
    let mut last = 1;
    let mut go_on = |storage: &mut DurableStorage, until: &dyn Fn() -> bool| {
        while !until() {
            last += 1;
            storage.commit(&commit(last)).expect("commit");
            assert!(last < 1000, "it never comes");
        }
    };
    go_on(&mut storage, &|| hand.is_busy("merge"));
    let first = place.path().join("log-1");
    let other = storage.image().expect("an image");
    // The new base is there, and no manifest names it.
    hand.step("merge");
    let bases = || {
        let files = read_files(place.path());
        files.keys().filter(|it| it.starts_with("base-")).count()
    };
    assert_eq!(bases(), 1);
    drop(other);
    storage.prepare().expect("room");
    hand.finish("tidy");
    assert_eq!(bases(), 1, "what a merge writes was removed");
    hand.finish("merge");
    go_on(&mut storage, &|| sealed(place.path()).is_empty());
    hand.finish("tidy");
    assert!(first.exists(), "somebody reads it");
    storage.prepare().expect("room");
    hand.count("names");
    storage.prepare().expect("room");
    assert_eq!(hand.count("names"), 0, "nobody has let go");
    drop(image);
    storage.prepare().expect("room");
    hand.finish("tidy");
    assert!(!first.exists(), "nobody reads it");
}

#[test]
fn a_base_is_synced_in_parts() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), DurableOptions { log_bytes: 9 << 20 });
    let writes = (0..9_500).map(|key| put(format!("{key}"), Bytes::from(vec![7; 1 << 10])));
    storage.commit(&[batch(writes.collect())]).expect("commit");
    storage.commit(&commit(1)).expect("commit");
    hand.finish("merge");
    assert_eq!(hand.count("sync base-"), 3, "twice 4 MiB, and the rest");
}

/// Checks that space which was reserved for further commits is freed.
#[cfg(unix)]
#[test]
fn a_closed_log_frees_its_reserved_space() {
    use std::os::unix::fs::MetadataExt;
    const OPTIONS: DurableOptions = DurableOptions { log_bytes: 1 << 20 };
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(&ManualMachine::default(), place.path(), OPTIONS);
    storage.prepare().expect("room");
    drop(storage);
    let log = std::fs::metadata(place.path().join("log-1")).expect("the log");
    assert!(log.blocks() * 512 < OPTIONS.log_bytes);
}

/// An incomplete mark on the disk is invalid. The mark before must not be overwritten until the new one is complete.
#[test]
fn a_partially_written_mark_is_completed_before_the_next_one() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    hand.count("keep");
    storage.commit(&commit(1)).expect("commit");
    assert_eq!(hand.count("keep acknowledged"), 0);
    hand.write_in_pieces(511);
    for number in 2..=4 {
        storage.commit(&commit(number)).expect("commit");
        assert_eq!(hand.count("keep acknowledged"), 1, "after {number}");
    }
    drop(storage);
    assert!(open(&hand, place.path(), SMALL_LOGS).1 == after(4));
}

/// The power may fail in the midst of one: the other one is whole then.
#[test]
fn marks_alternate_between_two_slots() {
    const SLOT: usize = 512;
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(&ManualMachine::default(), place.path(), SMALL_LOGS);
    let mut before = read_files(place.path())
        .remove("acknowledged")
        .expect("a mark");
    let mut places = Vec::new();
    for number in 1..=4 {
        storage.commit(&commit(number)).expect("commit");
        let after = read_files(place.path())
            .remove("acknowledged")
            .expect("a mark");
        let slots = before.chunks(SLOT).zip(after.chunks(SLOT));
        let changed = slots
            .enumerate()
            .filter(|(_, (before, after))| before != after);
        places.extend(changed.map(|(place, _)| place));
        before = after;
    }
    assert!(
        places == [0, 1, 0, 1] || places == [1, 0, 1, 0],
        "{places:?}"
    );
}

#[test]
fn a_failed_mark_write_is_reported() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    hand.fail_to_write("acknowledged", ErrorKind::Other);
    let failed = storage.commit(&commit(1));
    assert!(matches!(failed, Err(StorageError::Io { .. })), "{failed:?}");
}

/// Checks that a merge validates the logs as opening a store does.
#[test]
fn damage_found_by_a_merge_fails_the_store() {
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    let one = [batch(vec![put("key", vec![7; 3000])])];
    while !hand.is_busy("merge") {
        storage.commit(&one).expect("commit");
    }
    let path = place.path().join("log-1");
    let mut bytes = std::fs::read(&path).expect("a log");
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).expect("changed");
    hand.finish("merge");
    let failed = storage.commit(&one);
    let is_damaged = matches!(&failed, Err(StorageError::Damaged(_)));
    assert!(is_damaged, "{failed:?}");
}

/// A sync of it may have failed, after which the system takes it for written although it is not.
#[test]
fn unacknowledged_data_is_rewritten_at_any_length() {
    let place = TempDir::new().expect("a temporary directory");
    let (data, found) = (place.path().join("data"), place.path().join("found"));
    let hand = ManualMachine::default();
    let (mut storage, mut model) = open(&hand, &data, DurableOptions::default());
    storage.commit(&commit(1)).expect("commit");
    storage.commit(&commit(2)).expect("commit");
    let before = read_files(&data);
    let large = [batch(vec![put("large", vec![7; 2_500_000])])];
    storage.commit(&large).expect("commit");
    let mut files = read_files(&data);
    drop(storage);
    let mark = "acknowledged";
    files.insert(mark.into(), before[mark].clone());
    write_files(&found, &files);
    let tail = end_of_frames(&files["log-1"]) - end_of_frames(&before["log-1"]);
    hand.written("log-1");
    let (_storage, loaded) = open(&hand, &found, DurableOptions::default());
    assert_eq!(hand.written("log-1"), tail);
    for commits in [commit(1), commit(2), large.into()] {
        model.apply(&commits);
    }
    assert!(loaded == model);
}

/// A reader has one frame in memory at a time.
#[test]
fn frames_of_a_base_have_a_bounded_number_of_records() {
    const FRAME: usize = 256 << 10;
    const RECORD: usize = 10_000;
    let place = TempDir::new().expect("a temporary directory");
    let hand = ManualMachine::default();
    let (mut storage, _) = open(&hand, place.path(), SMALL_LOGS);
    for number in 0..200 {
        let one = [batch(vec![put(number.to_string(), vec![7; RECORD])])];
        storage.commit(&one).expect("commit");
        hand.finish("merge");
    }
    storage.commit(&commit(1)).expect("commit");
    let files = read_files(place.path());
    // The older files are not removed.
    let bases = files.iter().filter(|(name, _)| name.starts_with("base-"));
    let base = bases.map(|(_, base)| base).max_by_key(|base| base.len());
    let base = base.expect("a base");
    let marks = base.windows(4).enumerate();
    let begins = marks.filter(|(_, bytes)| *bytes == b"\x93SSF");
    let begins: Vec<_> = begins.map(|(at, _)| at).collect();
    assert!(base.len() > 2 * FRAME, "{}", base.len());
    for (begin, end) in begins.iter().zip(&begins[1..]) {
        let length = end - begin;
        assert!((FRAME..FRAME + 2 * RECORD).contains(&length), "{length}");
    }
}
