//! What one server of several says of a request that it did not execute.
//!
//! Another one may have executed it before, if the broker gave it to that one first, or may still do so, if that one stands still and does not
//! know that its connection is over. So *not executed* would be too much to say.
use crate::service::Outcome;
use statestore_protocol::{Rejection, Reply, ServiceError};

/// The status of a request that this server did not execute, which clients take for *unknown*.
pub(super) const UNAVAILABLE: &str = "503";

/// Whether an outcome says that a request was not executed, for a reason that another server may not find: nobody keeps such an
/// answer for all of them.
pub(super) fn is_of_this_moment(outcome: &Outcome) -> bool {
    let error = match outcome {
        Outcome::Refused(_) => return true,
        Outcome::Unknown => return false,
        Outcome::Answered(answered) => error(&answered.response.reply),
    };
    // These are found in the entry, and kept with it.
    error.is_some_and(|error| {
        !matches!(
            error,
            ServiceError::FencingTokenLower | ServiceError::FencingTokenRequired
        )
    })
}

/// The error, if it is one of this server, of its clock or of how it finds the engine. All others are of the request or of the rules, which are
/// the same for all servers.
pub(super) fn of_this_server(reply: &Reply) -> Option<&ServiceError> {
    error(reply).filter(|error| {
        matches!(
            error,
            ServiceError::QuotaExceeded
                | ServiceError::TimestampSkew
                | ServiceError::FencingTokenSkew
        )
    })
}

fn error(reply: &Reply) -> Option<&ServiceError> {
    match reply {
        Reply::Error(error)
        | Reply::Rejected {
            reason: Rejection::Error(error),
            ..
        } => Some(error),
        _ => None,
    }
}
