//! The client.
use crate::argument::{OptionalArgument, limit};
use crate::call_mode::CallMode;
use crate::error;
use crate::event_loop::EventLoop;
use crate::locks::Locks;
use crate::observer::{check_callback, observer};
use crate::pipeline::Pipeline;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::unknown_argument::reject_in_set;
use crate::update::{self, ChangeFunction};
use crate::{options, outcome};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;

/// A client of the state store.
#[pyclass(frozen, subclass, extends = Locks, module = "statestore._native")]
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Client {
    /// Creates a client that is not connected yet. The objects that it creates have the classes of the module.
    #[new]
    #[pyo3(signature = (settings=None, module=None, /, *, asyncio=false))]
    fn new(
        py: Python<'_>,
        settings: Option<&Bound<'_, PyAny>>,
        module: Option<Bound<'_, PyModule>>,
        asyncio: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = settings.and_then(|settings| settings.cast::<Settings>().ok());
        let (Some(settings), Some(module)) = (settings, module) else {
            let message = "clients are made by connect(): statestore.connect(url), or statestore.aio.connect(url)";
            return Err(PyTypeError::new_err(message));
        };
        let settings = settings.get();
        let mode = if asyncio {
            CallMode::Asyncio(EventLoop::running(py)?)
        } else {
            CallMode::Blocking
        };
        let client = statestore_embed::Client::new(settings.core.clone())
            .map_err(|error| error::to_python(py, &error))?;
        let codec = Arc::clone(&settings.codec);
        let module = module.unbind();
        let shared = Arc::new(Shared {
            client,
            mode,
            codec,
            module,
            callbacks: Arc::default(),
        });
        Ok(Locks::of(&shared).add_subclass(Self { shared }))
    }

    fn __repr__(&self) -> String {
        match self.shared.client.core() {
            Ok(core) => format!("<Client {:?}>", core.client_id()),
            Err(error) => format!("<Client {:?}>", error.kind()),
        }
    }

    fn _connect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let connect = self.shared.client.connect();
        self.shared
            .run(py, "connecting", connect, |py, _, ()| Ok(py.None()))
    }

    /// Returns the MQTT client id, also after the client was closed.
    fn client_id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.connected_core(py)?.client_id())
    }

    /// Returns the counters of the client, until it was closed: `Counters`.
    ///
    ///     >>> _ = client.get("greeting")
    ///     >>> client.counters().completed
    ///     1
    fn counters(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        outcome::counters(py, &self.connected_core(py)?.counters())
    }

    /// Returns the state of the connection: a `State`. After `close` its kind is ``"closed"``.
    ///
    ///     >>> client.state()
    ///     State(kind='connected', reason=None, lost_reason=None)
    fn state(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = self.connected_core(py)?.state().borrow().clone();
        outcome::state(py, &state)
    }

    /// Observes the state of the connection: first the present state, then each change. A callback is called for each state; see
    /// `observe`.
    #[pyo3(signature = (callback=None))]
    fn states(&self, py: Python<'_>, callback: OptionalArgument<'_, '_>) -> PyResult<Py<PyAny>> {
        let callback = check_callback(callback)?;
        let feed = self.shared.client.states();
        let feed = feed.map_err(|error| error::to_python(py, &error))?;
        observer(py, &self.shared, None, feed, callback, |py, _, state| {
            outcome::state(py, &state)
        })
    }

    /// Reads a key: an `Entry`, or ``None`` if the key is absent. With ``remaining``, its ``expires_in`` says how much time it
    /// has left, which not every store can tell (`Capabilities.remaining_time`). With ``eventual``, it may be what the key held a moment
    /// ago: where several servers share the entries, that saves the one that is asked a round trip to them. A store that makes no
    /// difference answers what the key holds.
    ///
    ///     >>> client.get("greeting") is None
    ///     True
    ///     >>> _ = client.set("greeting", "hello")
    ///     >>> client.get("greeting")  # doctest: +ELLIPSIS
    ///     Entry(value=b'hello', version=Hlc('...'))
    #[pyo3(
        signature = (key, *, remaining=None, eventual=None, timeout=None),
        text_signature = "($self, key, *, remaining=False, eventual=False, timeout=None)"
    )]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        remaining: OptionalArgument<'_, 'py>,
        eventual: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let get = self
            .shared
            .client
            .get(key, options::get(remaining, eventual, timeout)?);
        self.shared.run(py, "GET", get, |py, codec, found| {
            outcome::optional_entry(py, codec, found.as_ref())
        })
    }

    /// Reads several keys. Returns `Entries`: a list of `Entry` or ``None``, in their order. Its ``snapshot`` is true if the store
    /// returned all of them in one response, so that no write happened in between. This needs `Capabilities.max_get_keys`, and values
    /// of 1 MiB together at most. With ``remaining`` or ``eventual``, each key has a request of its own.
    ///
    ///     >>> _ = client.set("a", "1")
    ///     >>> entries = client.get_many(["a", "b"])
    ///     >>> [entry and entry.value for entry in entries]
    ///     [b'1', None]
    ///     >>> entries.snapshot
    ///     True
    #[pyo3(
        signature = (keys, *, remaining=None, eventual=None, timeout=None),
        text_signature = "($self, keys, *, remaining=False, eventual=False, timeout=None)"
    )]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        remaining: OptionalArgument<'_, 'py>,
        eventual: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.shared.codec.read_each("keys", keys)?;
        let get = self
            .shared
            .client
            .get_many(keys, options::get(remaining, eventual, timeout)?);
        self.shared.run(py, "GET", get, |py, codec, found| {
            outcome::entries(py, codec, &found)
        })
    }

    /// Stores a value: a `SetOutcome`, which is true if it was applied.
    ///
    /// ``condition`` is ``"always"``, ``"if_absent"``, ``"if_absent_or_equal"`` or `if_version` of a version; ``expires_in`` is at least a
    /// millisecond; ``retry`` is ``"safe"``, ``"always"`` or ``"never"``: whether the request is sent again when the
    /// session was lost before its response came. With ``coalesce``, only the newest value of the key waits while there is no
    /// connection: an older call fails with `SupersededError` then.
    ///
    ///     >>> client.set("greeting", "hello")  # doctest: +ELLIPSIS
    ///     SetOutcome(applied=True, version=Hlc('...'))
    ///     >>> client.set("greeting", "other", condition="if_absent").applied
    ///     False
    ///     >>> from statestore import if_version
    ///     >>> version = client.get("greeting").version
    ///     >>> client.set("greeting", "hi", condition=if_version(version)).applied
    ///     True
    ///     >>> client.set("greeting", "hey", condition=if_version(version)).applied
    ///     False
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (
            key, value, *, condition=None, expires_in=None, fencing_token=None, persist=None, coalesce=None, timeout=None, retry=None,
            **unknown,
        ),
        text_signature = "($self, key, value, *, condition='always', expires_in=None, fencing_token=None, persist=False, coalesce=False, timeout=None, retry='safe')"
    )]
    fn set<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        condition: OptionalArgument<'_, 'py>,
        expires_in: OptionalArgument<'_, 'py>,
        fencing_token: OptionalArgument<'_, 'py>,
        persist: OptionalArgument<'_, 'py>,
        coalesce: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        reject_in_set("Client.set()", unknown)?;
        let codec = &self.shared.codec;
        let (key, value) = (codec.read("key", key)?, codec.read("value", value)?);
        let options = options::SetArguments {
            condition,
            expires_in,
            fencing_token,
            persist,
            coalesce,
            timeout,
            retry,
        };
        let set = self.shared.client.set(key, value, options.read()?);
        self.shared
            .run(py, "SET", set, |py, _, outcome| outcome::set(py, &outcome))
    }

    /// Stores several values, given as a mapping or as pairs: a list with the `SetOutcome` of each, in their order. The
    /// requests are sent together, in their order; the options are those of `set`, for each, without `if_version`.
    ///
    /// This is no transaction: each value is stored, or not, by itself. If any fails, the others are carried out nevertheless,
    /// and the first failure is raised; its `results` has for each value the outcome or the error.
    ///
    ///     >>> [outcome.applied for outcome in client.set_many({"a": "1", "b": "2"}, condition="if_absent")]
    ///     [True, True]
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (
            values, *, condition=None, expires_in=None, fencing_token=None, persist=None, coalesce=None, timeout=None, retry=None,
        ),
        text_signature = "($self, values, *, condition='always', expires_in=None, fencing_token=None, persist=False, coalesce=False, timeout=None, retry='safe')"
    )]
    fn set_many<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        condition: OptionalArgument<'_, 'py>,
        expires_in: OptionalArgument<'_, 'py>,
        fencing_token: OptionalArgument<'_, 'py>,
        persist: OptionalArgument<'_, 'py>,
        coalesce: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = self.shared.codec.read_pairs("values", values)?;
        let options = options::SetArguments {
            condition,
            expires_in,
            fencing_token,
            persist,
            coalesce,
            timeout,
            retry,
        };
        let set = self.shared.client.set_many(values, options.read()?);
        self.shared.run(py, "SET", set, |py, _, outcomes| {
            outcome::result_list(py, &outcomes, outcome::set)
        })
    }

    /// Deletes a key: `Deleted` (true), or `Absent` (false).
    ///
    /// With ``if_version``, only if the key has this version; otherwise it is a `Mismatch` (false). Not every store can do that
    /// (`Capabilities.conditions`).
    ///
    ///     >>> client.delete("greeting")
    ///     Absent()
    #[pyo3(
        signature = (key, *, fencing_token=None, if_version=None, timeout=None, retry=None),
        text_signature = "($self, key, *, fencing_token=None, if_version=None, timeout=None, retry='safe')"
    )]
    fn delete<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        fencing_token: OptionalArgument<'_, 'py>,
        if_version: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let options = options::del(fencing_token, if_version, timeout, retry)?;
        let del = self.shared.client.del(key, options);
        self.shared
            .run(py, "DEL", del, |py, _, outcome| outcome::del(py, &outcome))
    }

    /// Deletes several keys: a list with `Deleted` or `Absent` for each, in their order. The requests are sent together; the
    /// options are those of `delete`, for each, without ``if_version``. Failures are reported as by `set_many`.
    ///
    ///     >>> _ = client.set("a", "1")
    ///     >>> [bool(outcome) for outcome in client.delete_many(["a", "b"])]
    ///     [True, False]
    #[pyo3(
        signature = (keys, *, fencing_token=None, timeout=None, retry=None),
        text_signature = "($self, keys, *, fencing_token=None, timeout=None, retry='safe')"
    )]
    fn delete_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        fencing_token: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.shared.codec.read_each("keys", keys)?;
        let options = options::del(fencing_token, None, timeout, retry)?;
        let del = self.shared.client.del_many(keys, options);
        self.shared.run(py, "DEL", del, |py, _, outcomes| {
            outcome::result_list(py, &outcomes, outcome::del)
        })
    }

    /// Deletes a key if it holds this value: `Deleted` (true), `Absent` or `Mismatch` (false). With ``if_version``, only if it has
    /// this version as well.
    ///
    ///     >>> _ = client.set("greeting", "hello")
    ///     >>> client.vdel("greeting", "other")
    ///     Mismatch()
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (key, value, *, fencing_token=None, if_version=None, timeout=None, retry=None),
        text_signature = "($self, key, value, *, fencing_token=None, if_version=None, timeout=None, retry='safe')"
    )]
    fn vdel<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        fencing_token: OptionalArgument<'_, 'py>,
        if_version: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let codec = &self.shared.codec;
        let (key, value) = (codec.read("key", key)?, codec.read("value", value)?);
        let options = options::del(fencing_token, if_version, timeout, retry)?;
        let vdel = self.shared.client.vdel(key, value, options);
        self.shared.run(py, "VDEL", vdel, |py, _, outcome| {
            outcome::vdel(py, &outcome)
        })
    }

    /// Collects requests, which are sent together by `Pipeline.execute`: many round trips in the time of one.
    ///
    ///     >>> client.pipeline().set("a", "1").get("b").delete("a").execute()  # doctest: +ELLIPSIS
    ///     [SetOutcome(applied=True, ...), None, Deleted(version=...)]
    fn pipeline(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pipeline = Pipeline::of(&self.shared);
        self.shared.wrap(py, "Pipeline", pipeline)
    }

    /// Observes a key from now on: an `Observer`, whose observations are `Set`, `Deleted`, `Resync` and `Lagged`. Changes
    /// after this call are not missed. With ``initial``, the first observation is the present state: a `Set`, or for an absent key
    /// a `Deleted` without a version.
    ///
    /// ``overflow`` is ``"latest"``, ``"all"`` (1,024 observations are kept for a slow reader), or the number of
    /// observations to keep. With a ``callback``, that is called with each observation, one after the other: on a thread of
    /// the client, or with `statestore.aio` in the event loop. Its exceptions go to `sys.unraisablehook`, or to the exception
    /// handler of that loop, and the observations go on.
    ///
    ///     >>> with client.observe("greeting") as changes:
    ///     ...     _ = client.set("greeting", "hello")
    ///     ...     next(changes)  # doctest: +ELLIPSIS
    ///     Set(value=b'hello', version=Hlc('...'))
    #[pyo3(
        signature = (key, callback=None, *, initial=None, overflow=None, timeout=None),
        text_signature = "($self, key, callback=None, *, initial=False, overflow='latest', timeout=None)"
    )]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        callback: OptionalArgument<'_, 'py>,
        initial: OptionalArgument<'_, 'py>,
        overflow: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let callback = check_callback(callback)?;
        let options = options::observe(initial, overflow, timeout)?;
        let shared = Arc::clone(&self.shared);
        let observe = self.shared.client.observe(key.clone(), options);
        self.shared
            .run(py, "KEYNOTIFY", observe, move |py, _, feed| {
                observer(
                    py,
                    &shared,
                    Some(&key),
                    feed,
                    callback,
                    outcome::observation,
                )
            })
    }

    /// Changes a key by its present value, without a lock: `Applied` (true), or `Unchanged` (false).
    ///
    /// ``change`` is called with the `Entry` or ``None`` and returns the new value, or ``None`` to leave the key as it is. It
    /// is called again if another client changed the key in between. With `statestore.aio` it may be a coroutine function.
    ///
    /// The key keeps the time that it has left. With ``expires_in``, at least 0.1 seconds, it expires after that time, or never for
    /// ``math.inf``. On a store without `Capabilities.conditions` the key is fenced from then on, and other writes need `update` too.
    /// `Guard.update` changes a key that a lock protects.
    ///
    ///     >>> def count(old):
    ///     ...     return str(int(old.value if old else 0) + 1)
    ///     >>> _ = client.update("parts", count), client.update("parts", count)
    ///     >>> client.get("parts").value
    ///     b'2'
    #[pyo3(
        signature = (key, change, *, expires_in=None, persist=None, timeout=None),
        text_signature = "($self, key, change, *, expires_in=None, persist=False, timeout=None)"
    )]
    fn update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        change: &Bound<'py, PyAny>,
        expires_in: OptionalArgument<'_, 'py>,
        persist: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        let change = ChangeFunction::new(change, &self.shared.codec)?;
        let options = options::update(expires_in, persist, timeout)?;
        update::run(py, &self.shared, None, key, options, change)
    }

    /// Finishes the calls under way, for ``timeout`` at most (5 s unless given), and closes the connection. New calls raise `ClosedError`
    /// at once; so do those under way when the time is over, or without a connection. Observers end. Closing again does nothing.
    ///
    /// The blocking client waits for a callback that runs, at most for two seconds; then a `RuntimeWarning` names it.
    #[pyo3(signature = (*, timeout=None), text_signature = "($self, *, timeout=5.0)")]
    fn close<'py>(
        &self,
        py: Python<'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.shared.close(py, limit("timeout", timeout)?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.shared.callbacks.traverse(&visit)
    }

    fn __clear__(&self) {
        self.shared.callbacks.clear();
    }

    /// Returns the thread that calls the callbacks, if there was a call.
    fn _callback_thread(&self) -> Option<u64> {
        self.shared.callbacks.thread()
    }

    /// Returns whether it was closed.
    fn _is_closed(&self) -> bool {
        self.shared.client.is_closed().unwrap_or(true)
    }
}

impl Client {
    fn connected_core(&self, py: Python<'_>) -> PyResult<&statestore::Client> {
        let core = self.shared.client.connected_core();
        core.map_err(|error| error::to_python(py, &error))
    }
}
