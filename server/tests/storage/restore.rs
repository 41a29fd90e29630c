//! From a store to a backup, or to text, and back: what comes of it is the same, or nothing.
use super::backup::backup_of;
use super::conformance::any_history;
use super::format::{LAST, fixture};
use super::model::{Model, SMALL_LOGS, after, commit, open, read_files, write_files};
use proptest::prelude::*;
use statestored_storage::backup::BackupReader;
use statestored_storage::json_lines::{self, JsonLinesReader};
use statestored_storage::{
    Batch, DurableOptions, NewStore, RecordSource, StoppedStore, Storage, StorageError,
    StoreRewriter, durable,
};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

pub(crate) fn restore(backup: &[u8], to: &Path) -> Result<(), StorageError> {
    let reader = BackupReader::new(Path::new("the.backup"), backup)?;
    let mut store = NewStore::create(to, reader.header().salt)?;
    let clock = reader.records(&mut store)?;
    store.finish(clock)
}

fn import(lines: &[u8], to: &Path) -> Result<(), StorageError> {
    let reader = JsonLinesReader::new(Path::new("the.lines"), lines)?;
    let mut store = NewStore::create(to, 7)?;
    let clock = reader.records(&mut store)?;
    store.finish(clock)
}

fn export(records: &mut dyn RecordSource) -> Vec<u8> {
    let mut lines = Vec::new();
    json_lines::write(records, &mut lines, &mut |_| Ok(())).expect("lines");
    lines
}

fn stopped(path: &Path) -> StoppedStore {
    StoppedStore::open(path, &mut |_| Ok(())).expect("a store")
}

/// Takes a history through a backup and through text.
fn round_trip(groups: &[Vec<Batch>], options: DurableOptions) {
    let place = TempDir::new().expect("a temporary directory");
    let path = |name: &str| place.path().join(name);
    let (mut storage, _) = open(&path("data"), options).expect("a new store");
    let mut expected = Model::default();
    for batches in groups {
        storage.commit(batches).expect("commit");
        storage.prepare().expect("room");
        expected.apply(batches);
    }
    let seed = storage.seed();
    let of_running = backup_of(&mut *storage.image().expect("an image"));
    drop(storage);
    let mut of_stopped = stopped(&path("data"));
    assert_eq!(Some(of_stopped.seed()), seed);
    let lines = export(&mut of_stopped);
    drop(of_stopped);

    restore(&of_running, &path("restored")).expect("restored");
    import(&lines, &path("imported")).expect("imported");
    for name in ["restored", "imported"] {
        let checked = durable::check(&path(name), &mut |_| Ok(())).expect("readable");
        assert!(
            checked.damage.is_empty() && checked.unknown_files.is_empty(),
            "{checked:?}"
        );
        assert_eq!(checked.records, Some(expected.records.len() as u64));
        let (mut storage, model) = open(&path(name), options).expect("a store");
        assert!(
            model == expected,
            "{name}: {model:?} instead of {expected:?}"
        );
        assert_eq!(storage.seed() == seed, name == "restored");
        // The store continues like any other.
        storage.commit(&commit(1)).expect("commit");
        let mut more = expected.clone();
        more.apply(&commit(1));
        drop(storage);
        assert!(open(&path(name), options).expect("a store").1 == more);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_store_round_trips(groups in any_history()) {
        round_trip(&groups, SMALL_LOGS);
    }
}

#[test]
fn a_long_history_round_trips() {
    let groups: Vec<_> = (1..=500).map(commit).collect();
    round_trip(&groups, SMALL_LOGS);
    round_trip(&groups, DurableOptions::default());
}

#[test]
fn a_damaged_backup_restores_nothing() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(&place.path().join("data"), SMALL_LOGS).expect("a new store");
    for number in 1..=5 {
        storage.commit(&commit(number)).expect("commit");
    }
    let backup = backup_of(&mut *storage.image().expect("an image"));
    let to = place.path().join("restored");
    for at in 0..backup.len() {
        let mut flipped = backup.clone();
        flipped[at] ^= 1 << (at % 8);
        for damaged in [&flipped[..], &backup[..at]] {
            let error = restore(damaged, &to).expect_err("damaged");
            assert!(matches!(error, StorageError::Damaged(_)), "{error}");
            assert!(!to.exists(), "byte {at}");
        }
    }
    restore(&backup, &to).expect("whole");
}

