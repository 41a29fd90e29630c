//! Several SETs, or several DELs, in one call.
use crate::boundary;
use crate::bytes::{slices, sst_slice};
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::del::{self, sst_del_options};
use crate::error::sst_error;
use crate::input;
use crate::operation::{begin, sst_operation, wait};
use crate::output::{self, HandleOut};
use crate::results::{WriteResultsObject, sst_results};
use crate::set::{self, sst_set_options};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{DelOptions, SetOptions};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A key and the value to store.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sst_pair {
    /// The key.
    pub key: sst_slice,
    /// The value.
    pub value: sst_slice,
}

/// Callback that receives the results of several writes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_results {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            results: *const sst_results,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_results,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_results)
);

/// Keys and values of the caller.
type KeyValuePairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Reads the arguments of several SETs.
///
/// # Safety As [`input::elements`] and [`set::options`] ask, and for each element as [`input::key_value`] asks.
unsafe fn sets<'a>(
    pairs: *const sst_pair,
    count: usize,
    options: *const sst_set_options,
) -> Result<(KeyValuePairs<'a>, SetOptions), Error> {
    // SAFETY: by the contract.
    let pairs = unsafe { input::elements(pairs, count, "pairs") }?;
    let pair = |&sst_pair { key, value }: &sst_pair| {
        // SAFETY: by the contract.
        unsafe { input::key_value(key.data, key.len, value.data, value.len) }
    };
    let pairs: Result<_, Error> = pairs.iter().map(pair).collect();
    // SAFETY: by the contract.
    Ok((pairs?, unsafe { set::options(options) }?))
}

/// Reads the arguments of several DELs.
///
/// # Safety As [`slices`] and [`del::options`] ask.
unsafe fn dels<'a>(
    keys: *const sst_slice,
    count: usize,
    options: *const sst_del_options,
) -> Result<(Vec<&'a [u8]>, DelOptions), Error> {
    // SAFETY: by the contract.
    unsafe { Ok((slices(keys, count, "keys")?, del::options(options)?)) }
}

/// Stores several values. These are single SETs, sent in their order and without waiting for each other; they are not a
/// transaction.
///
/// Each SET is applied or fails independently, and a failure of one does not end the others. SST_OK only means that
/// there is a result for each: see sst_results_failed() and sst_results_set_at().
///
/// Blocks: until the last answer; the time-out is for each SET. Errors: no request was sent, or the outcome is unknown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_set_many(
    client: *const sst_client,
    pairs: *const sst_pair,
    count: usize,
    options: *const sst_set_options,
    results: Option<&mut MaybeUninit<*mut sst_results>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = output::init_failed(results);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<WriteResultsObject>::new(results, "results")?;
        // SAFETY: the header asks for NULL or `count` pairs, and for a struct with its size.
        let (pairs, options) = unsafe { sets(pairs, count, options) }?;
        let core = client.core()?;
        let set_many = async { Ok::<_, Error>(core.set_many_with(&pairs, &options).await) };
        to.write(WriteResultsObject::Set(wait(client, "setting", set_many)?))
    })
}

/// Begins sst_set_many().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_set_many_async(
    client: *const sst_client,
    pairs: *const sst_pair,
    count: usize,
    options: *const sst_set_options,
    callback: sst_on_results,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `count` pairs, and for a struct with its size.
        let (pairs, options) = unsafe { sets(pairs, count, options) }?;
        let pairs = pairs.into_iter();
        let pairs = pairs
            .map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
            .collect();
        let set_many = client.set_many(pairs, options);
        begin(
            client,
            "setting",
            set_many,
            callback,
            operation,
            |callback, result| {
                completion::lend(
                    callback,
                    result.map(|sets| Some(WriteResultsObject::Set(sets))),
                );
            },
        )
    })
}

/// Deletes several keys. These are single DELs; as with sst_set_many(), each has its own result.
///
/// See sst_results_failed() and sst_results_del_at().
///
/// Blocks: until the last answer; the time-out is for each DEL. Errors: no request was sent, or the outcome is unknown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_del_many(
    client: *const sst_client,
    keys: *const sst_slice,
    count: usize,
    options: *const sst_del_options,
    results: Option<&mut MaybeUninit<*mut sst_results>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = output::init_failed(results);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<WriteResultsObject>::new(results, "results")?;
        // SAFETY: the header asks for NULL or `count` slices of keys, and for a struct with its size.
        let (keys, options) = unsafe { dels(keys, count, options) }?;
        let core = client.core()?;
        let del_many = async { Ok::<_, Error>(core.del_many_with(&keys, &options).await) };
        to.write(WriteResultsObject::Del(wait(client, "deleting", del_many)?))
    })
}

/// Begins sst_del_many().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_del_many_async(
    client: *const sst_client,
    keys: *const sst_slice,
    count: usize,
    options: *const sst_del_options,
    callback: sst_on_results,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `count` slices of keys, and for a struct with its size.
        let (keys, options) = unsafe { dels(keys, count, options) }?;
        let keys = keys.into_iter().map(Bytes::copy_from_slice).collect();
        let del_many = client.del_many(keys, options);
        begin(
            client,
            "deleting",
            del_many,
            callback,
            operation,
            |callback, result| {
                completion::lend(
                    callback,
                    result.map(|dels| Some(WriteResultsObject::Del(dels))),
                );
            },
        )
    })
}
