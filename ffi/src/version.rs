//! Version and features of the library.
use std::ffi::{CStr, c_char};

/// Returns the version of the library that runs, for example "0.1.0". SST_VERSION is the version of the header.
#[unsafe(no_mangle)]
pub extern "C" fn sst_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Returns the version as a number that grows with it: the major version times 1,000,000, the minor one times 1,000,
/// plus the patch. SST_VERSION_NUMBER is the number of the header.
#[unsafe(no_mangle)]
pub extern "C" fn sst_version_number() -> u32 {
    NUMBER
}

/// Returns whether this library supports TLS. Without it, mqtts:// and client certificates are rejected with
/// SST_INVALID_SETTINGS.
#[unsafe(no_mangle)]
pub extern "C" fn sst_has_tls() -> bool {
    cfg!(feature = "tls")
}

/// Returns whether this library supports MQTT over WebSocket. Without it, ws:// and wss:// are rejected with
/// SST_INVALID_SETTINGS; wss:// needs TLS as well.
#[unsafe(no_mangle)]
pub extern "C" fn sst_has_ws() -> bool {
    cfg!(feature = "ws")
}

const NUMBER: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
    + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
    + number(env!("CARGO_PKG_VERSION_PATCH"));

const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is not a number"),
    }
}
