//! Held locks.
use crate::argument::time;
use crate::error;
use crate::hlc::Hlc;
use crate::options;
use crate::outcome;
use crate::shared::Shared;
use crate::update::{self, ChangeFunction};
use pyo3::prelude::*;
use statestore_embed::OperationDescriptor;
use statestore_embed::WorkOutcome;
use std::sync::Arc;

/// A held lock, which it renews, and whose loss it reports.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inner: statestore_embed::Guard,
    /// Constant values, which are also available in a forked child.
    name: Arc<[u8]>,
    holder: statestore::Holder,
    token: statestore::Hlc,
    /// Shared by all objects of this guard, and so a count of them.
    objects: Arc<()>,
}

impl Guard {
    pub(crate) fn new(
        py: Python<'_>,
        shared: &Arc<Shared>,
        guard: statestore_embed::Guard,
    ) -> PyResult<Self> {
        let to_python = |error| error::to_python(py, &error);
        Ok(Self {
            shared: Arc::clone(shared),
            name: guard.name().map_err(to_python)?.as_ref().into(),
            holder: guard.holder().map_err(to_python)?.clone(),
            token: guard.token().map_err(to_python)?.clone(),
            inner: guard,
            objects: Arc::default(),
        })
    }
}

#[pymethods]
impl Guard {
    #[new]
    fn copy(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    pub(crate) fn __repr__(&self) -> String {
        let (name, token) = (self.name.escape_ascii(), &self.token);
        match self.inner.lost_reason() {
            Ok(Some(lost_reason)) => {
                format!("<Guard b\"{name}\" {token} {}>", lost_reason.as_str())
            }
            _ => format!("<Guard b\"{name}\" {token}>"),
        }
    }

    /// The key of the lock.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared.codec.write(py, &self.name)
    }

    /// Name under which the lock is held: a `Holder`.
    #[getter]
    fn holder(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        outcome::holder(py, &self.shared.codec, &self.holder)
    }

    /// Fencing token, which every guarded write carries.
    #[getter]
    fn token(&self) -> Hlc {
        Hlc(self.token.clone())
    }

    /// Returns whether the lock is certainly held now, and was not released.
    fn is_valid(&self, py: Python<'_>) -> PyResult<bool> {
        let is_valid = self.inner.is_valid();
        is_valid.map_err(|error| error::to_python(py, &error))
    }

