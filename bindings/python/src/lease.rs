//! Leases.
use crate::guard::Guard;
use crate::observer::{check_callback, observer};
use crate::outcome;
use crate::shared::Shared;
use pyo3::prelude::*;
use statestore_embed::Acquisition;
use std::sync::Arc;

/// A lease, identified by its name: at most one holder at a time, as long as it renews.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    inner: statestore_embed::Lease,
    name: Arc<[u8]>,
}

impl Lease {
    pub(crate) fn of(shared: &Arc<Shared>, inner: statestore_embed::Lease, name: &[u8]) -> Self {
        Self {
            shared: Arc::clone(shared),
            inner,
            name: name.into(),
        }
    }
}

#[pymethods]
impl Lease {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    fn __repr__(&self) -> String {
        format!("<Lease b\"{}\">", self.name.escape_ascii())
    }

    /// The key of the lease.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared.codec.write(py, &self.name)
    }

    /// Tries once to take the lease: a `Guard`, or `Held` with the holder, which is false.
    ///
    ///     >>> lease = client.lease("pump/owner")
    ///     >>> guard = lease.acquire()
    ///     >>> client.lease("pump/owner").acquire()  # doctest: +ELLIPSIS
    ///     Held(by=Holding(holder=Holder(name=b'...', client_id='...'), version=Hlc('...')))
    ///     >>> guard.release()
    ///     Release.RELEASED
    fn acquire<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shared = Arc::clone(&self.shared);
        let acquired = self.inner.acquire();
        self.shared.run(
            py,
            "taking a lease",
            acquired,
            move |py, codec, acquired| match acquired {
                Acquisition::Acquired(guard) => {
                    let guard = Guard::new(py, &shared, guard)?;
                    shared.wrap(py, "Guard", guard)
                }
                Acquisition::Held(by) => outcome::held(py, codec, by.as_ref()),
            },
        )
    }

    /// Releases the lease that is held under the resumed holder's name, whichever program took it: a `Release`. A guard releases its
    /// lease back by itself.
    fn release<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let release = self.inner.release();
        self.shared
            .run(py, "giving a lease back", release, |py, _, outcome| {
                outcome::release(py, outcome)
            })
    }

    /// Returns the holder: a `Holding`, or ``None``.
    fn holder<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let holder = self.inner.holder();
        self.shared.run(
            py,
            "asking who holds a lease",
            holder,
            |py, codec, found| outcome::optional_holding(py, codec, found.as_ref()),
        )
    }

    /// Observes the holder: each observation is a `Holding`, or `NoHolder`, which is false.
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
            .run(py, "following a lease", feed, move |py, _, feed| {
                observer(
                    py,
                    &shared,
                    Some(&name),
                    feed,
                    callback,
                    |py, codec, found| match found
                        .map_err(|error| crate::error::to_python(py, &error))?
                    {
                        Some(holding) => outcome::holding(py, codec, &holding),
                        None => outcome::no_holder(py),
                    },
                )
            })
    }
}
