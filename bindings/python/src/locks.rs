//! The calls of a client about locks.
use crate::election::Election;
use crate::error;
use crate::guard::Guard;
use crate::lease::Lease;
use crate::options;
use crate::shared::Shared;
use crate::transactions::Transactions;
use crate::unknown_argument::reject_in_lock;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use statestore_embed::OperationDescriptor;
use std::sync::Arc;

type OptionalArgument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The lock methods of a client. `Client` derives from this class, and errors about arguments name `Client`.
#[pyclass(
    name = "Client",
    frozen,
    subclass,
    extends = Transactions,
    module = "statestore._native"
)]
#[derive(Debug)]
pub(crate) struct Locks {
    shared: Arc<Shared>,
}

impl Locks {
    pub(crate) fn of(shared: &Arc<Shared>) -> PyClassInitializer<Self> {
        let shared = Arc::clone(shared);
        Transactions::of(&shared).add_subclass(Self { shared })
    }
}

#[pymethods]
impl Locks {
    /// Creates the `Lease` of this name, which is a key of the store. Nothing is sent.
    ///
    /// ``renewal`` is ``"third"`` (of the duration), a time, or ``"manual"``; ``holder`` is a name of your
    /// own, which each attempt makes unique by a suffix. With ``resume`` the lease is held under exactly that name, also if it is held under it
    /// already, so that a restarted program resumes its lease. Two running clients that resume one name both hold the lease.
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (
            name, *, duration=None, renewal=None, holder=None, resume=None, timeout=None, foreign_lease_max=None,
        ),
        text_signature = "($self, name, *, duration=10.0, renewal='third', holder=None, resume=False, timeout=None, foreign_lease_max=3600.0)"
    )]
    fn lease(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        duration: OptionalArgument<'_, '_>,
        renewal: OptionalArgument<'_, '_>,
        holder: OptionalArgument<'_, '_>,
        resume: OptionalArgument<'_, '_>,
        timeout: OptionalArgument<'_, '_>,
        foreign_lease_max: OptionalArgument<'_, '_>,
    ) -> PyResult<Py<PyAny>> {
        let name = self.shared.codec.read("name", name)?;
        let options = options::LeaseArguments {
            duration,
            renewal,
            holder,
            resume,
            timeout,
            foreign_lease_max,
        };
        let options = options.read(&self.shared.codec)?;
        let lease = self.shared.client.lease(&name, &options);
        let lease = lease.map_err(|error| error::to_python(py, &error))?;
        let lease = Lease::of(&self.shared, lease, &name);
        self.shared.wrap(py, "Lease", lease)
    }

    /// Takes the lock of this name, and waits for it, without a limit unless you pass ``wait``: a `Guard`. The other options are
    /// those of `lease`. ``timeout`` limits each request, neither the wait nor the lease, and is accepted with ``wait`` only.
    ///
    ///     >>> with client.lock("pump/owner", wait=5) as guard:
    ///     ...     guard.is_valid()
    ///     True
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (
            name, *, duration=None, renewal=None, holder=None, resume=None, timeout=None, foreign_lease_max=None, wait=None,
            **unknown,
        ),
        text_signature = "($self, name, *, duration=10.0, renewal='third', holder=None, resume=False, timeout=None, foreign_lease_max=3600.0, wait=None)"
    )]
    fn lock<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        duration: OptionalArgument<'_, 'py>,
        renewal: OptionalArgument<'_, 'py>,
        holder: OptionalArgument<'_, 'py>,
        resume: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        foreign_lease_max: OptionalArgument<'_, 'py>,
        wait: OptionalArgument<'_, 'py>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        reject_in_lock(unknown, timeout.is_some(), wait.is_some())?;
        let name = self.shared.codec.read("name", name)?;
        let options = options::LeaseArguments {
            duration,
            renewal,
            holder,
            resume,
            timeout,
            foreign_lease_max,
        };
        let options = options.read_lock(&self.shared.codec, wait)?;
        let shared = Arc::clone(&self.shared);
        let lock = self.shared.client.lock(name, options);
        self.shared.run(
            py,
            OperationDescriptor::event("locking"),
            lock,
            move |py, _, guard| {
                let guard = Guard::new(py, &shared, guard)?;
                shared.wrap(py, "Guard", guard)
            },
        )
    }

    /// Creates the `Election` of this name, which is a key of the store. Nothing is sent. The options are those of
    /// `lock`.
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (
            name, *, duration=None, renewal=None, holder=None, resume=None, timeout=None, foreign_lease_max=None, wait=None,
        ),
        text_signature = "($self, name, *, duration=10.0, renewal='third', holder=None, resume=False, timeout=None, foreign_lease_max=3600.0, wait=None)"
    )]
    fn election(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        duration: OptionalArgument<'_, '_>,
        renewal: OptionalArgument<'_, '_>,
        holder: OptionalArgument<'_, '_>,
        resume: OptionalArgument<'_, '_>,
        timeout: OptionalArgument<'_, '_>,
        foreign_lease_max: OptionalArgument<'_, '_>,
        wait: OptionalArgument<'_, '_>,
    ) -> PyResult<Py<PyAny>> {
        let name = self.shared.codec.read("name", name)?;
        let options = options::LeaseArguments {
            duration,
            renewal,
            holder,
            resume,
            timeout,
            foreign_lease_max,
        };
        let options = options.read_lock(&self.shared.codec, wait)?;
        let election = self.shared.client.election(&name, &options);
        let election = election.map_err(|error| error::to_python(py, &error))?;
        let election = Election::of(&self.shared, election, &name);
        self.shared.wrap(py, "Election", election)
    }
}
