//! SCAN.
use crate::boundary;
use crate::bytes::{BytesObject, KeysObject, sst_bytes, sst_keys};
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::client_object::WithClient;
use crate::completion;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::input::{self, milliseconds, sized};
use crate::operation::{begin, sst_operation, wait};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use statestore_core::ScanOptions;
use statestore_embed::{Error, Scan};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The keys that match a pattern, read page by page. Opaque.
pub struct sst_scan;

type ScanObject = WithClient<Scan>;

object!(ScanObject, sst_scan, 9, "a scan");

/// Options of sst_scan_new() and sst_scan_entries_new().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_scan_options {
    pub size: usize,
    /// Time limit of the request for each page (default: that of the settings).
    pub timeout_ms: u64,
    /// Not zero: if the store returns no values of a scan, sst_scan_entries_new() reads each page with sst_get_many().
    /// The remaining times are unknown then. Without this option, the pages return SST_UNSUPPORTED on such a store; see
    /// sst_client_capabilities().
    pub fallback: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(sst_scan_options, reserved: u32);

/// # Safety As [`input::options`] asks.
pub(crate) unsafe fn options(given: *const sst_scan_options) -> Result<ScanOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    Ok(ScanOptions::new()
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?)
        .fallback(given.fallback != 0))
}

/// Callback that receives a page of keys.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_keys {
    pub context: *mut c_void,
    /// `keys` is NULL after the last page.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            keys: *const sst_keys,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_keys,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_keys)
);

/// Callback that receives a key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_bytes {
    pub context: *mut c_void,
    /// `bytes` is NULL after the last key.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            bytes: *const sst_bytes,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_bytes,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_bytes)
);

/// Prepares a scan for keys. No request is sent before the first page is asked for.
///
/// The pattern is a glob: `*`, `?`, `[ab]`, `[0-9]`, `[!x]`, and `[*]` for a star. The scan finds all keys that are
/// present during the whole scan. A key that is set or deleted meanwhile may be found or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_scan_new(
    client: *const sst_client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_scan_options,
    scan: Option<&mut MaybeUninit<*mut sst_scan>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let scan = output::init_failed(scan);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<ScanObject>::new(scan, "scan")?;
        // SAFETY: the header asks for NULL or `pattern_len` bytes, and for a struct with its size.
        let (pattern, options) = unsafe {
            (
                input::bytes(pattern, pattern_len, "pattern")?,
                self::options(options)?,
            )
        };
        to.write(ScanObject::new(client.scan(pattern, options)?, client))
    })
}

/// Returns the next page. It may be empty although others follow; `*keys` is NULL after the last one.
///
/// After an error the same page can be asked for again.
///
/// Thread: any; pages asked for at the same time arrive one after the other. Blocks: until the answer, at most for the
/// time-out. Errors: SST_UNKNOWN_COMMAND from a store that does not know SCAN.
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_next_page(
    scan: *const sst_scan,
    keys: Option<&mut MaybeUninit<*mut sst_keys>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let keys = output::init_failed(keys);
    boundary::with_object::<ScanObject>(error, scan, |scan, client| {
        let to = HandleOut::<KeysObject>::new(keys, "keys")?;
        client.core()?;
        let next = scan.inner.next_page();
        output::write_optional(Some(to), wait(client, "scanning", next)?.map(KeysObject))
    })
}

/// Begins sst_scan_next_page().
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_next_page_async(
    scan: *const sst_scan,
    callback: sst_on_keys,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<ScanObject>(error, scan, |scan, client| {
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
                    fetched.map(|fetched| fetched.page().map(KeysObject)),
                );
            },
        )
    })
}

/// Returns the next key; `*key` is NULL after the last one.
///
/// Thread: any; keys asked for at the same time arrive one after the other. Blocks: until there is one; the time-out is
/// for each page. Errors: as sst_scan_next_page().
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_next(
    scan: *const sst_scan,
    key: Option<&mut MaybeUninit<*mut sst_bytes>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let key = output::init_failed(key);
    boundary::with_object::<ScanObject>(error, scan, |scan, client| {
        let to = HandleOut::<BytesObject>::new(key, "key")?;
        client.core()?;
        let next = scan.inner.next();
        output::write_optional(Some(to), wait(client, "scanning", next)?.map(BytesObject))
    })
}

/// Begins sst_scan_next().
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_next_async(
    scan: *const sst_scan,
    callback: sst_on_bytes,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<ScanObject>(error, scan, |scan, client| {
        begin(
            client,
            "scanning",
            scan.inner.fetch(),
            callback,
            operation,
            |callback, fetched| {
                completion::lend(
                    callback,
                    fetched.map(|fetched| fetched.item().map(BytesObject)),
                );
            },
        )
    })
}

/// Frees a scan.
#[unsafe(no_mangle)]
pub extern "C" fn sst_scan_free(scan: *mut sst_scan) {
    infallible::run(|| drop(handle::free::<ScanObject>(scan)));
}
