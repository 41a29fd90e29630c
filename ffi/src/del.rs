//! DEL.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::error::sst_error;
use crate::hlc::{self, sst_hlc};
use crate::input::{self, milliseconds, sized};
use crate::operation::{begin, sst_operation, wait};
use crate::outcome::{self, OperationOutcome, ResultOut};
use crate::output::{self, FailureValue};
use crate::set;
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{DelOptions, DelOutcome, Hlc};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Result of a DEL or VDEL.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_del_result {
    /// The call failed: see the status.
    SST_DEL_FAILED = 0,
    /// The key was present and is deleted.
    SST_DEL_DELETED = 1,
    /// The key was absent, so it did not have the version of `if_version` either.
    SST_DEL_ABSENT = 2,
    /// The key holds another value (VDEL) or does not have the version of `if_version`. Nothing changed.
    SST_DEL_MISMATCH = 3,
}

impl FailureValue for sst_del_result {
    const FAILED: Self = Self::SST_DEL_FAILED;
}

impl OperationOutcome for DelOutcome {
    type ResultEnum = sst_del_result;

    fn result(&self) -> sst_del_result {
        match self {
            Self::Deleted { .. } => sst_del_result::SST_DEL_DELETED,
            Self::Absent => sst_del_result::SST_DEL_ABSENT,
            Self::Mismatch { .. } => sst_del_result::SST_DEL_MISMATCH,
        }
    }

    fn version(&self) -> Option<&Hlc> {
        match self {
            Self::Deleted { version } => version.as_ref(),
            Self::Mismatch { version } => Some(version),
            Self::Absent => None,
        }
    }
}

/// Options of sst_del(), sst_vdel(), sst_del_many(), sst_transaction_del(), sst_guard_del() and sst_guard_vdel().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_del_options {
    pub size: usize,
    /// Fencing token, required for a key that a fencing token protects: that token or a higher one. Borrowed for the
    /// call.
    pub fencing_token: *const sst_hlc,
    /// Time limit of the request (default: that of the settings).
    pub timeout_ms: u64,
    /// Whether the request is sent again if the session is lost, an sst_retry.
    pub retry: u32,
    /// Zero.
    pub reserved: u32,
    /// Condition: the key is present and has this version. A store without conditions on versions makes the call return
    /// SST_UNSUPPORTED; see sst_client_capabilities(). Borrowed for the call.
    pub if_version: *const sst_hlc,
    /// Zero.
    pub reserved_2: usize,
}

sized!(sst_del_options, reserved_2: usize);

/// # Safety As [`input::options`] asks.
pub(crate) unsafe fn options(given: *const sst_del_options) -> Result<DelOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    if given.reserved != 0 || given.reserved_2 != 0 {
        return Err(input::invalid("reserved", "it is not zero"));
    }
    Ok(DelOptions::new()
        .if_version(hlc::version(given.if_version)?)
        .fencing_token(hlc::optional(given.fencing_token)?)
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?)
        .retry(set::retry(given.retry)?))
}

/// Reads the arguments of a DEL.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
pub(crate) unsafe fn read<'a>(
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
) -> Result<(&'a [u8], DelOptions), Error> {
    // SAFETY: by the contract.
    unsafe { Ok((input::bytes(key, key_len, "key")?, self::options(options)?)) }
}

/// Callback that receives the result of a DEL or VDEL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_del {
    pub context: *mut c_void,
    /// `version` is the same as for sst_del() and sst_vdel().
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            result: sst_del_result,
            version: *const sst_hlc,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_del,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, sst_del_result, *const sst_hlc)
);

/// Deletes a key.
///
/// `*version` is the version of the deletion, if the store reports it. For SST_DEL_MISMATCH it is the version of the
/// key. An absent key is SST_DEL_ABSENT, also with `if_version`.
///
/// Blocks: until the answer, at most for the time-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_del(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
    result: Option<&mut MaybeUninit<sst_del_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { read(key, key_len, options) }?;
        let del = client.core()?.del_with(key, &options);
        results.write(&wait(client, "deleting", del)?)
    })
}

/// Begins sst_del().
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
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { read(key, key_len, options) }?;
        let del = client.del(Bytes::copy_from_slice(key), options);
        begin(
            client,
            "deleting",
            del,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}
