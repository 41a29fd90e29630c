//! Atomic creation: a store that is created with its records, a copy of a store, a rewritten store, and a file like a backup.
//! Whatever ends the process or its machine, a part of a result is never taken for the whole.
//!
//! As in [`enumeration`](crate::enumeration), every change of the disk is recorded. After each call, the remaining files are
//! checked, and also the files after a power failure. Each call fails once. A result that was reported as finished is there, and
//! durable.
use crate::disk::{DATA, DiskChange, DiskHandle, Failure, FileTree, ProcessEnd};
use bytes::Bytes;
use statestored_storage::backup::NewFile;
use statestored_storage::disk::{Disk, OpenMode};
use statestored_storage::{
    Batch, DurableStorage, NewStore, Record, RecordReceiver as _, RecordView, Restore,
    Storage as _, StorageError, Write,
};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

/// Length of a log, small enough that a few commits fill it.
const LOG_BYTES: u64 = 900;
/// Lengths of the values, in turn; some take several sectors.
const LENGTHS: [usize; 4] = [10, 700, 40, 1300];
/// Number of commits of a store at the beginning.
const INITIAL_COMMITS: usize = 14;
const MANIFEST: &str = "statestore.manifest";

/// Keys and values.
type StoreContent = BTreeMap<Bytes, Bytes>;

/// Number of checked ends.
#[derive(Debug, Default, Clone, Copy)]
pub struct AtomicityReport {
    /// Calls after which the state was checked.
    pub calls: usize,
    /// Calls that failed.
    pub failures: usize,
    /// Disks that were found.
    pub disks: usize,
}

/// The receiver of a loaded store.
#[derive(Debug, Default)]
struct LoadedStore(StoreContent);

impl Restore for LoadedStore {
    fn put(&mut self, record: &RecordView<'_>) {
        let key = Bytes::copy_from_slice(record.key);
        self.0.insert(key, Bytes::copy_from_slice(record.value));
    }

    fn delete(&mut self, key: &[u8]) {
        self.0.remove(key);
    }
}

fn record(number: usize) -> Record {
    let mut value = format!("{number} ").into_bytes();
    value.resize(LENGTHS[number % LENGTHS.len()], b'.');
    Record {
        key: format!("k{}", number % 6).into(),
        value: value.into(),
        version: (number as u64 + 1, 0),
        fence: None,
        expiry: None,
    }
}

fn content_of(records: impl IntoIterator<Item = Record>) -> StoreContent {
    let pair = |record: Record| (record.key, record.value);
    records.into_iter().map(pair).collect()
}

/// Returns the content that a server would find in a folder.
fn load(files: &FileTree, folder: &Path) -> Result<StoreContent, StorageError> {
    let drive = DiskHandle::recording(files.clone());
    let mut loaded = LoadedStore::default();
    let result = drive
        .open_in(folder, LOG_BYTES)
        .and_then(|mut storage| storage.load(&mut loaded).map(drop));
    drive.end(ProcessEnd::Killed, u64::MAX);
    result.map(|()| loaded.0)
}

/// Checks that a server finds this content in a folder.
fn check_content(files: &FileTree, folder: &Path, wanted: &StoreContent) -> Result<(), String> {
    match load(files, folder) {
        Ok(found) if found == *wanted => Ok(()),
        Ok(found) => Err(format!(
            "{} holds\n  {found:?}\nin the place of\n  {wanted:?}",
            folder.display()
        )),
        Err(error) => Err(format!("{} cannot be used: {error}", folder.display())),
    }
}

/// Checks the files after each call, from the one with this number on.
fn check_each_end(
    record: &[DiskChange],
    from: usize,
    mut look: impl FnMut(usize, &FileTree) -> Result<(), String>,
) -> Result<AtomicityReport, String> {
    let (mut files, mut looked) = (FileTree::default(), AtomicityReport::default());
    for done in 0..=record.len() {
        let change = done.checked_sub(1).map(|last| &record[last]);
        if let Some(change) = change {
            files.apply(change);
        }
        if done < from {
            continue;
        }
        looked.calls += 1;
        for left in files.after_process().iter().chain(&files.crash_states()) {
            looked.disks += 1;
            look(done, left).map_err(|why| format!("{why}\nafter the call {done}: {change:?}"))?;
        }
    }
    Ok(looked)
}

