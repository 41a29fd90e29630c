//! Stored values with their versions.
use crate::boundary;
use crate::bytes::sst_slice;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::{TimestampObject, sst_hlc};
use crate::infallible;
use crate::input::{self, FOREVER, UNKNOWN};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{Entries, Entry, Expiry};
use statestore_embed::Error;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

/// A stored value with its version. Opaque.
pub struct sst_entry;

pub(crate) struct EntryObject {
    /// The key; empty if the caller knows it.
    key: Bytes,
    entry: Entry,
}

object!(EntryObject, sst_entry, 6, "an entry");

impl From<Entry> for EntryObject {
    fn from(entry: Entry) -> Self {
        Self::from((Bytes::new(), entry))
    }
}

impl From<(Bytes, Entry)> for EntryObject {
    fn from((key, entry): (Bytes, Entry)) -> Self {
        Self { key, entry }
    }
}

/// Returns the key of an entry of sst_scan_entries_next_page(), sst_scan_entries_next() or sst_mirror_snapshot(). Other
/// entries return no bytes.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entry_key(entry: *const sst_entry) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        let entry = handle::get::<EntryObject>(entry)?;
        Ok(match &*entry.key {
            [] => sst_slice::NONE,
            key => sst_slice::from_bytes(key),
        })
    })
}

/// Returns the value.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entry_value(entry: *const sst_entry) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        Ok(sst_slice::from_bytes(
            &handle::get::<EntryObject>(entry)?.entry.value,
        ))
    })
}

/// Returns the version of the value, which the SET that stored it returned.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entry_version(
    entry: *const sst_entry,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let version = HandleOut::<TimestampObject>::new(version, "version")?;
        version.write(TimestampObject::new(
            &handle::get::<EntryObject>(entry)?.entry.version,
        ))
    })
}

/// Returns the remaining time of the key in milliseconds, at least 1, counted from the answer of the store.
///
/// SST_FOREVER means that the key does not expire. SST_UNKNOWN_TIME means that the option `remaining` did not ask for
/// the time, that a scan used its `fallback`, or that `entry` is one of a mirror or not an entry. As `expires_in_ms` of
/// sst_set() or sst_update(), SST_FOREVER keeps the key for ever and SST_UNKNOWN_TIME is rejected with
/// SST_INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entry_expires_in_ms(entry: *const sst_entry) -> u64 {
    infallible::value(UNKNOWN, || {
        let entry = handle::get::<EntryObject>(entry)?;
        Ok(self::expires_in_ms(entry.entry.expires_in))
    })
}

/// Returns a remaining time as the header reports it.
pub(crate) fn expires_in_ms(expires_in: Expiry) -> u64 {
    match expires_in {
        Expiry::Never => FOREVER,
        Expiry::After(left) => u64::try_from(left.as_millis()).map_or(FOREVER, |ms| ms.max(1)),
        _ => UNKNOWN,
    }
}

/// Returns another handle of the same entry, to keep a borrowed one. The value is not copied.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entry_clone(entry: *const sst_entry) -> *mut sst_entry {
    infallible::value(ptr::null_mut(), || {
        handle::share::<EntryObject>(Arc::clone(&handle::get::<EntryObject>(entry)?))
    })
}

/// Frees an entry.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entry_free(entry: *mut sst_entry) {
    infallible::run(|| drop(handle::free::<EntryObject>(entry)));
}

/// The results of sst_get_many(), in the order of its keys, a page of sst_scan_entries_next_page(), or the entries of
/// sst_mirror_snapshot(). Opaque.
pub struct sst_entries;

pub(crate) enum EntriesObject {
    /// The entries of given keys.
    Results(Entries),
    /// Entries with their keys.
    Page(Vec<(Bytes, Entry)>),
}

object!(EntriesObject, sst_entries, 7, "entries");

impl EntriesObject {
    fn len(&self) -> usize {
        match self {
            Self::Results(entries) => entries.len(),
            Self::Page(page) => page.len(),
        }
    }

    /// Returns the entry at an index, or an absent key.
    fn get(&self, index: usize) -> Result<Option<EntryObject>, Error> {
        let found = match self {
            Self::Results(entries) => entries
                .get(index)
                .map(|entry| entry.clone().map(EntryObject::from)),
            Self::Page(page) => page
                .get(index)
                .map(|entry| Some(EntryObject::from(entry.clone()))),
        };
        found.ok_or_else(|| input::invalid("index", format!("it is {index} of {}", self.len())))
    }
}

/// Returns the number of results, which is the number of keys.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entries_len(entries: *const sst_entries) -> usize {
    infallible::value(0, || Ok(handle::get::<EntriesObject>(entries)?.len()))
}

/// Returns whether the results are a snapshot: all keys had them at one moment during the call.
///
/// Returns true if the store returned them in one response; see sst_get_many(). A page of a scan returns false, and so
/// do the entries of a mirror.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entries_is_snapshot(entries: *const sst_entries) -> bool {
    infallible::value(false, || {
        Ok(match &*handle::get::<EntriesObject>(entries)? {
            EntriesObject::Results(entries) => entries.is_snapshot(),
            EntriesObject::Page(_) => false,
        })
    })
}

/// Returns the entry of the key at an index; `*entry` is NULL if the key is absent.
///
/// Errors: SST_INVALID_ARGUMENT if the index is too large.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entries_at(
    entries: *const sst_entries,
    index: usize,
    entry: Option<&mut MaybeUninit<*mut sst_entry>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let to = HandleOut::<EntryObject>::new(entry, "entry")?;
        let entry = handle::get::<EntriesObject>(entries)?.get(index)?;
        output::write_optional(Some(to), entry)
    })
}

/// Frees entries. Handles from sst_entries_at() stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn sst_entries_free(entries: *mut sst_entries) {
    infallible::run(|| drop(handle::free::<EntriesObject>(entries)));
}
