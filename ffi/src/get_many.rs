//! Several keys read in one call.
use crate::boundary;
use crate::bytes::{slices, sst_slice};
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::entry::{EntriesObject, sst_entries};
use crate::error::sst_error;
use crate::get::{self, sst_get_options};
use crate::operation::{begin, sst_operation, wait};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use bytes::Bytes;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Callback that receives the results of sst_get_many(), or a page of entries.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_entries {
    pub context: *mut c_void,
    /// `entries` is NULL after the last page of a scan.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            entries: *const sst_entries,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_entries,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_entries)
);

/// Reads several keys.
///
/// A store with `max_get_keys` returns them in one response, if the values have no more than 1 MiB together; see
/// sst_client_capabilities(). Otherwise the library sends several requests, and writes may happen in between:
/// sst_entries_is_snapshot() tells the difference. The options `remaining` and `eventual` need a GET for each key.
///
/// Blocks: until the last answer; the time-out is for each request. Errors: the first error of any request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_get_many(
    client: *const sst_client,
    keys: *const sst_slice,
    count: usize,
    options: *const sst_get_options,
    entries: Option<&mut MaybeUninit<*mut sst_entries>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let entries = output::init_failed(entries);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<EntriesObject>::new(entries, "entries")?;
        // SAFETY: the header asks for NULL or `count` slices of keys, and for a struct with its size.
        let (keys, options) = unsafe { (slices(keys, count, "keys")?, get::options(options)?) };
        let get_many = client.core()?.get_many_with(&keys, &options);
        to.write(EntriesObject::Results(wait(
            client,
            "getting keys",
            get_many,
        )?))
    })
}

/// Begins sst_get_many().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_get_many_async(
    client: *const sst_client,
    keys: *const sst_slice,
    count: usize,
    options: *const sst_get_options,
    callback: sst_on_entries,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `count` slices of keys, and for a struct with its size.
        let (keys, options) = unsafe { (slices(keys, count, "keys")?, get::options(options)?) };
        let keys = keys.into_iter().map(Bytes::copy_from_slice).collect();
        let get_many = client.get_many(keys, options);
        begin(
            client,
            "getting keys",
            get_many,
            callback,
            operation,
            |callback, result| {
                completion::lend(
                    callback,
                    result.map(|entries| Some(EntriesObject::Results(entries))),
                );
            },
        )
    })
}
