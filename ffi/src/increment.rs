//! Counters: values that are decimal numbers.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::error::sst_error;
use crate::operation::{begin, sst_operation, wait};
use crate::output;
use crate::status::sst_status;
use crate::update::{self, UPDATING, sst_update_options};
use bytes::Bytes;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Callback that receives a number.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_number {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            number: i64,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_number,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, i64)
);

/// Adds `by` to the number that a key holds. `*number` is the sum. An absent key counts as 0.
///
/// The value is a decimal number in ASCII, as in Redis: digits, after `-` for a negative number, without blanks, `+`
/// and leading zeros. This is an sst_update(), with its options and limits: the key keeps its remaining time.
///
/// Blocks: until it is done, at most for the time-out. NULL: `number`. Errors: those of sst_update();
/// SST_INVALID_ARGUMENT if the value is no such number or the sum does not fit into 64 bits, and nothing is written
/// then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_incr(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    by: i64,
    options: *const sst_update_options,
    number: Option<&mut MaybeUninit<i64>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let number = output::init_failed(number);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { update::read(key, key_len, options) }?;
        let sum = wait(
            client,
            UPDATING,
            client.core()?.incr_with(key, by, &options),
        )?;
        if let Some(number) = number {
            number.write(sum);
        }
        Ok(())
    })
}

/// Begins sst_incr().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_incr_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    by: i64,
    options: *const sst_update_options,
    callback: sst_on_number,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { update::read(key, key_len, options) }?;
        let incr = client.incr(Bytes::copy_from_slice(key), by, options);
        begin(
            client,
            UPDATING,
            incr,
            callback,
            operation,
            completion::report_value,
        )
    })
}
