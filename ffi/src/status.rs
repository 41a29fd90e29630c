//! Status codes.
use crate::infallible;
use statestore_embed::ErrorKind;
use std::ffi::{CStr, c_char};

/// Status of a call. The numbers are the same in every language, and are never reused.
///
/// For an unknown number, use sst_error_outcome() and sst_error_is_retryable().
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_status {
    /// The call succeeded. An absent key and a condition that is not met are successes.
    SST_OK = 0,
    /// An argument is not valid: an empty or overlong key, an expiry of 0 ms, NULL in C; or the value does not fit.
    SST_INVALID_ARGUMENT = 1,
    /// The connection settings contradict each other, cannot be parsed, or name an unusable file.
    SST_INVALID_SETTINGS = 2,
    /// A handle was freed before, or has another type. Only in C.
    SST_INVALID_HANDLE = 3,
    /// The call would wait for itself, as in a callback of its own client. Not in Node.
    SST_WRONG_THREAD = 4,
    /// The library detected a bug in itself, or the system provides no thread.
    SST_INTERNAL = 5,
    /// The broker could not be reached: name not found, connection refused, or no response. With `fail_fast` also
    /// during an outage.
    SST_UNREACHABLE = 10,
    /// The broker rejected the CONNECT or the SUBSCRIBE.
    SST_CONNECTION_REFUSED = 11,
    /// The broker rejected the credentials, or denies this client what it needs.
    SST_NOT_AUTHENTICATED = 12,
    /// The connection and its session were lost, so no response can arrive.
    SST_SESSION_LOST = 13,
    /// The client was closed, or gave up reconnecting. In C also the end of an observer.
    SST_CLOSED = 14,
    /// The broker's TLS certificate has expired, names another host, or has an unknown signer.
    SST_UNTRUSTED = 15,
    /// The client belongs to the parent of this forked process. Not in Node.
    SST_FORKED = 16,
    /// No response, no connection or no event came in time.
    SST_TIMED_OUT = 20,
    /// The queue of waiting requests is full.
    SST_QUEUE_FULL = 21,
    /// The request exceeds a limit of the broker or MQTT, its value `max_value_bytes`, or more keys match a pattern
    /// than `max_keys`.
    SST_TOO_LARGE = 22,
    /// The broker rejected the request.
    SST_REJECTED = 23,
    /// No state store listens behind the broker.
    SST_NO_STORE = 24,
    /// The caller cancelled the operation or its wait. Not in Rust.
    SST_CANCELLED = 25,
    /// With `coalesce`, a newer SET of the key replaced this one before it was sent.
    SST_SUPERSEDED = 26,
    /// The response does not follow the protocol.
    SST_INVALID_RESPONSE = 30,
    /// The response reports a failed remote procedure call.
    SST_RPC = 31,
    /// The store lacks what the call needs, or the value belongs to an unfinished transaction.
    SST_UNSUPPORTED = 32,
    /// Another client still held the lock when the wait ended.
    SST_LOCK_HELD = 40,
    /// The lock was lost or given back, so operations under it fail.
    SST_LOCK_LOST = 41,
    /// The lock's key holds something other than a holder's name.
    SST_NOT_A_LOCK = 42,
    /// The store refused: the clocks of client and store are too far apart.
    SST_TIMESTAMP_SKEW = 100,
    /// The store refused: a fencing token protects the key, and the request has none.
    SST_FENCING_TOKEN_REQUIRED = 101,
    /// The store refused: the fencing token is too far in the future.
    SST_FENCING_TOKEN_SKEW = 102,
    /// The store refused: a higher fencing token protects the key.
    SST_FENCING_TOKEN_LOWER = 103,
    /// The store refused: a quota of keys, memory or watches is used up.
    SST_QUOTA_EXCEEDED = 104,
    /// The store refused: the payload has an unexpected form.
    SST_SYNTAX = 105,
    /// The store refused: this client may not do this to this key.
    SST_NOT_AUTHORIZED = 106,
    /// The store refused: it does not know the command.
    SST_UNKNOWN_COMMAND = 107,
    /// The store refused: too few or too many arguments.
    SST_WRONG_ARGUMENTS = 108,
    /// The store refused: the request has no timestamp.
    SST_MISSING_TIMESTAMP = 109,
    /// The store refused: the timestamp or fencing token is not an HLC.
    SST_MALFORMED_TIMESTAMP = 110,
    /// The store refused: the key is empty.
    SST_EMPTY_KEY = 111,
    /// The store refused with a text that this library does not know.
    SST_OTHER_REFUSAL = 199,
}

