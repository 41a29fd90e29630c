//! Elections.
use crate::argument::time;
use crate::guard::Guard;
use crate::observer::{check_callback, observer};
use crate::outcome;
use crate::shared::Shared;
use pyo3::prelude::*;
use statestore_embed::OperationDescriptor;
use std::sync::Arc;

/// An election, identified by its name: one leader at a time, which publishes a value.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Election {
    shared: Arc<Shared>,
    inner: statestore_embed::Election,
    name: Arc<[u8]>,
}

impl Election {
    pub(crate) fn of(shared: &Arc<Shared>, inner: statestore_embed::Election, name: &[u8]) -> Self {
        Self {
            shared: Arc::clone(shared),
            inner,
            name: name.into(),
        }
    }
}

#[pymethods]
impl Election {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    fn __repr__(&self) -> String {
        format!("<Election b\"{}\">", self.name.escape_ascii())
    }

    /// The name of the election.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared.codec.write(py, &self.name)
    }

    /// Waits until this client leads, and publishes a value: a `Leadership`.
    ///
    ///     >>> election = client.election("line-7/leader")
    ///     >>> with election.campaign("host-a") as leadership:
    ///     ...     election.leader().value
    ///     b'host-a'
    ///     >>> election.leader() is None
    ///     True
    fn campaign<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = self.shared.codec.read("value", value)?;
        let shared = Arc::clone(&self.shared);
        let campaign = self.inner.campaign(value);
        self.shared.run(
            py,
            OperationDescriptor::event("campaigning"),
            campaign,
            move |py, _, guard| {
                let guard = Guard::new(py, &shared, guard)?;
                shared.wrap(py, "Leadership", Leadership { guard })
            },
        )
    }

    /// Returns the leader: a `Leader`, or ``None``.
    fn leader<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let leader = self.inner.leader();
        self.shared.run(
            py,
            "asking who leads",
            leader,
            |py, codec, leader| match leader {
                Some(leader) => outcome::leader(py, codec, &leader),
                None => Ok(py.None()),
            },
        )
    }

    /// Observes the leader: each observation is a `Leader`, or `NoHolder`, which is false.
    #[pyo3(signature = (callback=None))]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        callback: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let callback = check_callback(callback)?;
        let (shared, name) = (Arc::clone(&self.shared), Arc::clone(&self.name));
        let feed = self.inner.observe();
        self.shared
            .run(py, "following an election", feed, move |py, _, feed| {
                observer(
                    py,
                    &shared,
                    Some(&name),
                    feed,
                    callback,
                    |py, codec, found| match found
                        .map_err(|error| crate::error::to_python(py, &error))?
                    {
                        Some(leader) => outcome::leader(py, codec, &leader),
                        None => outcome::no_holder(py),
                    },
                )
            })
    }
}

/// The leadership of an election.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Leadership {
    guard: Guard,
}

#[pymethods]
impl Leadership {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    fn __repr__(&self) -> String {
        format!("<Leadership of {}>", self.guard.__repr__())
    }

    /// Returns whether the last object of its guard is about to go while the lead is held.
    fn _is_dropped_held(&self) -> bool {
        self.guard.is_dropped_held()
    }

    /// The guard of the lock behind it, for guarded writes.
    #[getter]
    fn guard(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.guard.shared.wrap(py, "Guard", self.guard.clone())
    }

    /// Publishes another value: a `SetOutcome`.
    fn proclaim<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = self.guard.shared.codec.read("value", value)?;
        let proclaim = self.guard.inner.proclaim(value);
        self.guard
            .shared
            .run(py, "proclaiming", proclaim, |py, _, outcome| {
                outcome::set(py, &outcome)
            })
    }

    /// Leaves the block of the lead.
    #[pyo3(name = "_finish")]
    fn finish<'py>(&self, py: Python<'py>, has_failed: bool) -> PyResult<Bound<'py, PyAny>> {
        self.guard.finish(py, has_failed)
    }

    /// Resigns: a `Release`. It takes at most ``timeout``, as `Guard.release`.
    #[pyo3(signature = (*, timeout=None))]
    fn resign<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let resign = self.guard.inner.release(time("timeout", timeout)?);
        self.guard
            .shared
            .run_release(py, "resigning", resign, |py, outcome| {
                outcome::release(py, outcome)
            })
    }
}
