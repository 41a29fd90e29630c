//! Calls of a client about one key that need no value, and a request that needs no key.
use crate::argument::{OptionalArgument, flag, integer, limit, time};
use crate::matching::Matching;
use crate::options;
use crate::outcome;
use crate::shared::Shared;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use statestore::GetOptions;
use std::sync::Arc;

/// The part of a client that asks about a key, or changes its time or number.
#[pyclass(
    name = "Client",
    frozen,
    subclass,
    extends = Matching,
    module = "statestore._native"
)]
#[derive(Debug)]
pub(crate) struct Keys {
    shared: Arc<Shared>,
}

impl Keys {
    pub(crate) fn of(shared: &Arc<Shared>) -> PyClassInitializer<Self> {
        let shared = Arc::clone(shared);
        PyClassInitializer::from(Matching::of(&shared)).add_subclass(Self { shared })
    }
}

/// Reads the options of a question about a key; `None` is the default.
fn question(
    eventual: OptionalArgument<'_, '_>,
    timeout: OptionalArgument<'_, '_>,
) -> PyResult<GetOptions> {
    Ok(GetOptions::new()
        .eventual(flag("eventual", eventual)?.unwrap_or_default())
        .timeout(time("timeout", timeout)?))
}

#[pymethods]
impl Keys {
    /// Returns whether a key is there. The request is that of `get`, so the store sends the value too.
    ///
    ///     >>> _ = client.set("greeting", "hello")
    ///     >>> client.exists("greeting")
    ///     True
    #[pyo3(
        signature = (key, *, eventual=None, timeout=None),
        text_signature = "($self, key, *, eventual=False, timeout=None)"
    )]
    fn exists<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        eventual: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let exists = self.shared.client.exists(key, question(eventual, timeout)?);
        self.shared
            .run(py, "GET", exists, |py, _, exists| exists.into_py_any(py))
    }

    /// Returns the remaining time of a key in seconds; ``math.inf`` if it does not expire, ``None`` if it is absent. A store without
    /// `Capabilities.remaining_time` raises `UnsupportedError`.
    ///
    ///     >>> _ = client.set("session", "open", expires_in=60)
    ///     >>> 59 < client.ttl("session") <= 60
    ///     True
    #[pyo3(
        signature = (key, *, eventual=None, timeout=None),
        text_signature = "($self, key, *, eventual=False, timeout=None)"
    )]
    fn ttl<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        eventual: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let ttl = self.shared.client.ttl(key, question(eventual, timeout)?);
        self.shared.run(py, "GET", ttl, |py, _, left| match left {
            Some(left) => Ok(outcome::expiry(py, left)?.unbind()),
            None => Ok(py.None()),
        })
    }

    /// Lets a key expire after ``expires_in``, at least 0.1 seconds, or never for ``math.inf``, and keeps its value. Returns false if the
    /// key is absent. This is an `update`, so the key gets a new version.
    ///
    ///     >>> _ = client.set("session", "open", expires_in=60)
    ///     >>> client.touch("session", 3600)
    ///     True
    ///     >>> client.touch("nothing", 3600)
    ///     False
    #[pyo3(
        signature = (key, expires_in, *, persist=None, timeout=None),
        text_signature = "($self, key, expires_in, *, persist=False, timeout=None)"
    )]
    fn touch<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        expires_in: &Bound<'py, PyAny>,
        persist: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let expires_in = limit("expires_in", Some(expires_in))?.unwrap_or_default();
        let options = options::update(None, persist, timeout)?;
        let touch = self.shared.client.touch(key, expires_in, options);
        self.shared.run(py, "updating", touch, |py, _, touched| {
            touched.into_py_any(py)
        })
    }

    /// Adds ``by`` to the number in a key, and returns the new number. An absent key counts as 0. The value is a decimal number in ASCII,
    /// of 64 bits; any other value, and an overflow, raise `InvalidArgumentError`, and nothing is written.
    ///
    /// The key keeps the time that it has left, unless you set ``expires_in``. This is an `update`.
    ///
    ///     >>> client.incr("parts"), client.incr("parts", 10), client.incr("parts", -1)
    ///     (1, 11, 10)
    #[pyo3(
        signature = (key, by=None, *, expires_in=None, persist=None, timeout=None),
        text_signature = "($self, key, by=1, *, expires_in=None, persist=False, timeout=None)"
    )]
    fn incr<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        by: OptionalArgument<'_, 'py>,
        expires_in: OptionalArgument<'_, 'py>,
        persist: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let by = integer("by", by)?.unwrap_or(1);
        let options = options::update(expires_in, persist, timeout)?;
        let incr = self.shared.client.incr(key, by, options);
        self.shared
            .run(py, "updating", incr, |py, _, number| number.into_py_any(py))
    }

    /// Sends a request that needs no right on a key, and returns the seconds until the store answered.
    ///
    ///     >>> client.ping() < 10
    ///     True
    #[pyo3(
        signature = (*, timeout=None),
        text_signature = "($self, *, timeout=None)"
    )]
    fn ping<'py>(
        &self,
        py: Python<'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ping = self.shared.client.ping(time("timeout", timeout)?);
        self.shared.run(py, "CAPS", ping, |py, _, took| {
            took.as_secs_f64().into_py_any(py)
        })
    }
}
