//! The condition of a version.
use crate::argument::wrong_type;
use crate::hlc::Hlc;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use statestore::Version;

/// A condition of `Client.set`: only if the key has this version.
#[pyclass(frozen, module = "statestore")]
#[derive(Debug)]
pub(crate) struct IfVersion(statestore::Hlc);

impl IfVersion {
    pub(crate) fn version(&self) -> Version {
        Version::from(&self.0)
    }
}

#[pymethods]
impl IfVersion {
    /// The version.
    #[getter(version)]
    fn hlc(&self) -> Hlc {
        Hlc(self.0.clone())
    }

    fn __richcmp__(&self, other: &Self, operator: CompareOp) -> Option<bool> {
        let equal = self.0 == other.0;
        match operator {
            CompareOp::Eq => Some(equal),
            CompareOp::Ne => Some(!equal),
            _ => None,
        }
    }

    fn __hash__(&self) -> u64 {
        Hlc(self.0.clone()).__hash__()
    }

    fn __repr__(&self) -> String {
        format!("if_version(Hlc('{}'))", self.0)
    }
}

/// The condition that a key has this version, for `Client.set`. On a store without such conditions
/// (`Capabilities.conditions`), the value that had the version is compared, under a fence.
#[pyfunction]
#[pyo3(signature = (version, /))]
pub(crate) fn if_version(version: &Bound<'_, PyAny>) -> PyResult<IfVersion> {
    match version.cast::<Hlc>() {
        Ok(version) => Ok(IfVersion(version.get().0.clone())),
        Err(_) => Err(wrong_type("version", "an Hlc", version)),
    }
}
