//! Scans.
use crate::shared::Shared;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use std::sync::Arc;

/// The keys that match a pattern, page by page.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scan: statestore_embed::Scan,
}

#[pymethods]
impl Scan {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    /// The next page, which may be empty although others follow; ``None`` after the last one. After an error the same
    /// page can be asked for again.
    fn next_page<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let page = self.scan.next_page();
        self.shared.run(py, "scanning", page, |py, codec, page| {
            let Some(page) = page else {
                return Ok(py.None());
            };
            let keys: PyResult<Vec<_>> = page.iter().map(|key| codec.write(py, key)).collect();
            keys?.into_py_any(py)
        })
    }
}
