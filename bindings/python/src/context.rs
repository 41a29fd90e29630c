//! Contexts of callers (`contextvars`).
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Returns a copy of the context of this thread, for functions that the caller passes and that are called elsewhere.
pub(crate) fn current(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let copy = COPY.import(py, "contextvars", "copy_context")?;
    Ok(copy.call0()?.unbind())
}
