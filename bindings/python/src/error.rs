//! Errors as exceptions.
use crate::interpreter::Invoke;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use statestore::Outcome;
use statestore_embed::{Error, ErrorKind};
use std::io;

static HOST_REFUSED: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns the exception of an error: an instance of the class of its kind.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception of an error as an object.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let outcome = match error.outcome() {
        Outcome::NotDone => "not_done",
        Outcome::Unknown => "unknown",
    };
    let class = if is_refused_by_host(error) {
        HOST_REFUSED
            .import(py, "statestore._errors", "HostRefusedError")?
            .clone()
            .into_any()
    } else {
        class(py, &format!("{:?}", error.kind()))?
    };
    let made = class.invoke((error.to_string(), outcome, error.is_retryable()))?;
    if let Some(number) = error.os_error() {
        // Python makes a `ConnectionRefusedError` and the like of the number.
        let text = py.import("os")?.call_method1("strerror", (number,))?;
        let cause = py.get_type::<PyOSError>().call1((number, text))?;
        made.setattr("errno", number)?;
        made.setattr("__cause__", cause)?;
    }
    if let Some(operation) = error.operation() {
        made.setattr("operation", operation)?;
    }
    Ok(made)
}

/// Returns whether the host of the broker refused the connection: it exists, but no program listens at the port.
fn is_refused_by_host(error: &Error) -> bool {
    let is_refused =
        |number| io::Error::from_raw_os_error(number).kind() == io::ErrorKind::ConnectionRefused;
    error.kind() == ErrorKind::Unreachable && error.os_error().is_some_and(is_refused)
}

/// Returns the exception for an invalid argument, detected before any request.
pub(crate) fn invalid(py: Python<'_>, message: &str) -> PyErr {
    let kind = format!("{:?}", ErrorKind::InvalidArgument);
    let made = class(py, &kind).and_then(|class| class.invoke((message, "not_done", false)));
    made.map_or_else(|error| error, PyErr::from_value)
}

fn class<'py>(py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyAny>> {
    static KINDS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let kinds = KINDS.import(py, "statestore._errors", "KINDS")?;
    match kinds.get_item(kind)? {
        Some(class) => Ok(class),
        None => Ok(BASE
            .import(py, "statestore._errors", "StateStoreError")?
            .clone()
            .into_any()),
    }
}

/// Returns whether an exception is of this kind.
pub(crate) fn is(py: Python<'_>, error: &PyErr, kind: ErrorKind) -> bool {
    let class = class(py, &format!("{kind:?}"));
    class.is_ok_and(|class| error.matches(py, class).unwrap_or(false))
}
