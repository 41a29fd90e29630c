//! Mirrors: local copies of all entries whose keys match a pattern.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::{self, sst_client, sst_on_done};
use crate::client_object::ClientObject;
use crate::completion;
use crate::entry::{EntriesObject, EntryObject, sst_entries, sst_entry};
use crate::error::{self, sst_error};
use crate::handle::{self, object};
use crate::infallible;
use crate::input::{self, FOREVER, UNKNOWN, deadline, delay, milliseconds, sized};
use crate::observer::{ObserverObject, ObserverStream, sst_observer};
use crate::operation::{begin, event, sst_operation, wait, wait_for_event};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::MirrorOptions;
use statestore_embed::{Client, Error, Mirror};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

const SYNCED: &str = "waiting for a mirror";

/// A local copy of all entries whose keys match a pattern, which follows the store. Opaque.
///
/// Reads send no request. After its end the mirror keeps its last state.
pub struct sst_mirror;

object!(Mirror, sst_mirror, 23, "a mirror");

impl ClientObject for Mirror {
    fn client(&self) -> &Client {
        Self::client(self)
    }
}

/// Options of sst_mirror_new().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_mirror_options {
    pub size: usize,
    /// Maximum number of keys (default: 1,000,000). With more keys the mirror ends with SST_TOO_LARGE.
    pub max_keys: usize,
    /// Maximum size of all keys and values, in bytes (default: 256 MiB). Beyond that the mirror ends with
    /// SST_TOO_LARGE.
    pub max_bytes: usize,
    /// Time limit for the store to begin the watch (default: the request time-out of the settings).
    pub timeout_ms: u64,
    /// Interval at which the library scans for new keys on a store that does not watch patterns (default: 10,000;
    /// SST_FOREVER: never, so that such a store makes the call return SST_UNSUPPORTED).
    pub refresh_ms: u64,
}

sized!(sst_mirror_options, refresh_ms: u64);

/// # Safety As [`input::options`] asks.
unsafe fn options(given: *const sst_mirror_options) -> Result<MirrorOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    let mut options = MirrorOptions::new().timeout(milliseconds(given.timeout_ms, "timeout_ms")?);
    let refresh = delay(given.refresh_ms, "refresh_ms")?;
    if given.refresh_ms > 0 {
        options = options.refresh(refresh);
    }
    if given.max_keys > 0 {
        options = options.max_keys(given.max_keys);
    }
    if given.max_bytes > 0 {
        options = options.max_bytes(given.max_bytes);
    }
    Ok(options)
}

/// Callback that receives a new mirror.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_mirror {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            mirror: *mut sst_mirror,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_mirror,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut sst_mirror)
);

/// Returns the future of the mirror, for both the blocking call and the operation.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
unsafe fn mirror(
    client: &Client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_mirror_options,
) -> Result<impl Future<Output = Result<Mirror, Error>> + Send + 'static + use<>, Error> {
    // SAFETY: by the contract.
    let (pattern, options) = unsafe {
        (
            input::bytes(pattern, pattern_len, "pattern")?,
            self::options(options)?,
        )
    };
    Ok(client.mirror(Bytes::copy_from_slice(pattern), options))
}

/// Mirrors all entries whose keys match a pattern: keeps a copy of them, which follows every change. The pattern is
/// that of sst_scan_new(). The mirror is empty at first; sst_mirror_synced() waits until it has all entries.
///
/// The mirror follows the store as sst_observe_matching() does, also on a store that does not watch patterns. While the
/// connection is lost, the mirror keeps its last state, and sst_mirror_stale_for_ms() returns for how long.
///
/// Blocks: until the store has begun the watch, at most for the time-out. Errors: SST_UNSUPPORTED from a store without
/// such watches and without SCAN. Later errors end the mirror.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_mirror_new(
    client: *const sst_client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_mirror_options,
    mirror: Option<&mut MaybeUninit<*mut sst_mirror>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let mirror = output::init_failed(mirror);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<Mirror>::new(mirror, "mirror")?;
        // SAFETY: the header asks for NULL or `pattern_len` bytes, and for a struct with its size.
        let mirror = unsafe { self::mirror(client, pattern, pattern_len, options) }?;
        to.write(wait(client, "mirroring", mirror)?)
    })
}

/// Begins sst_mirror_new().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_mirror_new_async(
    client: *const sst_client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_mirror_options,
    callback: sst_on_mirror,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `pattern_len` bytes, and for a struct with its size.
        let mirror = unsafe { self::mirror(client, pattern, pattern_len, options) }?;
        begin(
            client,
            "mirroring",
            mirror,
            callback,
            operation,
            completion::pass,
        )
    })
}

