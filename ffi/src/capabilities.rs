//! Capabilities of the store.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::error::{self, sst_error};
use crate::input::sized;
use crate::operation::{begin, sst_operation, wait};
use crate::output;
use crate::status::sst_status;
use statestore_core::Capabilities;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};
use std::ptr;

const ACTION: &str = "asking what the store can do";

/// Optional capabilities of a store, beyond the protocol that every store supports.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sst_capabilities {
    pub size: usize,
    /// Not zero: SET, DEL and VDEL take `if_version`.
    pub conditions: u32,
    /// Not zero: GET takes `remaining`.
    pub remaining_time: u32,
    /// Maximum number of operations in a transaction; 0 if the store has no transactions.
    pub transactions: u64,
    /// Not zero: GET takes `eventual`.
    pub eventual: u32,
    /// Zero.
    pub reserved: u32,
    /// Maximum number of keys that the store returns in one response to sst_get_many(); 0 if it takes one key at a time.
    pub max_get_keys: u64,
    /// Not zero: SCAN returns values, for sst_scan_entries_new().
    pub scan_values: u32,
    /// Not zero: KEYNOTIFY watches all keys that match a pattern, for sst_observe_matching().
    pub observe_matching: u32,
}

sized!(sst_capabilities, observe_matching: u32);

impl sst_capabilities {
    fn new(store: Capabilities, size: usize) -> Self {
        Self {
            size,
            conditions: u32::from(store.conditions),
            remaining_time: u32::from(store.remaining_time),
            transactions: store.transactions.unwrap_or(0),
            eventual: u32::from(store.eventual),
            reserved: 0,
            max_get_keys: store.max_get_keys.unwrap_or(0),
            scan_values: u32::from(store.scan_values),
            observe_matching: u32::from(store.observe_matching),
        }
    }
}

/// Callback that receives the capabilities of the store.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_capabilities {
    pub context: *mut c_void,
    /// `capabilities->size` is the size of the struct that this library knows.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            capabilities: *const sst_capabilities,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_capabilities,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_capabilities)
);

fn report(callback: &Callback<sst_on_capabilities>, result: Result<Capabilities, Error>) {
    let store = result.map(|store| sst_capabilities::new(store, size_of::<sst_capabilities>()));
    let lent = store.as_ref().map_or(ptr::null(), ptr::from_ref);
    error::lend(store.as_ref().err(), |status, error| {
        // SAFETY: the function has that type and gets its own context.
        callback.call(|call, context| unsafe { call(context, status, error, lent) });
    });
}

/// Fills `capabilities` with the capabilities of the store, up to its `size`. Fields that this version does not know
/// become zero.
///
/// The store is asked once for each connection. A store that does not know the question has none of the capabilities.
///
/// Blocks: until the answer, at most for the request time-out of the settings. Errors: `capabilities` is not changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_client_capabilities(
    client: *const sst_client,
    capabilities: *mut sst_capabilities,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_client(error, client, |client| {
        let query = |size| {
            let store = wait(client, ACTION, client.core()?.capabilities())?;
            Ok(sst_capabilities::new(store, size))
        };
        // SAFETY: the header asks for a struct with its size.
        unsafe { output::fill(capabilities, "capabilities", query) }
    })
}

/// Begins sst_client_capabilities().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_client_capabilities_async(
    client: *const sst_client,
    callback: sst_on_capabilities,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        let query = client.capabilities();
        begin(client, ACTION, query, callback, operation, report)
    })
}
