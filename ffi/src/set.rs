//! SET.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::error::sst_error;
use crate::hlc::{self, sst_hlc};
use crate::input::{self, delay, milliseconds, sized};
use crate::operation::{begin, sst_operation, wait};
use crate::outcome::{self, OperationOutcome, ResultOut};
use crate::output::{self, FailureValue};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{Condition, Hlc, Retry, SetOptions, SetOutcome};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Condition of a SET.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_condition {
    /// Always.
    SST_ALWAYS = 0,
    /// If the key is absent (NX).
    SST_IF_ABSENT = 1,
    /// If the key is absent or holds the value that is being set (NEX).
    SST_IF_ABSENT_OR_EQUAL = 2,
}

/// Whether a write is sent again if the session is lost before its response arrives. The write may already have been
/// executed then.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_retry {
    /// Sends the write again only if that is safe. No write is: it fails with SST_SESSION_LOST and SST_UNKNOWN instead.
    SST_RETRY_SAFE = 0,
    /// Sends the write again.
    SST_RETRY_ALWAYS = 1,
    /// Does not send the write again.
    SST_RETRY_NEVER = 2,
}

/// Result of a SET.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_set_result {
    /// The call failed: see the status.
    SST_SET_FAILED = 0,
    /// The value is stored.
    SST_SET_APPLIED = 1,
    /// The condition was not met, and nothing changed.
    SST_SET_NOT_APPLIED = 2,
}

impl FailureValue for sst_set_result {
    const FAILED: Self = Self::SST_SET_FAILED;
}

impl OperationOutcome for SetOutcome {
    type ResultEnum = sst_set_result;

    fn result(&self) -> sst_set_result {
        if self.is_applied() {
            sst_set_result::SST_SET_APPLIED
        } else {
            sst_set_result::SST_SET_NOT_APPLIED
        }
    }

    fn version(&self) -> Option<&Hlc> {
        self.version()
    }
}

/// Options of sst_set(), sst_set_many(), sst_transaction_set() and sst_guard_set().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_set_options {
    pub size: usize,
    /// Condition of the SET, an sst_condition.
    pub condition: u32,
    /// Whether the request is sent again if the session is lost, an sst_retry.
    pub retry: u32,
    /// Not zero: asks the store to keep the key on disk.
    pub persist: u32,
    /// Not zero: while there is no connection, only the newest value of the key waits for one.
    ///
    /// An older SET with this option ends with SST_SUPERSEDED when a newer SET of the same key, also with this option,
    /// begins to wait. The newer SET waits behind all other requests. A request that was ever sent is not replaced.
    pub coalesce: u32,
    /// Time in milliseconds after which the key expires (default: never).
    pub expires_in_ms: u64,
    /// Fencing token that protects the key: from now on, writes and deletions need this token or a higher one. Borrowed
    /// for the call.
    pub fencing_token: *const sst_hlc,
    /// Time limit of the request (default: that of the settings).
    pub timeout_ms: u64,
    /// Condition: the key is present and has this version. `condition` must be SST_ALWAYS then. On a store without
    /// conditions on versions, the value that had the version is compared, under a fence; see
    /// sst_client_capabilities(). Borrowed for the call.
    pub if_version: *const sst_hlc,
    /// Zero.
    pub reserved: usize,
}

sized!(sst_set_options, reserved: usize);

pub(crate) fn retry(value: u32) -> Result<Retry, Error> {
    const SAFE: u32 = sst_retry::SST_RETRY_SAFE as u32;
    const ALWAYS: u32 = sst_retry::SST_RETRY_ALWAYS as u32;
    const NEVER: u32 = sst_retry::SST_RETRY_NEVER as u32;
    match value {
        SAFE => Ok(Retry::Safe),
        ALWAYS => Ok(Retry::Always),
        NEVER => Ok(Retry::Never),
        _ => Err(input::invalid(
            "retry",
            format!("{value} is not an sst_retry"),
        )),
    }
}

/// # Safety As [`input::options`] asks.
pub(crate) unsafe fn options(given: *const sst_set_options) -> Result<SetOptions, Error> {
    const ALWAYS: u32 = sst_condition::SST_ALWAYS as u32;
    const IF_ABSENT: u32 = sst_condition::SST_IF_ABSENT as u32;
    const IF_ABSENT_OR_EQUAL: u32 = sst_condition::SST_IF_ABSENT_OR_EQUAL as u32;
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    if given.reserved != 0 {
        return Err(input::invalid("reserved", "it is not zero"));
    }
    let condition = match given.condition {
        ALWAYS => hlc::version(given.if_version)?.map_or(Condition::Always, Condition::IfVersion),
        _ if !given.if_version.is_null() => {
            let reason = "a SET has one condition; leave `condition` SST_ALWAYS";
            return Err(input::invalid("if_version", reason));
        }
        IF_ABSENT => Condition::IfAbsent,
        IF_ABSENT_OR_EQUAL => Condition::IfAbsentOrEqual,
        other => {
            let reason = format!("{other} is not an sst_condition");
            return Err(input::invalid("condition", reason));
        }
    };
    Ok(SetOptions::new()
        .condition(condition)
        .expires_in(delay(given.expires_in_ms, "expires_in_ms")?)
        .fencing_token(hlc::optional(given.fencing_token)?)
        .persist(given.persist != 0)
        .coalesce(given.coalesce != 0)
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?)
        .retry(retry(given.retry)?))
}

/// Callback that receives the result of a SET.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_set {
    pub context: *mut c_void,
    /// `version` is the version of the value that is stored now; NULL if the SET was not applied because the key is
    /// absent.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            result: sst_set_result,
            version: *const sst_hlc,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_set,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, sst_set_result, *const sst_hlc)
);

/// Reads the arguments of a SET.
///
/// # Safety As [`input::key_value`] and [`options`] ask.
pub(crate) unsafe fn read<'a>(
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_set_options,
) -> Result<(&'a [u8], &'a [u8], SetOptions), Error> {
    // SAFETY: by the contract.
    let (key, value) = unsafe { input::key_value(key, key_len, value, value_len) }?;
    // SAFETY: by the contract.
    Ok((key, value, unsafe { self::options(options) }?))
}

/// Stores a value.
///
/// `*version` is the version of the value that is stored now. It is NULL if the SET was not applied because the key is
/// absent, which is possible with `if_version`.
///
/// Blocks: until the answer, at most for the time-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_set(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_set_options,
    result: Option<&mut MaybeUninit<sst_set_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let (key, value, options) = unsafe { read(key, key_len, value, value_len, options) }?;
        let set = client.core()?.set_with(key, value, &options);
        results.write(&wait(client, "setting", set)?)
    })
}

/// Begins sst_set().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_set_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_set_options,
    callback: sst_on_set,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let (key, value, options) = unsafe { read(key, key_len, value, value_len, options) }?;
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let set = client.set(key, value, options);
        begin(
            client,
            "setting",
            set,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}
