//! A new expiry of a key.
use crate::boundary;
use crate::callback::Callback;
use crate::client::sst_client;
use crate::completion;
use crate::error::sst_error;
use crate::exists::sst_on_presence;
use crate::input;
use crate::operation::{begin, sst_operation, wait};
use crate::output;
use crate::status::sst_status;
use crate::update::{self, UPDATING, sst_update_options};
use bytes::Bytes;
use statestore_core::UpdateOptions;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Reads the arguments of a touch.
///
/// # Safety As [`update::read`] asks.
unsafe fn read<'a>(
    key: *const c_void,
    key_len: usize,
    expires_in_ms: u64,
    options: *const sst_update_options,
) -> Result<(&'a [u8], Duration, UpdateOptions), Error> {
    let Some(expires_in) = update::lifetime(expires_in_ms)? else {
        let reason = "it is 0; use SST_FOREVER for a key that does not expire";
        return Err(input::invalid("expires_in_ms", reason));
    };
    // SAFETY: by the contract.
    let (key, options) = unsafe { update::read(key, key_len, options) }?;
    Ok((key, expires_in, options))
}

/// Sets the time in milliseconds after which a key expires, at least 100; SST_FOREVER for never.
///
/// This is an sst_update() that keeps the value: the key gets a new version, and observers get a change. The limits of
/// sst_update() apply. `*is_present` is false if the key is absent. `expires_in_ms` of the options must be 0.
///
/// Blocks: until it is done, at most for the time-out. NULL: `is_present`. Errors: those of sst_update().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_touch(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    expires_in_ms: u64,
    options: *const sst_update_options,
    is_present: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let is_present = output::init_failed(is_present);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, expires_in, options) = unsafe { read(key, key_len, expires_in_ms, options) }?;
        let touch = client.core()?.touch_with(key, expires_in, &options);
        let was_present = wait(client, UPDATING, touch)?;
        if let Some(is_present) = is_present {
            is_present.write(was_present);
        }
        Ok(())
    })
}

/// Begins sst_touch().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_touch_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    expires_in_ms: u64,
    options: *const sst_update_options,
    callback: sst_on_presence,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, expires_in, options) = unsafe { read(key, key_len, expires_in_ms, options) }?;
        let touch = client.touch(Bytes::copy_from_slice(key), expires_in, options);
        begin(
            client,
            UPDATING,
            touch,
            callback,
            operation,
            completion::report_value,
        )
    })
}