/// Checks the files after each call that `act` makes, and after each possible failure of each call. `look` gets whether `act` had
/// finished successfully.
fn check_each_call<T>(
    prepare: impl Fn(&DiskHandle) -> Result<T, String>,
    act: impl Fn(&DiskHandle, &mut T) -> Result<(), String>,
    mut look: impl FnMut(bool, &FileTree) -> Result<(), String>,
) -> Result<AtomicityReport, String> {
    let drive = DiskHandle::recording(FileTree::default());
    let mut prepared = prepare(&drive)?;
    let began = drive.recorded();
    act(&drive, &mut prepared)?;
    let finished = drive.recorded();
    drive.end(ProcessEnd::Killed, u64::MAX);
    drop(prepared);
    let mut looked = check_each_end(&drive.take_record(), began, |done, left| {
        look(done >= finished, left)
    })?;
    check_each_failure(prepare, act, look, &mut looked)?;
    Ok(looked)
}

/// The second part of [`check_each_call`].
fn check_each_failure<T>(
    prepare: impl Fn(&DiskHandle) -> Result<T, String>,
    act: impl Fn(&DiskHandle, &mut T) -> Result<(), String>,
    mut look: impl FnMut(bool, &FileTree) -> Result<(), String>,
    looked: &mut AtomicityReport,
) -> Result<(), String> {
    let begin = || {
        let drive = DiskHandle::recording(FileTree::default());
        prepare(&drive).map(|prepared| (drive, prepared))
    };
    let (first, mut prepared) = begin()?;
    let before = Failure::ALL.map(|how| first.calls(how));
    act(&first, &mut prepared)?;
    let calls = Failure::ALL.map(|how| first.calls(how));
    let whole = first.take_record();
    for ((how, before), calls) in Failure::ALL.into_iter().zip(before).zip(calls) {
        for call in before + 1..=calls {
            let (drive, mut prepared) = begin()?;
            drive.fail(call, how);
            let is_done = act(&drive, &mut prepared).is_ok();
            drive.end(ProcessEnd::Killed, u64::MAX);
            looked.failures += 1;
            // The handling of the failure may be interrupted as well. Earlier interruptions are checked above.
            let record = drive.take_record();
            let alike = record
                .iter()
                .zip(&whole)
                .take_while(|(one, other)| one == other);
            let from = alike.count();
            let tail = check_each_end(&record, from, |done, left| {
                look(is_done && done == record.len(), left).map_err(|why| {
                    format!(
                        "{why}\nafter {how:?} of the call {call}, noticed: {}",
                        !is_done
                    )
                })
            })?;
            looked.disks += tail.disks;
        }
    }
    Ok(())
}

