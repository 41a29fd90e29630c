//! Which version of the library this is.
use std::ffi::{CStr, c_char};

/// The version of the library that runs, "0.1.0" for example. SST_VERSION is that of the header that was compiled with.
///
/// Owner: nobody; the text lives as long as the library. Thread: any. Blocks: no.
#[unsafe(no_mangle)]
pub extern "C" fn sst_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
