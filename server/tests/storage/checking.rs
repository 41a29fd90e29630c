//! Findings of a check of a store, and the owner of each file of a folder.
use super::format::fixture;
use super::manual_machine::ManualMachine;
use super::model::{
    Model, SMALL_LOGS, after, batch, commit, current_log, open, put, read_files, write_files,
};
use statestored_storage::durable::{self, CheckReport};
use statestored_storage::{StoppedStore, Storage};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn check(folder: &Path) -> CheckReport {
    durable::check(folder, &mut |_| Ok(())).expect("readable")
}

#[test]
fn a_check_counts_files_and_bytes_and_lists_foreign_files() {
    let place = TempDir::new().expect("a temporary directory");
    let folder = place.path().join("store");
    let files = fixture();
    write_files(&folder, &files);
    let checked = check(&folder);
    assert_eq!(checked.files, files.len() as u64);
    let bytes: usize = files.values().map(Vec::len).sum();
    assert_eq!(checked.bytes, bytes as u64);
    assert!(checked.unknown_files.is_empty(), "{checked:?}");
    for name in ["notes.txt", "log-99", "base-98", "unfinished", "lock"] {
        fs::write(folder.join(name), "more").expect("writable");
    }
    fs::create_dir(folder.join("lost+found")).expect("creatable");
    let strangers = ["base-98", "log-99", "notes.txt", "unfinished"];
    let mut checked = check(&folder);
    assert_eq!(
        checked.unknown_files,
        strangers.map(|name| folder.join(name))
    );
    // Damage changes neither number.
    for name in files.keys() {
        let path = folder.join(name);
        let mut content = files[name].clone();
        content[0] ^= 1;
        fs::write(&path, content).expect("writable");
        checked = check(&folder);
        if name != "statestore.manifest" {
            assert_eq!(checked.files, files.len() as u64, "{name}");
            assert_eq!(checked.bytes, bytes as u64, "{name}");
        }
        assert!(checked.bytes >= bytes as u64, "{name}");
        fs::write(&path, &files[name]).expect("writable");
    }
}

#[test]
fn a_check_reports_progress_and_can_be_cancelled() {
    let place = TempDir::new().expect("a temporary directory");
    let folder = place.path().join("store");
    write_files(&folder, &fixture());
    let whole = check(&folder).bytes;
    let mut told = 0;
    let mut read = |bytes| {
        told += bytes;
        Ok(())
    };
    durable::check(&folder, &mut read).expect("readable");
    assert!(told > whole && told < 2 * whole, "the logs are read twice");
    let current = current_log(&fixture());
    let length = fixture()[&current].len() as u64 - 40;
    told = 0;
    let mut read = |bytes| {
        told += bytes;
        Ok(())
    };
    StoppedStore::open(&folder, &mut read).expect("a store");
    assert_eq!(told, length, "the current log");
}

#[test]
fn a_check_of_several_valid_logs_finds_no_damage() {
    let place = TempDir::new().expect("a temporary directory");
    let folder = place.path().join("store");
    // Nothing is merged: the test runs no jobs.
    let mut storage = ManualMachine::default()
        .open(&folder, SMALL_LOGS)
        .expect("a store");
    Model::load(&mut storage).expect("loads");
    let mut number = 0;
    while read_files(&folder)
        .keys()
        .filter(|name| name.starts_with("log-"))
        .count()
        < 5
    {
        number += 1;
        storage.commit(&commit(number)).expect("commit");
        storage.prepare().expect("room");
    }
    let files = read_files(&folder);
    drop(storage);
    write_files(&folder, &files);
    let checked = check(&folder);
    assert!(checked.damage.is_empty(), "{checked:?}");
    assert_eq!(checked.records, Some(after(number).records.len() as u64));
}

