//! Contexts of callers (`contextvars`).
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Returns a copy of the context of this thread, for functions from the caller that run on another thread.
pub(crate) fn current(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let copy = COPY.import(py, "contextvars", "copy_context")?;
    Ok(copy.call0()?.unbind())
}
