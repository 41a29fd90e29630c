//! Reasons of an end.
use crate::client::{self, sst_client};
use crate::error::{ErrorObject, sst_error};
use crate::guard::{self, sst_guard};
use crate::handle;
use crate::infallible;
use crate::mirror::sst_mirror;
use crate::observer::{ObserverObject, sst_observer};
use statestore_core::LostReason;
use statestore_embed::Mirror;
use std::ffi::{CStr, c_char};

/// The reason why an observer, a guard or a connection has ended. The numbers and words are the same in every language,
/// and are never reused. New reasons may appear.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_lost_reason {
    /// The object has not ended, or the handle is not one that can report an end.
    SST_NOT_LOST = 0,
    /// The client or the observer was closed, or the runtime that drove the client was shut down.
    SST_LOST_CLOSED = 1,
    /// Another connection with the same client id took the session over.
    SST_LOST_TAKEN_OVER = 2,
    /// The connection could not be made within `reconnect_limit`, or a `lazy` one within `connect_limit`.
    SST_LOST_GAVE_UP = 3,
    /// The broker or the store refused the credentials, the subscription or the watch.
    SST_LOST_REFUSED = 4,
    /// The lease was given back, or left to expire.
    SST_LOST_RELEASED = 5,
    /// The lease expired before it could be renewed.
    SST_LOST_EXPIRED = 6,
    /// Another client holds the lease, or the store no longer had it.
    SST_LOST_TAKEN = 7,
}

/// Maps each reason to its word.
macro_rules! table {
    ($($number:ident $reason:ident $word:literal)*) => {
        impl From<LostReason> for sst_lost_reason {
            fn from(reason: LostReason) -> Self {
                match reason {
                    $(LostReason::$reason => Self::$number,)*
                    // The test below finds a reason without a number.
                    _ => Self::SST_LOST_CLOSED,
                }
            }
        }

        fn word(reason: i32) -> &'static CStr {
            match reason {
                0 => c"not_lost",
                $(reason if reason == sst_lost_reason::$number as i32 => $word,)*
                _ => c"unknown",
            }
        }
    };
}

table! {
    SST_LOST_CLOSED Closed c"closed"
    SST_LOST_TAKEN_OVER TakenOver c"taken_over"
    SST_LOST_GAVE_UP GaveUp c"gave_up"
    SST_LOST_REFUSED Refused c"refused"
    SST_LOST_RELEASED Released c"released"
    SST_LOST_EXPIRED Expired c"expired"
    SST_LOST_TAKEN Taken c"taken"
}

fn number(reason: Option<LostReason>) -> sst_lost_reason {
    reason.map_or(sst_lost_reason::SST_NOT_LOST, Into::into)
}

/// Returns the word of a reason, as in other languages: "taken_over" for SST_LOST_TAKEN_OVER, "not_lost" for
/// SST_NOT_LOST, "unknown" for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn sst_lost_reason_word(reason: i32) -> *const c_char {
    infallible::value(c"unknown".as_ptr(), || Ok(word(reason).as_ptr()))
}

/// Returns the reason why a client's connection has ended; SST_NOT_LOST while it has not.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_lost_reason(client: *const sst_client) -> sst_lost_reason {
    infallible::value(sst_lost_reason::SST_NOT_LOST, || {
        Ok(number(client::get(client)?.lost_reason()?))
    })
}

/// Returns the reason why an observer has ended, after sst_observer_next() or the callback has reported the end;
/// SST_NOT_LOST before.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_lost_reason(observer: *const sst_observer) -> sst_lost_reason {
    infallible::value(sst_lost_reason::SST_NOT_LOST, || {
        let observer = handle::get::<ObserverObject>(observer)?;
        Ok(number(observer.end()?.lost_reason()))
    })
}

/// Returns the reason why a mirror has ended; SST_NOT_LOST while it has not. SST_LOST_REFUSED also means that the
/// entries exceed `max_keys` or `max_bytes`.
#[unsafe(no_mangle)]
pub extern "C" fn sst_mirror_lost_reason(mirror: *const sst_mirror) -> sst_lost_reason {
    infallible::value(sst_lost_reason::SST_NOT_LOST, || {
        Ok(number(handle::get::<Mirror>(mirror)?.lost_reason()?))
    })
}

/// Returns the reason why a lease is not certainly held any more; SST_NOT_LOST while it is.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_lost_reason(guard: *const sst_guard) -> sst_lost_reason {
    infallible::value(sst_lost_reason::SST_NOT_LOST, || {
        Ok(number(guard::get(guard)?.inner.lost_reason()?))
    })
}

/// Returns the reason of the end that an error reports, or SST_NOT_LOST if the error reports no end.
///
/// Callbacks of observations, holders and leaders receive such an error at their end, and so does a callback of states
/// with SST_ENDED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_error_lost_reason(error: *const sst_error) -> sst_lost_reason {
    infallible::value(sst_lost_reason::SST_NOT_LOST, || {
        Ok(number(handle::get::<ErrorObject>(error)?.lost_reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_number_and_a_word() {
        for reason in LostReason::ALL.iter().copied() {
            let number = sst_lost_reason::from(reason);
            assert_eq!(number as i32, i32::from(reason.code()), "{reason:?}");
            assert_eq!(word(number as i32).to_str(), Ok(reason.as_str()));
        }
        assert_eq!(word(-1), c"unknown");
    }
}