/// Maps each status to its kind and its name.
macro_rules! table {
    ($($status:ident $kind:ident $name:literal)*) => {
        impl From<ErrorKind> for sst_status {
            fn from(kind: ErrorKind) -> Self {
                match kind {
                    $(ErrorKind::$kind => Self::$status,)*
                    // The test below finds a kind without a status.
                    _ => Self::SST_INTERNAL,
                }
            }
        }

        fn name(status: i32) -> &'static CStr {
            match status {
                0 => c"Ok",
                $(status if status == sst_status::$status as i32 => $name,)*
                _ => c"unknown",
            }
        }
    };
}

table! {
    SST_INVALID_ARGUMENT InvalidArgument c"InvalidArgument"
    SST_INVALID_SETTINGS InvalidSettings c"InvalidSettings"
    SST_INVALID_HANDLE InvalidHandle c"InvalidHandle"
    SST_WRONG_THREAD WrongThread c"WrongThread"
    SST_INTERNAL Internal c"Internal"
    SST_UNREACHABLE Unreachable c"Unreachable"
    SST_CONNECTION_REFUSED ConnectionRefused c"ConnectionRefused"
    SST_NOT_AUTHENTICATED NotAuthenticated c"NotAuthenticated"
    SST_SESSION_LOST SessionLost c"SessionLost"
    SST_CLOSED Closed c"Closed"
    SST_UNTRUSTED Untrusted c"Untrusted"
    SST_FORKED Forked c"Forked"
    SST_TIMED_OUT TimedOut c"TimedOut"
    SST_QUEUE_FULL QueueFull c"QueueFull"
    SST_TOO_LARGE TooLarge c"TooLarge"
    SST_REJECTED Rejected c"Rejected"
    SST_NO_STORE NoStore c"NoStore"
    SST_CANCELLED Cancelled c"Cancelled"
    SST_SUPERSEDED Superseded c"Superseded"
    SST_INVALID_RESPONSE InvalidResponse c"InvalidResponse"
    SST_RPC Rpc c"Rpc"
    SST_UNSUPPORTED Unsupported c"Unsupported"
    SST_LOCK_HELD LockHeld c"LockHeld"
    SST_LOCK_LOST LockLost c"LockLost"
    SST_NOT_A_LOCK NotALock c"NotALock"
    SST_TIMESTAMP_SKEW TimestampSkew c"TimestampSkew"
    SST_FENCING_TOKEN_REQUIRED FencingTokenRequired c"FencingTokenRequired"
    SST_FENCING_TOKEN_SKEW FencingTokenSkew c"FencingTokenSkew"
    SST_FENCING_TOKEN_LOWER FencingTokenLower c"FencingTokenLower"
    SST_QUOTA_EXCEEDED QuotaExceeded c"QuotaExceeded"
    SST_SYNTAX Syntax c"Syntax"
    SST_NOT_AUTHORIZED NotAuthorized c"NotAuthorized"
    SST_UNKNOWN_COMMAND UnknownCommand c"UnknownCommand"
    SST_WRONG_ARGUMENTS WrongArguments c"WrongArguments"
    SST_MISSING_TIMESTAMP MissingTimestamp c"MissingTimestamp"
    SST_MALFORMED_TIMESTAMP MalformedTimestamp c"MalformedTimestamp"
    SST_EMPTY_KEY EmptyKey c"EmptyKey"
    SST_OTHER_REFUSAL OtherRefusal c"OtherRefusal"
}

/// Returns the name of a status, as in other languages: "TimedOut" for SST_TIMED_OUT, "unknown" for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn sst_status_name(status: i32) -> *const c_char {
    infallible::value(c"unknown".as_ptr(), || Ok(name(status).as_ptr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_status_and_a_name() {
        for kind in ErrorKind::ALL.iter().copied() {
            let status = sst_status::from(kind);
            assert_eq!(status as i32, i32::from(kind.code()), "{kind:?}");
            assert_eq!(name(status as i32).to_str(), Ok(&*format!("{kind:?}")));
        }
        assert_eq!(name(-1), c"unknown");
    }
}
