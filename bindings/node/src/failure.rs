//! Errors on their way to JavaScript.
use napi::{Env, Status};
use napi_derive::napi;
use statestore::Outcome;
use statestore_embed::{Error, ErrorKind};
use std::error::Error as _;

/// Details from which the JavaScript layer creates an error.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct Failure {
    pub kind: String,
    pub outcome: &'static str,
    pub retryable: bool,
    pub message: String,
    /// Messages of the causes, the nearest first.
    pub causes: Vec<String>,
    /// The number of the system's error behind it.
    pub errno: Option<i32>,
    /// Which one of a transaction.
    pub operation: Option<u32>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Self {
            kind: format!("{:?}", error.kind()),
            outcome: match error.outcome() {
                Outcome::NotDone => "not_done",
                Outcome::Unknown => "unknown",
            },
            retryable: error.is_retryable(),
            message: error.to_string(),
            causes,
            errno: error.os_error(),
            operation: error.operation().and_then(|at| u32::try_from(at).ok()),
        }
    }
}

/// The name, the number and whether it is retryable, of every kind of error.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct ErrorKindInfo {
    pub name: String,
    pub code: u32,
    pub retryable: bool,
}

/// Returns all kinds of errors.
#[napi]
pub fn error_kinds() -> Vec<ErrorKindInfo> {
    let kind = |kind: ErrorKind| ErrorKindInfo {
        name: format!("{kind:?}"),
        code: kind.code().into(),
        retryable: kind.is_retryable(),
    };
    ErrorKind::ALL.iter().copied().map(kind).collect()
}

/// Throws a failure as it is; the face catches it and throws an error of its own.
pub(crate) fn throw(env: &Env, error: Error) -> napi::Error {
    match env.throw(Failure::from(error)) {
        Ok(()) => napi::Error::from_status(Status::PendingException),
        Err(error) => error,
    }
}
