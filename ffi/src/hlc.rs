//! Versions and fencing tokens.
use crate::boundary;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::input;
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use statestore_core::{Hlc, Version};
use std::cmp::Ordering;
use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A timestamp of a hybrid logical clock: the version of a value, or a fencing token. Opaque.
pub struct sst_hlc;

pub(crate) struct TimestampObject {
    hlc: Hlc,
    text: CString,
}

object!(TimestampObject, sst_hlc, 5, "a timestamp");

impl TimestampObject {
    pub(crate) fn new(hlc: &Hlc) -> Self {
        // A received timestamp may have any text in its third part.
        let text = hlc.to_string().replace('\0', "\u{fffd}");
        Self {
            hlc: hlc.clone(),
            text: CString::new(text).unwrap_or_default(),
        }
    }
}

/// Reads a timestamp of the caller; `None` for NULL.
pub(crate) fn optional(handle: *const sst_hlc) -> Result<Option<Hlc>, statestore_embed::Error> {
    if handle.is_null() {
        return Ok(None);
    }
    Ok(Some(handle::get::<TimestampObject>(handle)?.hlc.clone()))
}

/// Reads a version of the caller for a condition; `None` for NULL.
pub(crate) fn version(handle: *const sst_hlc) -> Result<Option<Version>, statestore_embed::Error> {
    Ok(optional(handle)?.as_ref().map(Version::from))
}

/// Parses a timestamp: `{milliseconds}:{counter}:{node id}`.
///
/// Errors: SST_INVALID_ARGUMENT if the text is not a timestamp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_hlc_parse(
    text: *const c_void,
    len: usize,
    hlc: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let hlc = HandleOut::<TimestampObject>::new(hlc, "hlc")?;
        // SAFETY: the header asks for NULL or `len` bytes.
        let text = unsafe { input::bytes(text, len, "text") }?;
        let parsed = Hlc::parse(text).map_err(|error| input::invalid("text", error.to_string()))?;
        hlc.write(TimestampObject::new(&parsed))
    })
}

/// Returns the text of a timestamp with a NUL at its end, padded with zeros as it is sent.
#[unsafe(no_mangle)]
pub extern "C" fn sst_hlc_text(hlc: *const sst_hlc) -> *const c_char {
    infallible::value(c"".as_ptr(), || {
        Ok(handle::get::<TimestampObject>(hlc)?.text.as_ptr())
    })
}

/// Returns the wall clock time of a timestamp, in milliseconds since 1970-01-01 UTC.
#[unsafe(no_mangle)]
pub extern "C" fn sst_hlc_wall_ms(hlc: *const sst_hlc) -> u64 {
    infallible::value(0, || Ok(handle::get::<TimestampObject>(hlc)?.hlc.wall_ms()))
}

/// Returns the counter of a timestamp.
#[unsafe(no_mangle)]
pub extern "C" fn sst_hlc_counter(hlc: *const sst_hlc) -> u64 {
    infallible::value(0, || Ok(handle::get::<TimestampObject>(hlc)?.hlc.counter()))
}

/// Compares two timestamps: first their times, then their counters, then the bytes of their node ids.
///
/// `*order` is negative if `one` is lower, 0 if they are equal, and positive if `one` is higher.
#[unsafe(no_mangle)]
pub extern "C" fn sst_hlc_compare(
    one: *const sst_hlc,
    other: *const sst_hlc,
    order: Option<&mut MaybeUninit<i32>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let order = output::init_with(order, 0, "order")?;
        let one = handle::get::<TimestampObject>(one)?;
        let other = handle::get::<TimestampObject>(other)?;
        *order = match one.hlc.cmp(&other.hlc) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        };
        Ok(())
    })
}

/// Returns another handle of the same timestamp, to keep a borrowed one.
#[unsafe(no_mangle)]
pub extern "C" fn sst_hlc_clone(hlc: *const sst_hlc) -> *mut sst_hlc {
    infallible::value(std::ptr::null_mut(), || {
        handle::share::<TimestampObject>(Arc::clone(&handle::get::<TimestampObject>(hlc)?))
    })
}

/// Frees a timestamp.
#[unsafe(no_mangle)]
pub extern "C" fn sst_hlc_free(hlc: *mut sst_hlc) {
    infallible::run(|| drop(handle::free::<TimestampObject>(hlc)));
}
