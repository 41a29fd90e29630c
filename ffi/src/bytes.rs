//! Bytes that the library returns.
use crate::boundary;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::input;
use crate::output::HandleOut;
use crate::status::sst_status;
use bytes::Bytes;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// Borrowed bytes. They belong to the caller or to a handle.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sst_slice {
    /// The first byte; may be NULL if `len` is 0.
    pub data: *const c_void,
    /// Number of bytes.
    pub len: usize,
}

impl sst_slice {
    pub(crate) const NONE: Self = Self {
        data: ptr::null(),
        len: 0,
    };

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr().cast(),
            len: bytes.len(),
        }
    }
}

/// Reads several byte strings of the caller. NULL means none.
///
/// # Safety As [`input::elements`] asks, and for each element as [`input::bytes`] asks.
pub(crate) unsafe fn slices<'a>(
    data: *const sst_slice,
    count: usize,
    name: &str,
) -> Result<Vec<&'a [u8]>, Error> {
    // SAFETY: by the contract.
    let elements = unsafe { input::elements(data, count, name) }?;
    // SAFETY: by the contract.
    let slice = |slice: &sst_slice| unsafe { input::bytes(slice.data, slice.len, name) };
    elements.iter().map(slice).collect()
}

/// Bytes with their own handle. Opaque.
pub struct sst_bytes;

pub(crate) struct BytesObject(pub(crate) Bytes);

object!(BytesObject, sst_bytes, 3, "bytes");

/// Copies bytes, for example for the result of a callback of sst_update().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_bytes_new(
    data: *const c_void,
    len: usize,
    bytes: Option<&mut MaybeUninit<*mut sst_bytes>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let bytes = HandleOut::<BytesObject>::new(bytes, "bytes")?;
        // SAFETY: the header asks for NULL or `len` bytes.
        let data = unsafe { input::bytes(data, len, "data") }?;
        bytes.write(BytesObject(Bytes::copy_from_slice(data)))
    })
}

/// Returns the bytes.
#[unsafe(no_mangle)]
pub extern "C" fn sst_bytes_slice(bytes: *const sst_bytes) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        Ok(sst_slice::from_bytes(&handle::get::<BytesObject>(bytes)?.0))
    })
}

/// Frees bytes.
#[unsafe(no_mangle)]
pub extern "C" fn sst_bytes_free(bytes: *mut sst_bytes) {
    infallible::run(|| drop(handle::free::<BytesObject>(bytes)));
}

/// An ordered list of keys. Opaque.
pub struct sst_keys;

pub(crate) struct KeysObject(pub(crate) Vec<Bytes>);

object!(KeysObject, sst_keys, 4, "keys");

/// Returns the number of keys.
#[unsafe(no_mangle)]
pub extern "C" fn sst_keys_len(keys: *const sst_keys) -> usize {
    infallible::value(0, || Ok(handle::get::<KeysObject>(keys)?.0.len()))
}

/// Returns the key at an index. If the index is too large, the slice is empty; a key is never empty.
#[unsafe(no_mangle)]
pub extern "C" fn sst_keys_at(keys: *const sst_keys, index: usize) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        let keys = handle::get::<KeysObject>(keys)?;
        Ok(keys
            .0
            .get(index)
            .map_or(sst_slice::NONE, |key| sst_slice::from_bytes(key)))
    })
}

/// Frees keys.
#[unsafe(no_mangle)]
pub extern "C" fn sst_keys_free(keys: *mut sst_keys) {
    infallible::run(|| drop(handle::free::<KeysObject>(keys)));
}