#[test]
fn a_check_reports_an_unfinished_commit() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(&place.path().join("data"), SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    let files = read_files(&place.path().join("data"));
    drop(storage);
    let folder = place.path().join("killed");
    write_files(&folder, &files);
    let log = folder.join(current_log(&files));
    for zeros in [0, 1, 5000] {
        let content = [&files[&current_log(&files)][..], &vec![0; zeros]].concat();
        fs::write(&log, content).expect("writable");
        assert_eq!(check(&folder).torn_log, None, "zeros are no commit");
    }
    let content = [&files[&current_log(&files)][..], b"torn"].concat();
    fs::write(&log, content).expect("writable");
    let checked = check(&folder);
    assert_eq!(checked.torn_log, Some(log));
    assert!(checked.damage.is_empty(), "{checked:?}");
    assert_eq!(checked.records, Some(after(1).records.len() as u64));
}

#[test]
fn a_check_reports_a_file_with_invalid_content() {
    let place = TempDir::new().expect("a temporary directory");
    let folder = place.path().join("store");
    let (mut storage, _) = open(&folder, SMALL_LOGS).expect("a new store");
    storage.commit(&commit(1)).expect("commit");
    drop(storage);
    let mut files = read_files(&folder);
    // The log, with what it deletes, as a base.
    let log = files["log-1"].clone();
    let header = |magic: &[u8], id: u64, first: u64| {
        let salt = &log[16..24];
        let fields = [salt, &id.to_le_bytes(), &first.to_le_bytes()].concat();
        let crc = crc32fast::hash(&fields).to_le_bytes();
        [magic, &log[8..12], &crc, &fields].concat()
    };
    files.insert(
        "base-2".into(),
        [&header(b"sst-base", 2, 1)[..], &log[40..]].concat(),
    );
    files.insert("log-3".into(), header(b"sst-log\n", 3, 2));
    files.remove("log-1");
    let manifest = String::from_utf8(files["statestore.manifest"].clone()).expect("text");
    let before = &manifest[..manifest.find("log 1 ").expect("a log")];
    let length = log.len();
    let manifest = format!("{before}base 2 length {length} through 1\nlog 3 first 2\n");
    let checksum = crc32fast::hash(manifest.as_bytes());
    let manifest = format!("{manifest}checksum {checksum:08x}\n");
    files.insert("statestore.manifest".into(), manifest.into_bytes());
    write_files(&folder, &files);
    let damage = check(&folder).damage;
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].path(), folder.join("base-2"));
    assert!(
        damage[0].to_string().contains("deletes nothing"),
        "{damage:?}"
    );

    let folder = place.path().join("other");
    let (mut storage, _) = open(&folder, SMALL_LOGS).expect("a new store");
    let nameless = batch(vec![put("", "value")]);
    storage.commit(&[nameless]).expect("commit");
    drop(storage);
    let damage = check(&folder).damage;
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].path(), folder.join("log-1"));
    assert!(damage[0].to_string().contains("empty"), "{damage:?}");
}

/// Restricts files that an older program left readable as well. All other files belong to other programs.
#[cfg(unix)]
#[test]
fn only_the_files_of_the_store_are_made_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = TempDir::new().expect("a temporary directory");
    let path = |name: &str| place.path().join(name);
    let mode = |name: &str| {
        fs::metadata(path(name))
            .expect("there")
            .permissions()
            .mode()
            & 0o777
    };
    let open_up = |name: &str, mode| {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).expect("changed");
    };
    write_files(place.path(), &fixture());
    fs::write(path("notes.txt"), "mine").expect("writable");
    fs::create_dir(path("log-77")).expect("creatable");
    std::os::unix::fs::symlink(path("notes.txt"), path("base-88")).expect("linked");
    let ours: Vec<_> = fixture().into_keys().collect();
    for name in &ours {
        open_up(name, 0o644);
    }
    open_up("notes.txt", 0o644);
    open_up("log-77", 0o755);
    let (storage, _) = open(place.path(), SMALL_LOGS).expect("opens");
    for name in &ours {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!((mode("notes.txt"), mode("log-77")), (0o644, 0o755));
    drop(storage);
    assert!(!path("base-88").exists(), "a leftover");
    assert_eq!(fs::read(path("notes.txt")).expect("there"), b"mine");
}
