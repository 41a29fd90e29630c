//! Key patterns of SCAN.
use crate::boundary;
use crate::error::sst_error;
use crate::input;
use crate::output;
use crate::status::sst_status;
use statestore_protocol::glob::Glob;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Tests whether a pattern of sst_scan_new() matches a key, without asking a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_pattern_matches(
    pattern: *const c_void,
    pattern_len: usize,
    key: *const c_void,
    key_len: usize,
    matches: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let matches = output::init_with(matches, false, "matches")?;
        // SAFETY: the header asks for NULL or as many bytes as their lengths say.
        let (pattern, key) = unsafe {
            (
                input::bytes(pattern, pattern_len, "pattern")?,
                input::bytes(key, key_len, "key")?,
            )
        };
        *matches = Glob::new(pattern).matches(key);
        Ok(())
    })
}
