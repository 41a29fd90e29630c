//! GET.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::entry::{EntryObject, sst_entry};
use crate::error::sst_error;
use crate::input::{self, milliseconds, sized};
use crate::operation::{begin, sst_operation, wait};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::GetOptions;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Options of sst_get(), sst_get_many(), sst_exists() and sst_ttl().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_get_options {
    pub size: usize,
    /// Time limit of the request (default: that of the settings).
    pub timeout_ms: u64,
    /// Not zero: asks for the remaining time of the key, for sst_entry_expires_in_ms(). A store that cannot report it
    /// makes the call return SST_UNSUPPORTED; see sst_client_capabilities().
    pub remaining: u32,
    /// Not zero: the answer may be a value that the key held a moment ago. Where several servers share the entries,
    /// this saves the server a round trip to them. Other stores answer with the present value; see
    /// sst_client_capabilities().
    pub eventual: u32,
}

sized!(sst_get_options, eventual: u32);

/// # Safety As [`input::options`] asks.
pub(crate) unsafe fn options(given: *const sst_get_options) -> Result<GetOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    Ok(GetOptions::new()
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?)
        .remaining(given.remaining != 0)
        .eventual(given.eventual != 0))
}

/// Reads the arguments of a GET.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
pub(crate) unsafe fn read<'a>(
    key: *const c_void,
    key_len: usize,
    options: *const sst_get_options,
) -> Result<(&'a [u8], GetOptions), Error> {
    // SAFETY: by the contract.
    unsafe { Ok((input::bytes(key, key_len, "key")?, self::options(options)?)) }
}

/// Callback that receives the result of a GET, or an entry of a scan.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_entry {
    pub context: *mut c_void,
    /// `entry` is NULL if the key is absent, and after the last entry of a scan.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            entry: *const sst_entry,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_entry,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_entry)
);

/// Reads a key. `*entry` is NULL if the key is absent.
///
/// Blocks: until the answer, at most for the time-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_get(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_get_options,
    entry: Option<&mut MaybeUninit<*mut sst_entry>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let entry = output::init_failed(entry);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<EntryObject>::new(entry, "entry")?;
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { read(key, key_len, options) }?;
        match wait(client, "getting", client.core()?.get_with(key, &options))? {
            Some(entry) => to.write(EntryObject::from(entry)),
            None => Ok(()),
        }
    })
}

/// Begins sst_get().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_get_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_get_options,
    callback: sst_on_entry,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { read(key, key_len, options) }?;
        let get = client.get(Bytes::copy_from_slice(key), options);
        begin(
            client,
            "getting",
            get,
            callback,
            operation,
            |callback, result| {
                completion::lend(callback, result.map(|entry| entry.map(EntryObject::from)));
            },
        )
    })
}
