//! Status codes.
use crate::boundary;
use statestore_embed::ErrorKind;
use std::ffi::{CStr, c_char};

/// What became of a call. The numbers are the same in every language, and are never used for something else.
///
/// A program that meets a number that it does not know goes by sst_error_outcome() and sst_error_is_retryable().
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_status {
    /// It succeeded. An absent key and a condition that is not met are successes.
    SST_OK = 0,
    /// An argument cannot be used: an empty key, a key or pattern that is longer than the store takes, an expiry of 0
    /// ms, a name that no lock can have. In C also NULL where that is not allowed, and options of another version.
    SST_INVALID_ARGUMENT = 1,
    /// The connection settings contradict each other, cannot be parsed, or name a file that cannot be used.
    SST_INVALID_SETTINGS = 2,
    /// A handle was freed before, or is of another type. Only in C.
    SST_INVALID_HANDLE = 3,
    /// The call would wait for itself, as closing a client in one of its own callbacks. Not in Node.
    SST_WRONG_THREAD = 4,
    /// A bug of this library was met, or the system gives no thread.
    SST_INTERNAL = 5,
    /// The broker could not be reached: name not found, connection refused, no answer in time.
    SST_UNREACHABLE = 10,
    /// The broker answered the CONNECT or the SUBSCRIBE with a refusal.
    SST_CONNECTION_REFUSED = 11,
    /// The broker does not accept the credentials, or does not allow this client what it needs.
    SST_NOT_AUTHENTICATED = 12,
    /// The connection was lost, and the session with it, so no response can come any more.
    SST_SESSION_LOST = 13,
    /// The client was closed, or gave up its connection for good. In C also the end of what is observed.
    SST_CLOSED = 14,
    /// The broker's TLS certificate is not acceptable: signed by somebody unknown, expired, or made out to another
    /// name.
    SST_UNTRUSTED = 15,
    /// The client was made before this process was forked from another one, which still has it. Not in Node.
    SST_FORKED = 16,
    /// No response came in time, there was no connection to send the request on, or nothing happened while it was
    /// waited for.
    SST_TIMED_OUT = 20,
    /// As many requests wait as may wait.
    SST_QUEUE_FULL = 21,
    /// The request is larger than the broker or MQTT allows, or the value than `max_value_bytes`.
    SST_TOO_LARGE = 22,
    /// The broker refused to take the request.
    SST_REJECTED = 23,
    /// No state store listens behind the broker.
    SST_NO_STORE = 24,
    /// The caller gave the operation up, or interrupted waiting for it. Not in Rust, where the future is dropped.
    SST_CANCELLED = 25,
    /// A newer SET of the key took its place before it was sent, as the option `coalesce` asks while the network is
    /// away.
    SST_SUPERSEDED = 26,
    /// The response is not what the protocol defines.
    SST_INVALID_RESPONSE = 30,
    /// The response says that the remote procedure call itself failed.
    SST_RPC = 31,
    /// The store cannot do that: not every store has conditions on versions, remaining times and transactions.
    SST_UNSUPPORTED = 32,
    /// Somebody else holds the lock, and the time to wait for it is over.
    SST_LOCK_HELD = 40,
    /// The lock is lost or was given back, so nothing is done in its name any more.
    SST_LOCK_LOST = 41,
    /// The key of the lock holds something that is not the name of a holder.
    SST_NOT_A_LOCK = 42,
    /// The store refused: the clocks of client and store are too far apart.
    SST_TIMESTAMP_SKEW = 100,
    /// The store refused: the key is protected by a fencing token and the request has none.
    SST_FENCING_TOKEN_REQUIRED = 101,
    /// The store refused: the fencing token is too far in the future.
    SST_FENCING_TOKEN_SKEW = 102,
    /// The store refused: the key is protected by a higher fencing token.
    SST_FENCING_TOKEN_LOWER = 103,
    /// The store refused: it holds as many keys as it may.
    SST_QUOTA_EXCEEDED = 104,
    /// The store refused: the payload is not what it expects.
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
    /// The store refused with a text that this version of the library does not know.
    SST_OTHER_REFUSAL = 199,
}

/// Each status with its kind and its name.
macro_rules! table {
    ($($status:ident $kind:ident $name:literal)*) => {
        impl From<ErrorKind> for sst_status {
            fn from(kind: ErrorKind) -> Self {
                match kind {
                    $(ErrorKind::$kind => Self::$status,)*
                    // A kind without a status is found by the test below.
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

/// The name of a status, as other languages have it: "TimedOut" for SST_TIMED_OUT, "unknown" for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn sst_status_name(status: i32) -> *const c_char {
    boundary::value(c"unknown".as_ptr(), || Ok(name(status).as_ptr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number_and_its_name() {
        for kind in ErrorKind::ALL.iter().copied() {
            let status = sst_status::from(kind);
            assert_eq!(status as i32, i32::from(kind.code()), "{kind:?}");
            assert_eq!(name(status as i32).to_str(), Ok(&*format!("{kind:?}")));
        }
        assert_eq!(name(-1), c"unknown");
    }
}
