//! Errors as gRPC statuses, and those that daprd reports as errors of an `ETag`.
use statestore::{Error, ErrorKind, Outcome};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Field of a violation by which daprd recognises an error of an `ETag`.
const ETAG: &str = "etag";

/// Returns the error for an `ETag` that is not that of the entry.
pub(crate) fn mismatch(description: &str) -> Status {
    etag_error(Code::FailedPrecondition, description)
}

/// Returns the error for an `ETag` that no store gives out.
pub(crate) fn invalid_etag(description: &str) -> Status {
    etag_error(Code::InvalidArgument, description)
}

/// Creates an `ETag` error. daprd expects exactly this one detail, and distinguishes the two kinds by the code.
fn etag_error(code: Code, description: &str) -> Status {
    let details = ErrorDetails::with_bad_request_violation(ETAG, description);
    Status::with_error_details(code, description, details)
}

/// Whether daprd takes an error for an `ETag` error.
pub(crate) fn is_etag_error(status: &Status) -> bool {
    !status.details().is_empty()
}

/// Returns the same error with its place in front. The details repeat the message, and daprd shows theirs.
pub(crate) fn with_location(place: &str, status: &Status) -> Status {
    let message = format!("{place}: {}", status.message());
    if is_etag_error(status) {
        etag_error(status.code(), &message)
    } else {
        Status::new(status.code(), message)
    }
}

/// Returns the status for an error of the client.
pub(crate) fn failed(error: &Error) -> Status {
    Status::new(code(error), error.to_string())
}

fn code(error: &Error) -> Code {
    match error.kind() {
        ErrorKind::TimedOut => Code::DeadlineExceeded,
        _ if error.outcome() == Outcome::Unknown => Code::Unknown,
        ErrorKind::InvalidArgument | ErrorKind::InvalidSettings | ErrorKind::EmptyKey => {
            Code::InvalidArgument
        }
        ErrorKind::Unreachable
        | ErrorKind::ConnectionRefused
        | ErrorKind::SessionLost
        | ErrorKind::Closed
        | ErrorKind::Rejected
        | ErrorKind::NoStore => Code::Unavailable,
        ErrorKind::NotAuthenticated | ErrorKind::Untrusted => Code::Unauthenticated,
        ErrorKind::NotAuthorized => Code::PermissionDenied,
        ErrorKind::QueueFull | ErrorKind::TooLarge | ErrorKind::QuotaExceeded => {
            Code::ResourceExhausted
        }
        // This error lacks the detail of `mismatch`, so that daprd does not take it for an `ETag` error.
        ErrorKind::FencingTokenRequired
        | ErrorKind::FencingTokenSkew
        | ErrorKind::FencingTokenLower => Code::FailedPrecondition,
        ErrorKind::UnknownCommand | ErrorKind::Unsupported => Code::Unimplemented,
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_has_the_one_detail_that_daprd_wants() {
        let status = mismatch("the ETag is stale");
        assert_eq!(status.code(), Code::FailedPrecondition);
        let details = status.get_error_details();
        let violations = &details.bad_request().unwrap().field_violations;
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].field, "etag");
        assert_eq!(status.get_error_details_vec().len(), 1);
    }

    #[test]
    fn a_location_keeps_the_kind_of_an_etag_error() {
        let status = with_location("here", &invalid_etag("malformed"));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(is_etag_error(&status));
    }

    #[test]
    fn a_location_precedes_the_whole_message() {
        let status = with_location("here", &mismatch("stale"));
        assert_eq!(status.message(), "here: stale");
        let details = status.get_error_details();
        let violations = &details.bad_request().unwrap().field_violations;
        assert_eq!(violations[0].description, "here: stale");
        let bytes = String::from_utf8_lossy(status.details()).into_owned();
        assert_eq!(bytes.matches("here: stale").count(), 2, "{bytes:?}");
        let status = with_location("here", &Status::internal("broken"));
        assert_eq!(
            (status.code(), status.message()),
            (Code::Internal, "here: broken")
        );
        assert!(status.details().is_empty());
    }

    #[test]
    fn other_errors_are_not_etag_errors() {
        for kind in ErrorKind::ALL {
            let error = Error::new(*kind, Outcome::NotDone, "SET of 3 bytes", "it failed");
            let status = failed(&error);
            assert_ne!(status.code(), Code::Ok);
            assert!(status.details().is_empty(), "{kind}");
            assert_eq!(status.message(), "SET of 3 bytes: it failed");
        }
        let unknown = Error::new(
            ErrorKind::SessionLost,
            Outcome::Unknown,
            "SET",
            "it was lost",
        );
        assert_eq!(failed(&unknown).code(), Code::Unknown);
    }
}
