//! Locks: waiting for a lease.
use crate::boundary;
use crate::callback::Callback;
use crate::client::sst_client;
use crate::error::sst_error;
use crate::guard::{self, GuardObject, sst_guard, sst_on_guard};
use crate::input::{self, delay, sized};
use crate::lease::{self, sst_lease_options};
use crate::operation::{begin, event, sst_operation, wait_for_event};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::LockOptions;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Options of sst_lock() and sst_election_new().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_lock_options {
    pub size: usize,
    /// Options of the lease behind the lock (default: the defaults of a lease). Borrowed for the call.
    pub lease: *const sst_lease_options,
    /// Maximum time to wait for the lock (default: SST_FOREVER).
    pub wait_ms: u64,
    /// Not zero: makes one attempt, within the time-out of the lease's options. `wait_ms` must be zero then.
    pub once: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(sst_lock_options, reserved: u32);

/// Reads the name of a lock or an election, and its options.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
pub(crate) unsafe fn read<'a>(
    name: *const c_void,
    name_len: usize,
    options: *const sst_lock_options,
) -> Result<(&'a [u8], LockOptions), Error> {
    // SAFETY: by the contract.
    unsafe {
        Ok((
            input::bytes(name, name_len, "name")?,
            self::options(options)?,
        ))
    }
}

/// # Safety As [`input::options`] asks, with a lease as [`lease::options`] asks.
unsafe fn options(given: *const sst_lock_options) -> Result<LockOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    // SAFETY: by the contract.
    let lease = unsafe { lease::options(given.lease) }?;
    let wait = delay(given.wait_ms, "wait_ms")?;
    let is_once = given.once != 0;
    if is_once && given.wait_ms != 0 {
        let reason = "one attempt does not wait; leave one of both zero";
        return Err(input::invalid("wait_ms", reason));
    }
    Ok(LockOptions::new()
        .lease(lease)
        .wait(if is_once { Some(Duration::ZERO) } else { wait }))
}

/// Takes a lock, and waits for it as long as the options say. The name of the lock is a key of the store. Freeing the
/// guard releases the lock.
///
/// Blocks: until the lock is taken, or the time to wait is over. Errors: SST_LOCK_HELD if another client still holds
/// it, SST_NOT_A_LOCK if the key holds something else. A lost connection is not an error while there is time to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_lock(
    client: *const sst_client,
    name: *const c_void,
    name_len: usize,
    options: *const sst_lock_options,
    guard: Option<&mut MaybeUninit<*mut sst_guard>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let guard = output::init_failed(guard);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<GuardObject>::new(guard, "guard")?;
        // SAFETY: the header asks for NULL or `name_len` bytes, and for a struct with its size.
        let (name, options) = unsafe { read(name, name_len, options) }?;
        let lock = client.lock(Bytes::copy_from_slice(name), options);
        let guard = wait_for_event(client, "locking", lock, None)?;
        to.write(GuardObject::new(guard, client))
    })
}

/// Begins sst_lock(). Cancelling the operation stops the wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_lock_async(
    client: *const sst_client,
    name: *const c_void,
    name_len: usize,
    options: *const sst_lock_options,
    callback: sst_on_guard,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `name_len` bytes, and for a struct with its size.
        let (name, options) = unsafe { read(name, name_len, options) }?;
        let lock = client.lock(Bytes::copy_from_slice(name), options);
        begin(
            client,
            event("locking"),
            lock,
            callback,
            operation,
            guard::report(client),
        )
    })
}