    /// Waits until the lock is lost or released, and returns the reason, as `lost_reason`; ``None`` if it is still held after ``timeout``.
    #[pyo3(signature = (*, timeout=None))]
    fn lost<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let timeout = time("timeout", timeout)?;
        let lost = self.inner.lost();
        let lost = async move {
            match timeout {
                None => lost.await.map(Some),
                Some(timeout) => match tokio::time::timeout(timeout, lost).await {
                    Ok(lost) => lost.map(Some),
                    Err(_) => Ok(None),
                },
            }
        };
        self.shared.run(
            py,
            OperationDescriptor::event("waiting for the loss of a lock"),
            lost,
            |py, _, lost| outcome::lost_reason(py, lost),
        )
    }

    /// Returns the reason why the lock is no longer certainly held: a `LostReason`; ``None`` while it is held.
    fn lost_reason(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let lost_reason = self.inner.lost_reason();
        outcome::lost_reason(
            py,
            lost_reason.map_err(|error| error::to_python(py, &error))?,
        )
    }

    /// Returns the exception of the last failed renewal, or of the loss; ``None`` if it has no details beyond
    /// `lost_reason`.
    fn reason<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let reason = self.inner.reason();
        let reason = reason.map_err(|error| error::to_python(py, &error))?;
        reason
            .map(|reason| error::exception(py, &reason))
            .transpose()
    }

    /// Renews the lease now, and returns the new version of its key.
    fn renew<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let renew = self.inner.renew();
        self.shared
            .run(py, "renewing a lease", renew, |py, _, version| {
                Ok(Py::new(py, Hlc(version))?.into_any())
            })
    }

    /// Returns whether the last object of it is about to go while the lock is held.
    #[pyo3(name = "_is_dropped_held")]
    pub(crate) fn is_dropped_held(&self) -> bool {
        // In a forked child, the guard has no owner.
        Arc::strong_count(&self.objects) == 1 && self.inner.is_valid().unwrap_or(false)
    }

    /// Leaves the lock's block.
    #[pyo3(name = "_finish")]
    pub(crate) fn finish<'py>(
        &self,
        py: Python<'py>,
        has_failed: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let loss = self.inner.loss();
        match loss.map_err(|error| error::to_python(py, &error))? {
            // Also if nothing can be asked any more, because the client was closed.
            Some(loss) if !has_failed => Err(error::to_python(py, &loss)),
            _ => {
                let finish = self.inner.finish(WorkOutcome::from_block(has_failed), None);
                self.shared
                    .run_release(py, "giving a lock back", finish, |py, ()| Ok(py.None()))
            }
        }
    }

    /// Releases the lock, after the writes under way: a `Release`.
    ///
    /// It takes at most ``timeout``, and no longer than the lock is certainly held. Then it raises `TimedOutError`, and goes on in the
    /// background.
    #[pyo3(signature = (*, timeout=None))]
    fn release<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let release = self.inner.release(time("timeout", timeout)?);
        self.shared
            .run_release(py, "giving a lock back", release, |py, outcome| {
                outcome::release(py, outcome)
            })
    }

    /// Ends the guard without a release: the lease expires by itself.
    fn leave<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let leave = self.inner.leave();
        self.shared
            .run_release(py, "leaving a lock", leave, |py, ()| Ok(py.None()))
    }

    /// Sets a key as `Client.set` does, with the token of the lock; raises `LockLostError` once the lock is lost.
    ///
    ///     >>> with client.lock("pump/owner") as guard:
    ///     ...     guard.set("pump/state", "running").applied
    ///     True
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (key, value, *, condition=None, expires_in=None, persist=None, coalesce=None, timeout=None, retry=None),
        text_signature = "($self, key, value, *, condition='always', expires_in=None, persist=False, coalesce=False, timeout=None, retry='safe')"
    )]
    fn set<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        condition: Option<&Bound<'py, PyAny>>,
        expires_in: Option<&Bound<'py, PyAny>>,
        persist: Option<&Bound<'py, PyAny>>,
        coalesce: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
        retry: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let codec = &self.shared.codec;
        let (key, value) = (codec.read("key", key)?, codec.read("value", value)?);
        let options = options::SetArguments {
            condition,
            expires_in,
            fencing_token: None,
            persist,
            coalesce,
            timeout,
            retry,
        };
        let set = self.inner.set(key, value, options.read()?);
        self.shared.run(py, "a guarded SET", set, |py, _, outcome| {
            outcome::set(py, &outcome)
        })
    }

    /// Changes a key as `Client.update` does, with the token of the lock; raises `LockLostError` once the lock is lost.
    ///
    ///     >>> with client.lock("pump/owner") as guard:
    ///     ...     _ = guard.update("pump/starts", lambda old: b"1" if old is None else old.value + b"1")
    ///     ...     client.get("pump/starts").value
    ///     b'1'
    #[pyo3(
        signature = (key, change, *, expires_in=None, persist=None, timeout=None),
        text_signature = "($self, key, change, *, expires_in=None, persist=False, timeout=None)"
    )]
    fn update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        change: &Bound<'py, PyAny>,
        expires_in: Option<&Bound<'py, PyAny>>,
        persist: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let change = ChangeFunction::new(change, &self.shared.codec)?;
        let options = options::update(expires_in, persist, timeout)?;
        update::run(py, &self.shared, Some(&self.inner), key, options, change)
    }

    /// Deletes a key as `Client.delete` does, with the token of the lock.
    #[pyo3(
        signature = (key, *, if_version=None, timeout=None, retry=None),
        text_signature = "($self, key, *, if_version=None, timeout=None, retry='safe')"
    )]
    fn delete<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        if_version: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
        retry: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let options = options::del(None, if_version, timeout, retry)?;
        let del = self.inner.del(key, options);
        self.shared.run(py, "a guarded DEL", del, |py, _, outcome| {
            outcome::del(py, &outcome)
        })
    }

    /// Deletes a key with a value as `Client.vdel` does, with the token of the lock.
    #[pyo3(
        signature = (key, value, *, if_version=None, timeout=None, retry=None),
        text_signature = "($self, key, value, *, if_version=None, timeout=None, retry='safe')"
    )]
    fn vdel<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        if_version: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
        retry: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let codec = &self.shared.codec;
        let (key, value) = (codec.read("key", key)?, codec.read("value", value)?);
        let options = options::del(None, if_version, timeout, retry)?;
        let vdel = self.inner.vdel(key, value, options);
        self.shared
            .run(py, "a guarded VDEL", vdel, |py, _, outcome| {
                outcome::vdel(py, &outcome)
            })
    }
}
