//! Error objects.
use crate::handle::{self, object};
use crate::infallible;
use crate::status::sst_status;
use statestore_core::{LostReason, Outcome};
use statestore_embed::Error;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

/// The reason why a call failed. Opaque.
pub struct sst_error;

/// Whether a failed request may have been executed.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_outcome {
    /// The request was certainly not executed: it was never sent, or it was rejected.
    SST_NOT_DONE = 0,
    /// The request may have been executed or may still be executed: it was sent, and no response arrived.
    SST_UNKNOWN = 1,
}

pub(crate) struct ErrorObject {
    error: Error,
    /// The reason of the end, if the error reports an end.
    pub(crate) lost_reason: Option<LostReason>,
    message: CString,
}

object!(ErrorObject, sst_error, 1, "an error");

/// Makes a handle of an error; NULL if no handle is left.
pub(crate) fn new(error: &Error, lost_reason: Option<LostReason>) -> *mut sst_error {
    // The message has no NUL, since everything from outside is escaped in it.
    let message = CString::new(error.to_string().replace('\0', "\u{fffd}")).unwrap_or_default();
    let failure = ErrorObject {
        error: error.clone(),
        lost_reason,
        message,
    };
    handle::new(failure).unwrap_or(ptr::null_mut())
}

/// Writes the error of a result, if it failed and the caller wants the error object, and returns the status.
pub(crate) fn write(
    to: Option<&mut MaybeUninit<*mut sst_error>>,
    result: Result<(), Error>,
) -> sst_status {
    let status = match &result {
        Ok(()) => sst_status::SST_OK,
        Err(error) => error.kind().into(),
    };
    if let Some(to) = to {
        to.write(
            result
                .err()
                .map_or(ptr::null_mut(), |error| new(&error, None)),
        );
    }
    status
}

/// Splits a result into its value, or the default, and its error.
pub(crate) fn split<T: Default>(result: Result<T, Error>) -> (T, Option<Error>) {
    match result {
        Ok(value) => (value, None),
        Err(error) => (T::default(), Some(error)),
    }
}

/// Lends an error for the duration of a call.
pub(crate) fn lend(error: Option<&Error>, call: impl FnOnce(sst_status, *const sst_error)) {
    lend_at_end(error, None, call);
}

/// Lends an error that reports an end and its reason.
pub(crate) fn lend_at_end(
    error: Option<&Error>,
    lost_reason: Option<LostReason>,
    call: impl FnOnce(sst_status, *const sst_error),
) {
    let handle = error.map_or(ptr::null_mut(), |error| new(error, lost_reason));
    let status = error.map_or(sst_status::SST_OK, |error| error.kind().into());
    call(status, handle);
    handle::free::<ErrorObject>(handle);
}

/// Returns the status of the failed call: SST_INVALID_ARGUMENT for NULL, SST_INVALID_HANDLE for a handle that is not an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_status(error: *const sst_error) -> sst_status {
    infallible::value(sst_status::SST_INTERNAL, || {
        Ok(match handle::get::<ErrorObject>(error) {
            Ok(failure) => failure.error.kind().into(),
            Err(error) => error.kind().into(),
        })
    })
}

/// Returns the message: the action, its object and the reason of the failure, in English, as UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_message(error: *const sst_error) -> *const c_char {
    infallible::value(c"".as_ptr(), || {
        Ok(handle::get::<ErrorObject>(error)?.message.as_ptr())
    })
}

/// Returns whether the failed request may have been executed. A handle that is not an error gives SST_UNKNOWN.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_outcome(error: *const sst_error) -> sst_outcome {
    infallible::value(sst_outcome::SST_UNKNOWN, || {
        Ok(match handle::get::<ErrorObject>(error)?.error.outcome() {
            Outcome::NotDone => sst_outcome::SST_NOT_DONE,
            Outcome::Unknown => sst_outcome::SST_UNKNOWN,
        })
    })
}

/// Returns whether the same call may succeed later without manual intervention.
///
/// Whether repeating the call is safe depends on the outcome and on the operation.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_is_retryable(error: *const sst_error) -> bool {
    infallible::value(false, || {
        Ok(handle::get::<ErrorObject>(error)?.error.is_retryable())
    })
}

/// Returns the reason code of the MQTT packet that caused the failure; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_mqtt_reason(error: *const sst_error) -> i32 {
    infallible::value(-1, || {
        let failure = handle::get::<ErrorObject>(error)?;
        let reason = failure.error.mqtt_reason();
        Ok(reason.map_or(-1, |reason| i32::from(reason.0)))
    })
}

/// Returns the number of the system error behind the failure, as in errno; 0 if there is none.
///
/// Examples are ECONNREFUSED if no process listens at the address, and ENOENT for a missing file.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_os_code(error: *const sst_error) -> i32 {
    infallible::value(0, || {
        let failure = handle::get::<ErrorObject>(error)?;
        Ok(failure.error.os_error().unwrap_or(0))
    })
}

/// Returns the index of the invalid or rejected operation of a transaction, counted from 0; -1 if the error concerns no
/// operation.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_operation(error: *const sst_error) -> i64 {
    infallible::value(-1, || {
        let operation = handle::get::<ErrorObject>(error)?.error.operation();
        Ok(operation.map_or(-1, |operation| i64::try_from(operation).unwrap_or(i64::MAX)))
    })
}

/// Returns another handle of the same error, to keep a borrowed one.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_clone(error: *const sst_error) -> *mut sst_error {
    infallible::value(ptr::null_mut(), || {
        handle::share::<ErrorObject>(Arc::clone(&handle::get::<ErrorObject>(error)?))
    })
}

/// Frees an error.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_free(error: *mut sst_error) {
    infallible::run(|| drop(handle::free::<ErrorObject>(error)));
}