#[test]
fn truncated_or_changed_lines_create_no_store() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(&place.path().join("data"), SMALL_LOGS).expect("a new store");
    for number in 1..=5 {
        storage.commit(&commit(number)).expect("commit");
    }
    drop(storage);
    let lines = export(&mut stopped(&place.path().join("data")));
    let to = place.path().join("imported");
    // Without its last line break a file is still whole.
    for length in (0..lines.len() - 1).step_by(2) {
        let error = import(&lines[..length], &to).expect_err("cut off");
        assert!(matches!(error, StorageError::Damaged(_)), "{error}");
        assert!(!to.exists(), "{length} bytes");
    }
    // Text has no checksums: what comes of another byte is an error or another store, and never half of one.
    for at in (0..lines.len()).step_by(3) {
        let mut changed = lines.clone();
        changed[at] ^= 1;
        match import(&changed, &to) {
            Ok(()) => {
                open(&to, SMALL_LOGS).expect("a store");
                fs::remove_dir_all(&to).expect("removable");
            }
            Err(_) => assert!(!to.exists(), "byte {at}"),
        }
    }
}

#[test]
fn a_check_reports_exactly_the_damaged_files() {
    let place = TempDir::new().expect("a temporary directory");
    let folder = place.path().join("store");
    let files = fixture();
    write_files(&folder, &files);
    let check = || durable::check(&folder, &mut |_| Ok(())).expect("readable");
    let checked = check();
    assert!(checked.damage.is_empty(), "{checked:?}");
    assert_eq!(checked.records, Some(after(LAST).records.len() as u64));
    for (name, content) in &files {
        for at in (0..content.len()).step_by(content.len() / 60 + 1) {
            let mut damaged = files.clone();
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            damaged.insert(name.clone(), flipped);
            write_files(&folder, &damaged);
            let checked = check();
            // A store opens exactly if a check finds nothing.
            assert_eq!(read_files(&folder), damaged, "a check changes nothing");
            assert_eq!(
                open(&folder, SMALL_LOGS).is_ok(),
                checked.damage.is_empty(),
                "{name} at {at}: {checked:?}"
            );
            for damage in &checked.damage {
                assert_eq!(damage.path(), folder.join(name), "byte {at}");
                assert!(damage.offset().is_none_or(|offset| offset <= at as u64));
            }
        }
    }
    // Each of several damaged files is named.
    let mut damaged = files.clone();
    let broken = ["base-4", "log-3", "log-5"];
    for name in broken {
        let content = damaged.get_mut(name).expect("a file");
        let middle = content.len() / 2;
        content[middle] ^= 1;
    }
    write_files(&folder, &damaged);
    let named: Vec<_> = check()
        .damage
        .iter()
        .map(|it| it.path().to_path_buf())
        .collect();
    assert!(
        broken.iter().all(|name| named.contains(&folder.join(name))),
        "{named:?}"
    );
}

#[test]
fn a_store_of_format_1_has_a_backup_that_can_be_restored() {
    let place = TempDir::new().expect("a temporary directory");
    let (data, restored) = (place.path().join("data"), place.path().join("restored"));
    write_files(&data, &fixture());
    let mut backup = Vec::new();
    statestored_storage::backup::write(&mut stopped(&data), &mut backup, &|| true)
        .expect("a backup");
    assert_eq!(read_files(&data), fixture(), "the store is only read");
    restore(&backup, &restored).expect("restored");
    assert!(open(&restored, SMALL_LOGS).expect("a store").1 == after(LAST));
}

