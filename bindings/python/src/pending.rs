//! An operation that the event loop waits for.
use crate::error;
use pyo3::prelude::*;
use statestore_embed::Operation;

/// A future of asyncio, and the operation behind it.
#[pyclass(frozen, module = "statestore._native")]
#[derive(Debug)]
pub(crate) struct Pending {
    /// Gets the result.
    #[pyo3(get)]
    pub(crate) future: Py<PyAny>,
    pub(crate) operation: Operation,
}

#[pymethods]
impl Pending {
    /// Cancels the operation, if it is still under way.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        match self.operation.cancel() {
            Ok(_) => Ok(()),
            Err(error) => Err(error::to_python(py, &error)),
        }
    }
}
