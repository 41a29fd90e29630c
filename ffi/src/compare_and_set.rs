//! Compare-and-set: replaces an expected value.
use crate::boundary;
use crate::bytes::sst_slice;
use crate::callback::Callback;
use crate::client::sst_client;
use crate::error::sst_error;
use crate::hlc::sst_hlc;
use crate::input;
use crate::operation::{begin, sst_operation, wait};
use crate::outcome::{self, ResultOut};
use crate::output;
use crate::status::sst_status;
use crate::update::{self, sst_on_update, sst_update_options, sst_update_result};
use bytes::Bytes;
use statestore_core::{Entry, UpdateOutcome};
use statestore_embed::{Client, Error};
use std::ffi::c_void;
use std::future::ready;
use std::mem::MaybeUninit;

/// # Safety `expected` is NULL or points to a slice as [`input::bytes`] asks for.
unsafe fn expected(expected: *const sst_slice) -> Result<Option<Bytes>, Error> {
    if expected.is_null() {
        return Ok(None);
    }
    // SAFETY: by the contract.
    let bytes = unsafe {
        let slice = expected.read();
        input::bytes(slice.data, slice.len, "expected")
    }?;
    Ok(Some(Bytes::copy_from_slice(bytes)))
}

/// Returns the future of the replacement, for both the blocking call and the operation.
///
/// # Safety As [`input::key_value`], [`expected`] and [`update::options`] ask.
unsafe fn replace(
    client: &Client,
    key: *const c_void,
    key_len: usize,
    expected: *const sst_slice,
    value: *const c_void,
    value_len: usize,
    options: *const sst_update_options,
) -> Result<impl Future<Output = Result<UpdateOutcome, Error>> + Send + 'static + use<>, Error> {
    // SAFETY: by the contract.
    let (key, value) = unsafe { input::key_value(key, key_len, value, value_len) }?;
    // SAFETY: by the contract.
    let (expected, options) = unsafe { (self::expected(expected)?, update::options(options)?) };
    let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
    Ok(client.update(key, options, move |old: Option<Entry>| {
        let is_expected = old.map(|old| old.value) == expected;
        ready(is_expected.then(|| value.clone()))
    }))
}

/// Replaces the value of a key if the key holds the expected value. NULL for `expected` means that the key must be
/// absent.
///
/// This is sst_update() without a callback. `*version` is the version of the new value, or NULL if nothing changed.
///
/// Blocks: until it is done, at most for the time-out. Errors: as sst_update().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_compare_and_set(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    expected: *const sst_slice,
    value: *const c_void,
    value_len: usize,
    options: *const sst_update_options,
    result: Option<&mut MaybeUninit<sst_update_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, for NULL or a slice, and for a struct with its
        // size.
        let replace =
            unsafe { replace(client, key, key_len, expected, value, value_len, options) }?;
        results.write(&wait(client, "replacing", replace)?)
    })
}

/// Begins sst_compare_and_set().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_compare_and_set_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    expected: *const sst_slice,
    value: *const c_void,
    value_len: usize,
    options: *const sst_update_options,
    callback: sst_on_update,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, for NULL or a slice, and for a struct with its
        // size.
        let replace =
            unsafe { replace(client, key, key_len, expected, value, value_len, options) }?;
        begin(
            client,
            "replacing",
            replace,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}
