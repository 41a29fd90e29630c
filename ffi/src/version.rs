//! Which version of the library this is.
use std::ffi::{CStr, c_char};

/// The version of the library that runs, "0.1.0" for example. SST_VERSION is that of the header that was compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn sst_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// The same as a number that grows with the version, as SST_VERSION_NUMBER is that of the header: the major version
/// times 1,000,000, the minor one times 1,000, and the patch.
#[unsafe(no_mangle)]
pub extern "C" fn sst_version_number() -> u32 {
    NUMBER
}

/// Whether this library speaks TLS. One that does not refuses mqtts:// and client certificates with
/// SST_INVALID_SETTINGS.
#[unsafe(no_mangle)]
pub extern "C" fn sst_has_tls() -> bool {
    cfg!(feature = "tls")
}

/// Whether this library speaks MQTT over WebSocket. One that does not refuses ws:// and wss:// with SST_INVALID_SETTINGS; wss://
/// needs TLS as well.
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
        Err(_) => panic!("a part of the version is no number"),
    }
}
