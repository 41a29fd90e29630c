//! SCAN with values.
use crate::boundary;
use crate::callback::Callback;
use crate::client::sst_client;
use crate::client_object::WithClient;
use crate::completion;
use crate::entry::{EntriesObject, EntryObject, sst_entries, sst_entry};
use crate::error::sst_error;
use crate::get::sst_on_entry;
use crate::get_many::sst_on_entries;
use crate::handle::{self, object};
use crate::infallible;
use crate::input;
use crate::operation::{begin, sst_operation, wait};
use crate::output::{self, HandleOut};
use crate::scan::{self, sst_scan_options};
use crate::status::sst_status;
use statestore_embed::EntryScan;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The entries whose keys match a pattern, read page by page. Opaque.
pub struct sst_scan_entries;

type EntryScanObject = WithClient<EntryScan>;

object!(EntryScanObject, sst_scan_entries, 22, "a scan for entries");

/// Prepares a scan for keys with their values, versions and remaining times. No request is sent before the first page
/// is asked for.
///
/// The pattern is that of sst_scan_new(). The scan finds all entries that are present during the whole scan. A key that
/// is set or deleted meanwhile may be found or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_scan_entries_new(
    client: *const sst_client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_scan_options,
    scan: Option<&mut MaybeUninit<*mut sst_scan_entries>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let scan = output::init_failed(scan);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<EntryScanObject>::new(scan, "scan")?;
        // SAFETY: the header asks for NULL or `pattern_len` bytes, and for a struct with its size.
        let (pattern, options) = unsafe {
            (
                input::bytes(pattern, pattern_len, "pattern")?,
                scan::options(options)?,
            )
        };
        to.write(EntryScanObject::new(
            client.scan_entries(pattern, options)?,
            client,
        ))
    })
}

/// Returns the next page, for sst_entries_at(). It may be empty although others follow; `*entries` is NULL after the
/// last one.
///
/// sst_entry_key() returns the key of each entry. After an error the same page can be asked for again.
///
/// Thread: any; pages asked for at the same time arrive one after the other. Blocks: until the answer, at most for the
/// time-out. Errors: SST_UNSUPPORTED if the store returns no values of a scan, unless the options have `fallback`;
/// SST_UNKNOWN_COMMAND from a store that does not know SCAN.
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_entries_next_page(
    scan: *const sst_scan_entries,
    entries: Option<&mut MaybeUninit<*mut sst_entries>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let entries = output::init_failed(entries);
    boundary::with_object::<EntryScanObject>(error, scan, |scan, client| {
        let to = HandleOut::<EntriesObject>::new(entries, "entries")?;
        client.core()?;
        let page = wait(client, "scanning", scan.inner.next_page())?;
        output::write_optional(Some(to), page.map(EntriesObject::Page))
    })
}

/// Begins sst_scan_entries_next_page(). The callback receives NULL after the last page.
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_entries_next_page_async(
    scan: *const sst_scan_entries,
    callback: sst_on_entries,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<EntryScanObject>(error, scan, |scan, client| {
        begin(
            client,
            "scanning",
            scan.inner.fetch_page(),
            callback,
            operation,
            // A result that is not taken, since the callback was revoked, stays available for the next call.
            |callback, fetched| {
                completion::lend(
                    callback,
                    fetched.map(|fetched| fetched.page().map(EntriesObject::Page)),
                );
            },
        )
    })
}

/// Returns the next entry; `*entry` is NULL after the last one. sst_entry_key() returns its key.
///
/// Thread: any; entries asked for at the same time arrive one after the other. Blocks: until there is one; the time-out
/// is for each page. Errors: as sst_scan_entries_next_page().
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_entries_next(
    scan: *const sst_scan_entries,
    entry: Option<&mut MaybeUninit<*mut sst_entry>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let entry = output::init_failed(entry);
    boundary::with_object::<EntryScanObject>(error, scan, |scan, client| {
        let to = HandleOut::<EntryObject>::new(entry, "entry")?;
        client.core()?;
        let next = wait(client, "scanning", scan.inner.next())?;
        output::write_optional(Some(to), next.map(EntryObject::from))
    })
}

/// Begins sst_scan_entries_next(). The callback receives NULL after the last entry.
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_entries_next_async(
    scan: *const sst_scan_entries,
    callback: sst_on_entry,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<EntryScanObject>(error, scan, |scan, client| {
        begin(
            client,
            "scanning",
            scan.inner.fetch(),
            callback,
            operation,
            |callback, fetched| {
                completion::lend(
                    callback,
                    fetched.map(|fetched| fetched.item().map(EntryObject::from)),
                );
            },
        )
    })
}

/// Frees a scan for entries.
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_entries_free(scan: *mut sst_scan_entries) {
    infallible::run(|| drop(handle::free::<EntryScanObject>(scan)));
}
