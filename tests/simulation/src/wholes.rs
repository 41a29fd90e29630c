//! Atomic creation: a store that is created with its records, a copy of a store, a rewritten store, and a file like a backup.
//! Whatever ends the process or its machine, a part of a result is never taken for the whole.
//!
//! As in [`enumeration`](crate::enumeration), every change of the disk is recorded. After each call, the remaining files are
//! checked, and also the files after a power failure. Each call fails once. A result that was reported as finished is there, and
//! durable.
use crate::disk::{Change, DATA, Drive, End, Failure, Files};
use bytes::Bytes;
use statestored::storage::backup::NewFile;
use statestored::storage::disk::{Access, Disk};
use statestored::storage::{
    Batch, DurableStorage, NewStore, Receive as _, Record, RecordView, Restore, Storage as _,
    StorageError, Write,
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
const BEGUN: usize = 14;
const MANIFEST: &str = "statestore.manifest";

/// Keys and values.
type Content = BTreeMap<Bytes, Bytes>;

/// Number of checked ends.
#[derive(Debug, Default, Clone, Copy)]
pub struct Looked {
    /// Calls after which the state was checked.
    pub calls: usize,
    /// Calls that failed.
    pub failures: usize,
    /// Disks that were found.
    pub disks: usize,
}

/// The receiver of a loaded store.
#[derive(Debug, Default)]
struct Loaded(Content);

impl Restore for Loaded {
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

fn content_of(records: impl IntoIterator<Item = Record>) -> Content {
    let pair = |record: Record| (record.key, record.value);
    records.into_iter().map(pair).collect()
}

/// Returns the content that a server would find in a folder.
fn load(files: &Files, folder: &Path) -> Result<Content, StorageError> {
    let drive = Drive::recording(files.clone());
    let mut loaded = Loaded::default();
    let result = drive
        .open_in(folder, LOG_BYTES)
        .and_then(|mut storage| storage.load(&mut loaded).map(drop));
    drive.end(End::Process, u64::MAX);
    result.map(|()| loaded.0)
}

/// Checks that a server finds this content in a folder.
fn holds(files: &Files, folder: &Path, wanted: &Content) -> Result<(), String> {
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
fn each_end(
    record: &[Change],
    from: usize,
    mut look: impl FnMut(usize, &Files) -> Result<(), String>,
) -> Result<Looked, String> {
    let (mut files, mut looked) = (Files::default(), Looked::default());
    for done in 0..=record.len() {
        let change = done.checked_sub(1).map(|last| &record[last]);
        if let Some(change) = change {
            files.apply(change);
        }
        if done < from {
            continue;
        }
        looked.calls += 1;
        for left in files.after_process().iter().chain(&files.survivals()) {
            looked.disks += 1;
            look(done, left).map_err(|why| format!("{why}\nafter the call {done}: {change:?}"))?;
        }
    }
    Ok(looked)
}

/// Checks the files after each call that `act` makes, and after each possible failure of each call. `look` gets whether `act` had
/// finished successfully.
fn each<T>(
    prepare: impl Fn(&Drive) -> Result<T, String>,
    act: impl Fn(&Drive, &mut T) -> Result<(), String>,
    mut look: impl FnMut(bool, &Files) -> Result<(), String>,
) -> Result<Looked, String> {
    let drive = Drive::recording(Files::default());
    let mut prepared = prepare(&drive)?;
    let began = drive.noted();
    act(&drive, &mut prepared)?;
    let finished = drive.noted();
    drive.end(End::Process, u64::MAX);
    drop(prepared);
    let mut looked = each_end(&drive.take_record(), began, |done, left| {
        look(done >= finished, left)
    })?;
    each_failure(prepare, act, look, &mut looked)?;
    Ok(looked)
}

/// The second part of [`each`].
fn each_failure<T>(
    prepare: impl Fn(&Drive) -> Result<T, String>,
    act: impl Fn(&Drive, &mut T) -> Result<(), String>,
    mut look: impl FnMut(bool, &Files) -> Result<(), String>,
    looked: &mut Looked,
) -> Result<(), String> {
    let begin = || {
        let drive = Drive::recording(Files::default());
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
            drive.end(End::Process, u64::MAX);
            looked.failures += 1;
            // The handling of the failure may be interrupted as well. Earlier interruptions are checked above.
            let record = drive.take_record();
            let alike = record
                .iter()
                .zip(&whole)
                .take_while(|(one, other)| one == other);
            let from = alike.count();
            let tail = each_end(&record, from, |done, left| {
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
fn is_durable(drive: &Drive) -> Result<(), String> {
    if drive.files().are_durable() {
        return Ok(());
    }
    Err("it is said to be finished before all of it is durable".into())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Creates a store with some logs, a base, and later commits.
fn begin(drive: &Drive) -> Result<DurableStorage, String> {
    let mut storage = drive.open(LOG_BYTES).map_err(text)?;
    storage.load(&mut Loaded::default()).map_err(text)?;
    for number in 0..BEGUN {
        storage.prepare().map_err(text)?;
        let mut batch = Batch::default();
        batch.writes.push(Write::Put(record(number)));
        storage.commit(&[batch]).map_err(text)?;
        for job in drive.begun() {
            while drive.step(job).0 {}
        }
    }
    Ok(storage)
}

fn make(disk: Arc<dyn Disk>, folder: &Path, records: usize) -> Result<(), StorageError> {
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
pub fn every_end_of_a_new_store() -> Result<Looked, String> {
    const RECORDS: usize = 5;
    let folder = Path::new("/new/store");
    let all = content_of((0..RECORDS).map(record));
    let look = |is_done: bool, left: &Files| {
        if is_done || left.has(&folder.join(MANIFEST)) {
            return holds(left, folder, &all);
        }
        let note = left.text(&folder.join("unfinished"));
        if left.has(&folder.join("base-2")) && !note.ends_with("remove it.\n") {
            return Err(format!("nothing says that it is not finished: {note:?}"));
        }
        let again = Drive::recording(left.clone());
        make(again.disk(), folder, RECORDS).map_err(|why| format!("not made again: {why}"))?;
        is_durable(&again)?;
        holds(&again.files(), folder, &all)
    };
    let act = |drive: &Drive, (): &mut ()| {
        make(drive.disk(), folder, RECORDS).map_err(text)?;
        is_durable(drive)
    };
    each(|_| Ok(()), act, look)
}

/// Checks a copy of a store. The copy is valid once it has a manifest; the original does not change.
///
/// # Errors
/// As for [`every_end_of_a_new_store`].
pub fn every_end_of_a_copy() -> Result<Looked, String> {
    let copy = Path::new("/copies/one");
    let all = content_of((0..BEGUN).map(record));
    let act = |drive: &Drive, storage: &mut DurableStorage| {
        let image = storage.image().map_err(text)?;
        image.copy_to(copy).map_err(text)?;
        if drive.files().are_durable_in(copy) {
            return Ok(());
        }
        Err("a copy is said to be finished before all of it is durable".into())
    };
    let look = |is_done: bool, left: &Files| {
        if is_done || left.has(&copy.join(MANIFEST)) {
            holds(left, copy, &all)?;
        }
        holds(left, Path::new(DATA), &all)
    };
    each(begin, act, look)
}

/// Checks a rewritten store: it is the former one or the new one.
///
/// # Errors
/// As for [`every_end_of_a_new_store`].
pub fn every_end_of_a_rewrite() -> Result<Looked, String> {
    let before = content_of((0..BEGUN).map(record));
    let added = Record {
        key: "added".into(),
        ..record(99)
    };
    let mut after = before.clone();
    after.remove(&b"k1"[..]);
    after.extend(content_of([added.clone()]));
    let act = |_: &Drive, storage: &mut DurableStorage| {
        let rewritten = storage.rewrite(&mut |rewrite| {
            let clock = rewrite.keep(&mut |record| record.key != b"k1", &mut |_| Ok(()))?;
            rewrite.add(&added.view())?;
            Ok(clock)
        });
        rewritten.map(drop).map_err(text)
    };
    let look = |is_done: bool, left: &Files| match holds(left, Path::new(DATA), &after) {
        Err(_) if !is_done => holds(left, Path::new(DATA), &before),
        result => result,
    };
    each(begin, act, look)
}

/// Checks a file like a backup, which replaces another one or not.
///
/// # Errors
/// As for [`every_end_of_a_new_store`].
pub fn every_end_of_a_file(replaces: bool) -> Result<Looked, String> {
    let path = Path::new("/backups/today");
    let old = if replaces { "of yesterday" } else { "" };
    let new = "of today, ".repeat(200);
    let prepare = |drive: &Drive| prepare(&*drive.disk(), path, old).map_err(text);
    let act = |drive: &Drive, (): &mut ()| {
        let mut file = NewFile::create_on(drive.disk(), path, replaces).map_err(text)?;
        file.write_all(new.as_bytes()).map_err(text)?;
        file.keep().map_err(text)
    };
    let look = |is_done: bool, left: &Files| {
        let found = left.text(path);
        if found == new || !is_done && found == old {
            return Ok(());
        }
        let count = found.len();
        Err(format!(
            "what is found is neither the old file nor the new one: {count} bytes"
        ))
    };
    each(prepare, act, look)
}

/// Creates a folder, and in it a file with this text unless the text is empty.
fn prepare(disk: &dyn Disk, path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    disk.create_directory(folder)?;
    disk.sync_directory(Path::new("/"))?;
    if !text.is_empty() {
        let mut file = disk.open(path, Access::Create)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    disk.sync_directory(folder)
}
