//! Presence and remaining time of a key.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::entry;
use crate::error::sst_error;
use crate::get::{self, sst_get_options};
use crate::operation::{begin, sst_operation, wait};
use crate::output;
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::Expiry;
use std::ffi::c_void;
use std::mem::MaybeUninit;

const GETTING: &str = "getting";

/// Callback that receives whether a key exists.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_presence {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            is_present: bool,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_presence,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, bool)
);

/// Callback that receives the remaining time of a key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_ttl {
    pub context: *mut c_void,
    /// `expires_in_ms` is as of sst_ttl().
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            expires_in_ms: u64,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_ttl,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, u64)
);

/// Returns the remaining time as the header reports it.
fn expires_in_ms(found: Option<Expiry>) -> u64 {
    found.map_or(0, entry::expires_in_ms)
}

/// Returns whether a key exists. The store sends the value too, as for sst_get().
///
/// Blocks: until the answer, at most for the time-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_exists(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_get_options,
    is_present: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let is_present = output::init_failed(is_present);
    boundary::with_client(error, client, |client| {
        let is_present = output::init_with(is_present, false, "is_present")?;
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { get::read(key, key_len, options) }?;
        *is_present = wait(client, GETTING, client.core()?.exists_with(key, &options))?;
        Ok(())
    })
}

/// Begins sst_exists().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_exists_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_get_options,
    callback: sst_on_presence,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { get::read(key, key_len, options) }?;
        let exists = client.exists(Bytes::copy_from_slice(key), options);
        begin(
            client,
            GETTING,
            exists,
            callback,
            operation,
            completion::report_value,
        )
    })
}

/// Returns the remaining time of a key in milliseconds: at least 1, SST_FOREVER if the key does not expire, and 0 if it
/// is absent. The store sends the value too, as for sst_get().
///
/// Blocks: until the answer, at most for the time-out. Errors: SST_UNSUPPORTED from a store that cannot report the
/// time; see sst_client_capabilities().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_ttl(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_get_options,
    expires_in_ms: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let expires_in_ms = output::init_failed(expires_in_ms);
    boundary::with_client(error, client, |client| {
        let expires_in_ms = output::init_with(expires_in_ms, 0, "expires_in_ms")?;
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { get::read(key, key_len, options) }?;
        let found = wait(client, GETTING, client.core()?.ttl_with(key, &options))?;
        *expires_in_ms = self::expires_in_ms(found);
        Ok(())
    })
}

/// Begins sst_ttl().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_ttl_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_get_options,
    callback: sst_on_ttl,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { get::read(key, key_len, options) }?;
        let ttl = client.ttl(Bytes::copy_from_slice(key), options);
        begin(
            client,
            GETTING,
            ttl,
            callback,
            operation,
            |callback, result| completion::report_value(callback, result.map(expires_in_ms)),
        )
    })
}
