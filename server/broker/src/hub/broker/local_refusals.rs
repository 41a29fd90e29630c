//! Refusals of requests by one server of several.
//!
//! Another server may have executed the request before, if the broker gave it to that server first. It may also still do so, if it is
//! suspended and does not know that its connection is over. So a refusal must not claim that the request was *not executed*.
use statestore_protocol::{Reply, ServiceError};
use statestored_store::service::{Outcome, error_of};

/// Status of a request that this server did not execute, which clients take for *unknown*.
pub(super) const UNAVAILABLE_STATUS: &str = "503";

/// Returns whether an outcome is a refusal for a reason that another server may not have. The answer is not remembered for all servers.
pub(super) fn is_local_refusal(outcome: &Outcome) -> bool {
    let error = match outcome {
        Outcome::Refused(_) => return true,
        Outcome::Unknown => return false,
        Outcome::Replied(response) => error_of(&response.reply),
    };
    // These two depend on the entry, and are stored with it.
    error.is_some_and(|error| {
        !matches!(
            error,
            ServiceError::FencingTokenLower | ServiceError::FencingTokenRequired
        )
    })
}

/// Returns the error if this server, its clock or its view of the engine is the reason. All other errors come from the request or the
/// rules, which are the same for all servers.
pub(super) fn local_error(reply: &Reply) -> Option<&ServiceError> {
    error_of(reply).filter(|error| {
        matches!(
            error,
            ServiceError::QuotaExceeded
                | ServiceError::TimestampSkew
                | ServiceError::FencingTokenSkew
        )
    })
}