/// Returns the entry of a key; `*entry` is NULL if the key is absent. No request is sent.
///
/// The remaining time of the entry is unknown, and sst_entry_key() returns no bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_mirror_get(
    mirror: *const sst_mirror,
    key: *const c_void,
    key_len: usize,
    entry: Option<&mut MaybeUninit<*mut sst_entry>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let entry = output::init_failed(entry);
    boundary::status(error, || {
        let to = HandleOut::<EntryObject>::new(entry, "entry")?;
        let mirror = handle::get::<Mirror>(mirror)?;
        // SAFETY: the header asks for NULL or `key_len` bytes.
        let key = unsafe { input::bytes(key, key_len, "key") }?;
        output::write_optional(Some(to), mirror.get(key)?.map(EntryObject::from))
    })
}

/// Returns the number of entries.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_len(mirror: *const sst_mirror) -> usize {
    infallible::value(0, || handle::get::<Mirror>(mirror)?.count())
}

/// Returns all entries of one moment, in any order. They do not change, and the values are not copied.
///
/// sst_entry_key() returns the key of each. No request is sent.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_snapshot(
    mirror: *const sst_mirror,
    entries: Option<&mut MaybeUninit<*mut sst_entries>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let entries = output::init_failed(entries);
    boundary::status(error, || {
        let to = HandleOut::<EntriesObject>::new(entries, "entries")?;
        let snapshot = handle::get::<Mirror>(mirror)?.snapshot()?;
        to.write(EntriesObject::Page(snapshot))
    })
}

/// Waits until the mirror has the state of the store: all entries at first, and all differences after a gap.
///
/// Blocks: at most for the time-out. Errors: SST_TIMED_OUT, or the error that ended the mirror, which is SST_CLOSED
/// after sst_mirror_close() and the end of the client.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_synced(
    mirror: *const sst_mirror,
    timeout_ms: u64,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_object::<Mirror>(error, mirror, |mirror, client| {
        let until = deadline(timeout_ms)?;
        wait_for_event(client, SYNCED, mirror.synced(), until)
    })
}

/// Begins sst_mirror_synced(), without a limit.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_synced_async(
    mirror: *const sst_mirror,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<Mirror>(error, mirror, |mirror, client| {
        begin(
            client,
            event(SYNCED),
            mirror.synced(),
            callback,
            operation,
            client::report_done,
        )
    })
}

/// Returns whether the mirror follows every change of the store now. sst_mirror_stale_for_ms() returns 0 then.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_is_current(mirror: *const sst_mirror) -> bool {
    infallible::value(false, || {
        Ok(handle::get::<Mirror>(mirror)?.stale_for()?.is_none())
    })
}

/// Returns for how long the mirror may have differed from the store, in milliseconds, at least 1; 0 while it follows
/// every change.
///
/// It may differ until it is first synced, while the connection is lost, until the differences after a gap have
/// arrived, and after its end. SST_UNKNOWN_TIME means that the handle is not a mirror.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_stale_for_ms(mirror: *const sst_mirror) -> u64 {
    infallible::value(UNKNOWN, || {
        let stale = handle::get::<Mirror>(mirror)?.stale_for()?;
        Ok(stale.map_or(0, |time| {
            u64::try_from(time.as_millis()).map_or(FOREVER, |ms| ms.max(1))
        }))
    })
}

/// Returns an observer of every change of the mirror from now on. To get the state before too, call this first and
/// sst_mirror_snapshot() then.
///
/// The observations are those of sst_observe_matching(). The observer keeps the mirror, and ends with it. For a slow
/// reader only the newest state of each key is kept. The observer ends with SST_TOO_LARGE if changes of more than twice
/// `max_keys` keys wait.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_changes(
    mirror: *const sst_mirror,
    observer: Option<&mut MaybeUninit<*mut sst_observer>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let observer = output::init_failed(observer);
    boundary::status(error, || {
        let to = HandleOut::<ObserverObject>::new(observer, "observer")?;
        let changes = handle::get::<Mirror>(mirror)?.changes()?;
        to.write(ObserverObject::new(ObserverStream::Pattern(changes)))
    })
}

/// Returns the error that ended the mirror; NULL while it continues, and if the mirror or the client was closed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_error(mirror: *const sst_mirror) -> *mut sst_error {
    infallible::value(ptr::null_mut(), || {
        let mirror = handle::get::<Mirror>(mirror)?;
        let lost_reason = mirror.lost_reason()?;
        let end = mirror.error()?;
        Ok(end.map_or(ptr::null_mut(), |end| error::new(&end, lost_reason)))
    })
}

/// Ends a mirror and its observers. The last state can still be read. Closing again does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_close(
    mirror: *const sst_mirror,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || handle::get::<Mirror>(mirror)?.close())
}

/// Frees a mirror. The mirror ends with the last of its observers.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_free(mirror: *mut sst_mirror) {
    infallible::run(|| drop(handle::free::<Mirror>(mirror)));
}