/// Checks that all changes of the process are durable.
fn check_durable(drive: &DiskHandle) -> Result<(), String> {
    if drive.files().are_durable() {
        return Ok(());
    }
    Err("it is said to be finished before all of it is durable".into())
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Creates a store with some logs, a base, and later commits.
fn create_initial_store(drive: &DiskHandle) -> Result<DurableStorage, String> {
    let mut storage = drive.open(LOG_BYTES).map_err(to_text)?;
    storage.load(&mut LoadedStore::default()).map_err(to_text)?;
    for number in 0..INITIAL_COMMITS {
        storage.prepare().map_err(to_text)?;
        let mut batch = Batch::default();
        batch.writes.push(Write::Put(record(number)));
        storage.commit(&[batch]).map_err(to_text)?;
        for job in drive.take_started_jobs() {
            while drive.step(job).0 {}
        }
    }
    Ok(storage)
}

fn create_store(disk: Arc<dyn Disk>, folder: &Path, records: usize) -> Result<(), StorageError> {
    let mut store = NewStore::create_on(disk, folder, 7)?;
    for number in 0..records {
        store.record(&record(number).view())?;
    }
    store.finish(Some((100, 0)))
}

/// Checks a store that is created with all its records. Before it is finished, it is no store, and can be created again.
///
/// # Errors
/// The violated invariant, and the call before it.
pub fn check_new_store() -> Result<AtomicityReport, String> {
    const RECORDS: usize = 5;
    let folder = Path::new("/new/store");
    let all = content_of((0..RECORDS).map(record));
    let look = |is_done: bool, left: &FileTree| {
        if is_done || left.contains(&folder.join(MANIFEST)) {
            return check_content(left, folder, &all);
        }
        let note = left.text(&folder.join("unfinished"));
        if left.contains(&folder.join("base-2")) && !note.ends_with("remove it.\n") {
            return Err(format!("nothing says that it is not finished: {note:?}"));
        }
        let again = DiskHandle::recording(left.clone());
        create_store(again.disk(), folder, RECORDS)
            .map_err(|why| format!("not made again: {why}"))?;
        check_durable(&again)?;
        check_content(&again.files(), folder, &all)
    };
    let act = |drive: &DiskHandle, (): &mut ()| {
        create_store(drive.disk(), folder, RECORDS).map_err(to_text)?;
        check_durable(drive)
    };
    check_each_call(|_| Ok(()), act, look)
}

/// Checks a copy of a store. The copy is valid once it has a manifest; the original does not change.
///
/// # Errors
/// As for [`check_new_store`].
pub fn check_copy() -> Result<AtomicityReport, String> {
    let copy = Path::new("/copies/one");
    let all = content_of((0..INITIAL_COMMITS).map(record));
    let act = |drive: &DiskHandle, storage: &mut DurableStorage| {
        let image = storage.image().map_err(to_text)?;
        image.copy_to(copy).map_err(to_text)?;
        if drive.files().are_durable_in(copy) {
            return Ok(());
        }
        Err("a copy is said to be finished before all of it is durable".into())
    };
    let look = |is_done: bool, left: &FileTree| {
        if is_done || left.contains(&copy.join(MANIFEST)) {
            check_content(left, copy, &all)?;
        }
        check_content(left, Path::new(DATA), &all)
    };
    check_each_call(create_initial_store, act, look)
}

/// Checks a rewritten store: it is the former one or the new one.
///
/// # Errors
/// As for [`check_new_store`].
pub fn check_rewrite() -> Result<AtomicityReport, String> {
    let before = content_of((0..INITIAL_COMMITS).map(record));
    let added = Record {
        key: "added".into(),
        ..record(99)
    };
    let mut after = before.clone();
    after.remove(&b"k1"[..]);
    after.extend(content_of([added.clone()]));
    let act = |_: &DiskHandle, storage: &mut DurableStorage| {
        let rewritten = storage.rewrite(&mut |rewrite| {
            let clock = rewrite.retain(&mut |record| record.key != b"k1", &mut |_| Ok(()))?;
            rewrite.add(&added.view())?;
            Ok(clock)
        });
        rewritten.map(drop).map_err(to_text)
    };
    let look = |is_done: bool, left: &FileTree| match check_content(left, Path::new(DATA), &after) {
        Err(_) if !is_done => check_content(left, Path::new(DATA), &before),
        result => result,
    };
    check_each_call(create_initial_store, act, look)
}

/// Checks a file like a backup, which replaces another one or not.
///
/// # Errors
/// As for [`check_new_store`].
pub fn check_new_file(replaces: bool) -> Result<AtomicityReport, String> {
    let path = Path::new("/backups/today");
    let old = if replaces { "of yesterday" } else { "" };
    let new = "of today, ".repeat(200);
    let prepare = |drive: &DiskHandle| create_folder(&*drive.disk(), path, old).map_err(to_text);
    let act = |drive: &DiskHandle, (): &mut ()| {
        let mut file = NewFile::create_on(drive.disk(), path, replaces).map_err(to_text)?;
        file.write_all(new.as_bytes()).map_err(to_text)?;
        file.persist().map_err(to_text)
    };
    let look = |is_done: bool, left: &FileTree| {
        let found = left.text(path);
        if found == new || !is_done && found == old {
            return Ok(());
        }
        let count = found.len();
        Err(format!(
            "what is found is neither the old file nor the new one: {count} bytes"
        ))
    };
    check_each_call(prepare, act, look)
}

/// Creates a folder, and in it a file with this text unless the text is empty.
fn create_folder(disk: &dyn Disk, path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    disk.create_directory(folder)?;
    disk.sync_directory(Path::new("/"))?;
    if !text.is_empty() {
        let mut file = disk.open(path, OpenMode::Create)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    disk.sync_directory(folder)
}
