//! Reasons why an operation ends without a result, and the errors for them.
use crate::error::{Error, ErrorKind};
use statestore::Outcome;

/// Why an operation ended before its future did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Cancelled,
    Closed,
    Panicked,
    /// The program closed the descriptors of the runtime.
    RuntimeFailed,
}

impl Cause {
    /// Returns the error that an operation ends with.
    pub(crate) fn error(self, action: &str, outcome: Outcome) -> Error {
        match self {
            Self::Cancelled => {
                Error::new(ErrorKind::Cancelled, outcome, action, "it was cancelled")
            }
            Self::Closed => Error::new(ErrorKind::Closed, outcome, action, "the client was closed"),
            Self::Panicked => panicked(action, outcome),
            Self::RuntimeFailed => runtime_failed(action, outcome),
        }
    }
}

/// Returns the error for a panic in this operation.
pub(crate) fn panicked(action: &str, outcome: Outcome) -> Error {
    let reason = "an internal error of the library; the client can no longer be used";
    Error::new(ErrorKind::Internal, outcome, action, reason)
}

/// Returns the error for a panic in an earlier operation.
pub(crate) fn poisoned() -> Error {
    let reason = "an internal error of the library; close this client and create a new one";
    Error::new(ErrorKind::Internal, Outcome::NotDone, "the client", reason)
}

/// Returns the error for a closed client.
pub(crate) fn closed() -> Error {
    let reason = "it was closed";
    Error::new(ErrorKind::Closed, Outcome::NotDone, "the client", reason)
}

/// Returns the error for a runtime without descriptors.
pub(crate) fn runtime_failed(action: &str, outcome: Outcome) -> Error {
    let reason = "the program closed the file descriptors of the library; connect a new client";
    Error::new(ErrorKind::Closed, outcome, action, reason)
}

/// Returns the error for a missing system resource.
pub(crate) fn resource_unavailable(action: &str, reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::Internal, Outcome::NotDone, action, reason)
}

pub(crate) fn wrong_thread(action: &str, reason: &str) -> Error {
    Error::new(ErrorKind::WrongThread, Outcome::NotDone, action, reason)
}