/// `backup-1` is a backup of the store in `format-1`, as the first version of the format was written.
#[test]
fn a_backup_of_format_1_is_restored() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/storage/backup-1");
    let backup = fs::read(file).expect("readable");
    let place = TempDir::new().expect("a temporary directory");
    let restored = place.path().join("restored");
    restore(&backup, &restored).expect("restored");
    assert!(open(&restored, SMALL_LOGS).expect("a store").1 == after(LAST));
}

#[test]
fn a_folder_in_use_or_not_empty_is_refused() {
    let place = TempDir::new().expect("a temporary directory");
    let data = place.path().join("data");
    let (storage, _) = open(&data, SMALL_LOGS).expect("a new store");
    let used = StoppedStore::open(&data, &mut |_| Ok(())).expect_err("in use");
    assert!(matches!(used, StorageError::InUse(_)), "{used}");
    let used = durable::check(&data, &mut |_| Ok(())).expect_err("in use");
    assert!(matches!(used, StorageError::InUse(_)), "{used}");
    drop(storage);
    let full = NewStore::create(&data, 1).expect_err("not empty");
    assert!(full.to_string().contains("not empty"), "{full}");
    // Two of them do not fill the same folder.
    let new = place.path().join("new");
    let first = NewStore::create(&new, 1).expect("an empty folder");
    let second = NewStore::create(&new, 1).expect_err("in use");
    assert!(matches!(second, StorageError::InUse(_)), "{second}");
    let server = open(&new, SMALL_LOGS).expect_err("unfinished");
    assert!(server.to_string().contains("did not finish"), "{server}");
    first.finish(None).expect("an empty store");
    assert!(open(&new, SMALL_LOGS).expect("a store").1 == Model::default());
}

#[test]
fn foreign_files_in_a_folder_are_preserved() {
    let place = TempDir::new().expect("a temporary directory");
    let path = place.path().join("data");
    assert!(!durable::is_store(&path));
    let store = NewStore::create(&path, 7).expect("a new store");
    fs::write(path.join("mine"), "precious").expect("a file");
    drop(store);
    let names: Vec<_> = read_files(&path).into_keys().collect();
    assert_eq!(names, ["mine"]);
    // Nor is it taken for what an interrupted attempt has left, with the note of one or without it.
    for beside in ["unfinished", "log-1"] {
        fs::write(path.join(beside), "").expect("a file");
        let error = NewStore::create(&path, 7).expect_err("it is not empty");
        assert!(error.to_string().contains("cannot make a store"), "{error}");
        assert!(path.join("mine").exists() && path.join(beside).exists());
    }
    for name in ["unfinished", "mine"] {
        fs::remove_file(path.join(name)).expect("removed");
    }
    NewStore::create(&path, 7).expect_err("a log, and nobody said that it was unfinished");
    fs::remove_file(path.join("log-1")).expect("removed");
    let store = NewStore::create(&path, 7).expect("a new store");
    store.finish(None).expect("finished");
    assert!(durable::is_store(&path));
}

#[test]
fn a_store_can_be_rewritten_repeatedly() {
    let place = TempDir::new().expect("a temporary directory");
    let data = place.path().join("data");
    let (mut storage, _) = open(&data, SMALL_LOGS).expect("a new store");
    let mut expected = Model::default();
    for number in 1..=50 {
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("room");
        expected.apply(&commit(number));
    }
    // The second time there is no log between the two.
    for _ in 0..3 {
        let all =
            &mut |rewrite: &mut StoreRewriter<'_>| rewrite.retain(&mut |_| true, &mut |_| Ok(()));
        storage.rewrite(all).expect("written anew");
    }
    drop(storage);
    let checked = durable::check(&data, &mut |_| Ok(())).expect("readable");
    assert!(checked.damage.is_empty(), "{checked:?}");
    assert_eq!(checked.records, Some(expected.records.len() as u64));
    assert!(open(&data, SMALL_LOGS).expect("a store").1 == expected);
}
