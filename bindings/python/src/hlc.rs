//! Versions and fencing tokens.
use crate::argument::wrong_type;
use crate::error;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The version of a value, or a fencing token: a timestamp of a hybrid logical clock.
///
/// Versions are ordered: of two versions of a key, the newer is the greater one.
///
///     >>> from statestore import Hlc
///     >>> version = Hlc("001696374425000:00001:store")
///     >>> version.wall_ms, version.counter, version.node_id
///     (1696374425000, 1, 'store')
///     >>> version < Hlc("001696374425000:00002:store")
///     True
///     >>> str(version)
///     '001696374425000:00001:store'
#[pyclass(frozen, module = "statestore")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hlc(pub(crate) statestore::Hlc);

#[pymethods]
impl Hlc {
    #[new]
    #[pyo3(signature = (text, /))]
    fn new(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(text) = text.cast::<PyString>() else {
            return Err(wrong_type("text", "str", text));
        };
        text.to_str()?.parse().map(Self).map_err(|problem| {
            error::invalid(text.py(), &format!("{text:?} is not a version: {problem}"))
        })
    }

    /// Milliseconds since 1970, by the clock of the store.
    #[getter]
    fn wall_ms(&self) -> u64 {
        self.0.wall_ms()
    }

    /// Tells timestamps of the same millisecond apart.
    #[getter]
    fn counter(&self) -> u64 {
        self.0.counter()
    }

    /// Id of the node whose clock it is.
    #[getter]
    fn node_id(&self) -> &str {
        self.0.node_id()
    }

    fn __richcmp__(&self, other: &Self, operator: CompareOp) -> bool {
        operator.matches(self.0.cmp(&other.0))
    }

    pub(crate) fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.to_string().hash(&mut hasher);
        hasher.finish()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Hlc('{}')", self.0)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let text = slf.get().__str__();
        (slf.get_type(), (text,)).into_pyobject(slf.py())
    }
}
