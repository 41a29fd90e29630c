//! DEL.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::{self, sst_client};
use crate::error::{self, sst_error};
use crate::hlc::{self, sst_hlc};
use crate::input::{self, milliseconds, sized};
use crate::operation::{begin, sst_operation, wait};
use crate::output;
use crate::set;
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{DelOptions, DelOutcome, VdelOutcome};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// What a DEL or VDEL did.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum sst_del_result {
    /// It failed: see the status.
    #[default]
    SST_DEL_FAILED = 0,
    /// The key was there and is deleted.
    SST_DEL_DELETED = 1,
    /// The key was not there.
    SST_DEL_ABSENT = 2,
    /// The key holds another value, and nothing changed (VDEL).
    SST_DEL_MISMATCH = 3,
}

impl From<DelOutcome> for sst_del_result {
    fn from(outcome: DelOutcome) -> Self {
        match outcome {
            DelOutcome::Deleted { .. } => Self::SST_DEL_DELETED,
            DelOutcome::Absent => Self::SST_DEL_ABSENT,
        }
    }
}

impl From<VdelOutcome> for sst_del_result {
    fn from(outcome: VdelOutcome) -> Self {
        match outcome {
            VdelOutcome::Deleted { .. } => Self::SST_DEL_DELETED,
            VdelOutcome::Absent => Self::SST_DEL_ABSENT,
            VdelOutcome::Mismatch => Self::SST_DEL_MISMATCH,
        }
    }
}

/// Options of sst_del(), sst_vdel() and those of guards. Set `size` to sizeof(sst_del_options) and everything else to
/// zero, which means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_del_options {
    /// sizeof(sst_del_options).
    pub size: usize,
    /// Needed for a key that is protected by a fencing token: that token or a higher one. Borrowed for the call.
    pub fencing_token: *const sst_hlc,
    /// How long the request may take, in milliseconds (default: that of the settings).
    pub timeout_ms: u64,
    /// Whether it is sent again if the session is lost, an sst_retry.
    pub retry: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(sst_del_options, reserved: u32);

/// # Safety As [`input::options`] asks.
pub(crate) unsafe fn options(given: *const sst_del_options) -> Result<DelOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    Ok(DelOptions {
        fencing_token: hlc::optional(given.fencing_token)?,
        timeout: milliseconds(given.timeout_ms),
        retry: set::retry(given.retry)?,
    })
}

/// Is called with what a DEL or VDEL did. For what a callback may do see "Callbacks" at the top.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_del {
    /// Handed to both functions.
    pub context: *mut c_void,
    /// Called once; may be NULL. `error` is borrowed for the call, and NULL if `status` is SST_OK.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            result: sst_del_result,
        ),
    >,
    /// Called once after the last call, or instead of it; may be NULL.
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_del,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, sst_del_result)
);

/// Where a blocking DEL or VDEL writes its result.
pub(crate) struct Results<'a>(Option<&'a mut sst_del_result>);

impl<'a> Results<'a> {
    pub(crate) fn new(result: Option<&'a mut MaybeUninit<sst_del_result>>) -> Self {
        Self(result.map(|result| result.write(sst_del_result::SST_DEL_FAILED)))
    }

    pub(crate) fn give(self, outcome: impl Into<sst_del_result>) {
        if let Some(result) = self.0 {
            *result = outcome.into();
        }
    }
}

/// Tells a callback what a DEL or VDEL did.
pub(crate) fn tell<T: Into<sst_del_result>>(
    callback: &Callback<sst_on_del>,
    result: Result<T, Error>,
) {
    let (result, failed) = error::split(result.map(Into::into));
    error::lend(failed.as_ref(), |status, error| {
        // SAFETY: a function of that type, with its context.
        callback.call(|call, context| unsafe { call(context, status, error, result) });
    });
}

/// Deletes a key.
///
/// Owner: everything is borrowed for the call. Thread: any. Blocks: until the answer, at most for the time-out. NULL:
/// `options`, `result` and `error`. Errors: SST_INVALID_ARGUMENT, SST_TIMED_OUT, SST_QUEUE_FULL, SST_SESSION_LOST,
/// SST_CLOSED, and what the store refuses with; `*result` is SST_DEL_FAILED then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_del(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
    result: Option<&mut MaybeUninit<sst_del_result>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = Results::new(result);
    boundary::with_client(
        error,
        || client::get(client),
        |client| {
            // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
            let (key, options) =
                unsafe { (input::bytes(key, key_len, "key")?, self::options(options)?) };
            results.give(wait(
                client,
                "deleting",
                client.core()?.del_with(key, &options),
            )?);
            Ok(())
        },
    )
}

/// Begins to delete a key. See sst_del().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(); everything else is
/// borrowed for the call. Thread: any. Blocks: no. NULL: `options`, `operation` and `error`. Errors:
/// SST_INVALID_ARGUMENT, SST_QUEUE_FULL, SST_CLOSED; the callback is not called then, its context is dropped before
/// this returns, and `*operation` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_del_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
    callback: sst_on_del,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(
        error,
        || client::get(client),
        |client| {
            // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
            let (key, options) =
                unsafe { (input::bytes(key, key_len, "key")?, self::options(options)?) };
            let del = client.del(Bytes::copy_from_slice(key), options);
            begin(client, "deleting", del, callback, operation, tell)
        },
    )
}
