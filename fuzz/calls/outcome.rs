//! Results of functions.
use crate::header::sst_slice;
use std::ffi::{CStr, c_void};

pub(crate) const INVALID_ARGUMENT: u32 = 1;
pub(crate) const INVALID_HANDLE: u32 = 3;
pub(crate) const FORKED: u32 = 16;

/// Returns whether a status is possible here: not that of a bug or a fork.
pub(crate) fn is_known(status: u32) -> bool {
    matches!(status, 0..=4 | 10..=15 | 20..=26 | 30..=32 | 40..=42 | 100..=111 | 199)
}

/// Returns the bytes of a slice, and so checks that each can be read.
///
/// # Safety
/// The handle that owns the slice must be valid.
pub(crate) unsafe fn read(slice: sst_slice) -> Vec<u8> {
    if slice.len == 0 {
        return Vec::new();
    }
    assert!(!slice.data.is_null());
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts(slice.data.cast::<u8>(), slice.len) }.to_vec()
}

/// # Safety
/// As for [`read`].
pub(crate) unsafe fn read_text(text: *mut c_void) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: by the contract, and it has a NUL at its end.
    unsafe { CStr::from_ptr(text.cast()) }.to_bytes().to_vec()
}

/// Result of a function that returns no status.
pub(crate) trait Value {
    /// Returns whether this is the value for none, which is `-1` or `true` for some functions.
    fn is_none(&self, function: &str) -> bool;
}

impl Value for bool {
    fn is_none(&self, function: &str) -> bool {
        *self == (function == "sst_operation_has_ended")
    }
}

impl Value for u32 {
    fn is_none(&self, function: &str) -> bool {
        match function {
            "sst_error_status" => [INVALID_ARGUMENT, INVALID_HANDLE].contains(self),
            "sst_error_outcome" => *self == 1,
            _ => *self == 0,
        }
    }
}

impl Value for i32 {
    fn is_none(&self, _function: &str) -> bool {
        *self == -1
    }
}

impl Value for i64 {
    fn is_none(&self, _function: &str) -> bool {
        *self == -1
    }
}

impl Value for u64 {
    fn is_none(&self, _function: &str) -> bool {
        *self == 0
    }
}

impl Value for usize {
    fn is_none(&self, _function: &str) -> bool {
        *self == 0
    }
}

impl Value for sst_slice {
    fn is_none(&self, _function: &str) -> bool {
        // SAFETY: nothing is freed meanwhile.
        unsafe { read(*self) }.is_empty()
    }
}

impl Value for *mut c_void {
    fn is_none(&self, _function: &str) -> bool {
        // SAFETY: nothing is freed meanwhile.
        unsafe { read_text(*self) }.is_empty()
    }
}
