//! Keys and patterns from the command line.
use crate::{escape, exit::Exit, failure::Failure, message};
use bytes::Bytes;
use statestore::Hlc;
use std::ffi::OsString;

/// Returns the bytes of an argument, with its escapes resolved if `escaped`.
pub(crate) fn from_argument(argument: &OsString, escaped: bool) -> Result<Bytes, Failure> {
    let bytes = argument.as_encoded_bytes();
    if bytes.is_empty() {
        return Err(Failure::usage("the key is empty; give at least one byte"));
    }
    if !escaped {
        return Ok(Bytes::copy_from_slice(bytes));
    }
    escape::unescape(bytes).map(Bytes::from).ok_or_else(|| {
        Failure::usage(format!(
            r"'{}' has an unknown escape; --escaped knows \\ \n \r \t \xNN",
            escape::escape(bytes)
        ))
    })
}

/// Reports that a key does not have the requested version.
pub(crate) fn report_version_mismatch(what: &str, key: &[u8], version: Option<&Hlc>) -> Exit {
    let key = escape::escape(key);
    message::print_error(&match version {
        Some(version) => format!("{what}: '{key}' has version {version}"),
        None => format!("{what}: '{key}' is absent"),
    });
    Exit::NegativeResult
}

/// Reports that a key is absent.
pub(crate) fn report_absent(key: &[u8]) -> Exit {
    message::print_error(&format!("'{}' is absent", escape::escape(key)));
    Exit::NegativeResult
}
