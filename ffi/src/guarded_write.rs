//! Writes under a lease: with its fencing token, and only while the lease is certainly held.
use crate::boundary;
use crate::callback::Callback;
use crate::del::{self, sst_del_options, sst_del_result, sst_on_del};
use crate::error::sst_error;
use crate::guard::{GuardObject, sst_guard};
use crate::hlc::sst_hlc;
use crate::operation::{begin, sst_operation, wait};
use crate::outcome::{self, ResultOut};
use crate::output;
use crate::set::{self, sst_on_set, sst_set_options, sst_set_result};
use crate::status::sst_status;
use crate::vdel;
use bytes::Bytes;
use statestore_core::{DelOutcome, SetOutcome, VdelOutcome};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

const ACTION: &str = "writing under the lease";

/// Returns the future of the SET, for both the blocking call and the operation.
///
/// # Safety As [`set::read`] asks.
unsafe fn set(
    guard: &GuardObject,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_set_options,
) -> Result<impl Future<Output = Result<SetOutcome, Error>> + Send + 'static + use<>, Error> {
    // SAFETY: by the contract.
    let (key, value, options) = unsafe { set::read(key, key_len, value, value_len, options) }?;
    let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
    Ok(guard.inner.set(key, value, options))
}

/// Returns the future of the DEL, for both the blocking call and the operation.
///
/// # Safety As [`del::read`] asks.
unsafe fn del(
    guard: &GuardObject,
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
) -> Result<impl Future<Output = Result<DelOutcome, Error>> + Send + 'static + use<>, Error> {
    // SAFETY: by the contract.
    let (key, options) = unsafe { del::read(key, key_len, options) }?;
    Ok(guard.inner.del(Bytes::copy_from_slice(key), options))
}

/// Returns the future of the VDEL, for both the blocking call and the operation.
///
/// # Safety As [`vdel::read`] asks.
unsafe fn vdel(
    guard: &GuardObject,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_del_options,
) -> Result<impl Future<Output = Result<VdelOutcome, Error>> + Send + 'static + use<>, Error> {
    // SAFETY: by the contract.
    let (key, value, options) = unsafe { vdel::read(key, key_len, value, value_len, options) }?;
    let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
    Ok(guard.inner.vdel(key, value, options))
}

/// Stores a value and protects the key: from now on, writes and deletions need this guard's token or a higher one.
///
/// The options must not have a fencing token. `*version` is the same as for sst_set().
///
/// Blocks: until the answer, at most for the time-out, and not longer than the lease is certain. Errors: SST_LOCK_LOST
/// if the lease is not certainly held any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_set(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_set_options,
    result: Option<&mut MaybeUninit<sst_set_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let write = unsafe { self::set(&guard, key, key_len, value, value_len, options) }?;
        results.write(&wait(client, ACTION, write)?)
    })
}

/// Begins sst_guard_set().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_set_async(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_set_options,
    callback: sst_on_set,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let write = unsafe { self::set(&guard, key, key_len, value, value_len, options) }?;
        begin(
            client,
            ACTION,
            write,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}

/// Deletes a key together with its protection. The options must not have a fencing token. `*version` is the same as for
/// sst_del().
///
/// Blocks: until the answer, at most for the time-out, and not longer than the lease is certain. Errors: SST_LOCK_LOST
/// if the lease is not certainly held any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_del(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
    result: Option<&mut MaybeUninit<sst_del_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let write = unsafe { self::del(&guard, key, key_len, options) }?;
        results.write(&wait(client, ACTION, write)?)
    })
}

/// Begins sst_guard_del().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_del_async(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
    callback: sst_on_del,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let write = unsafe { self::del(&guard, key, key_len, options) }?;
        begin(
            client,
            ACTION,
            write,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}

/// Deletes a key together with its protection, if the key holds this value. The options must not have a fencing token.
/// `*version` is the same as for sst_vdel().
///
/// Blocks: until the answer, at most for the time-out, and not longer than the lease is certain. Errors: SST_LOCK_LOST
/// if the lease is not certainly held any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_vdel(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_del_options,
    result: Option<&mut MaybeUninit<sst_del_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let write = unsafe { self::vdel(&guard, key, key_len, value, value_len, options) }?;
        results.write(&wait(client, ACTION, write)?)
    })
}

/// Begins sst_guard_vdel().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_vdel_async(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_del_options,
    callback: sst_on_del,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let write = unsafe { self::vdel(&guard, key, key_len, value, value_len, options) }?;
        begin(
            client,
            ACTION,
            write,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}
