//! Streams of events: changes of a key, of the keys of a pattern, of the connection, of the holder of a lease or the leader.
use crate::argument::{time, wrong_type};
use crate::call_mode::CallMode;
use crate::callbacks::{Callback, CallbackRegistry};
use crate::codec::Codec;
use crate::context;
use crate::error;
use crate::event_loop::ObjectFactory;
use crate::outcome;
use crate::shared::Shared;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use statestore::{LostReason, Outcome};
use statestore_embed::{Error, ErrorKind, EventStream, OperationDescriptor, StreamEnd};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

const WAITING: &str = "waiting for an observation";

/// Ready when there is something to take.
type ReadyFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A function that creates an object from an item.
type ItemConverter<T> = fn(Python<'_>, &Codec, T) -> PyResult<Py<PyAny>>;

/// Where observations come from, whatever they are of.
trait ObservationSource: Send + Sync {
    fn ready(&self) -> ReadyFuture;
    fn try_next(&self) -> Result<Poll<Option<ObjectFactory>>, Error>;
    /// Calls a callback with each item.
    fn subscribe(&self, callback: &Arc<Callback>) -> Result<(), Error>;
    fn lost_reason(&self) -> Result<Option<LostReason>, Error>;
    fn error(&self) -> Result<Option<Error>, Error>;
    fn stop(&self) -> Result<(), Error>;
}

struct StreamSource<T> {
    feed: EventStream<T>,
    codec: Arc<Codec>,
    make: ItemConverter<T>,
    callbacks: Arc<CallbackRegistry>,
    /// Whether the last item contains the reason of the end.
    last_item_has_reason: bool,
    /// Whether a callback also gets each exception, and `None` after the last item.
    reports_end: bool,
}

impl<T: Send + 'static> StreamSource<T> {
    /// Returns a function that creates an object from an item later.
    fn item_factory(&self) -> impl Fn(T) -> ObjectFactory + Send + 'static + use<T> {
        let (make, codec) = (self.make, Arc::clone(&self.codec));
        move |item| {
            let codec = Arc::clone(&codec);
            Box::new(move |py| make(py, &codec, item))
        }
    }
}

impl<T: Send + 'static> ObservationSource for StreamSource<T> {
    fn ready(&self) -> ReadyFuture {
        Box::pin(self.feed.ready())
    }

    fn try_next(&self) -> Result<Poll<Option<ObjectFactory>>, Error> {
        let item = self.feed.try_next()?;
        Ok(item.map(|item| item.map(self.item_factory())))
    }

    fn subscribe(&self, callback: &Arc<Callback>) -> Result<(), Error> {
        let registered = Arc::clone(callback);
        let maker = self.item_factory();
        let callbacks = Arc::clone(&self.callbacks);
        let end = (!self.last_item_has_reason).then_some(self.feed.end()?.clone());
        let client = self.feed.client();
        let reports_end = self.reports_end;
        let subscription = client.subscribe(&self.feed, move |item| {
            let make: ObjectFactory = match (item, end.as_ref().and_then(StreamEnd::error)) {
                (Some(item), _) => maker(item),
                // No other item reports an end for a reason other than a close.
                (None, Some(error)) => Box::new(move |py| Err(error::to_python(py, &error))),
                (None, None) if reports_end => Box::new(|py| Ok(py.None())),
                (None, None) => return,
            };
            let make: ObjectFactory = if reports_end {
                Box::new(|py| Ok(make(py).unwrap_or_else(|error| error.into_value(py).into_any())))
            } else {
                make
            };
            if NO_MORE_CALLBACKS.load(Ordering::Acquire) {
                return;
            }
            // No callback runs while the interpreter ends.
            Python::try_attach(|py| {
                let Some((callback, context)) = registered.function(py) else {
                    return;
                };
                let called = callbacks.call(py, &callback, &context, make);
                if let Err(error) = called {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        })?;
        callback.set_subscription(subscription);
        Ok(())
    }

    fn lost_reason(&self) -> Result<Option<LostReason>, Error> {
        self.feed.lost_reason()
    }

    fn error(&self) -> Result<Option<Error>, Error> {
        if self.last_item_has_reason {
            return Ok(None);
        }
        self.feed.error()
    }

    fn stop(&self) -> Result<(), Error> {
        self.feed.stop()
    }
}

/// Set when the interpreter is about to end: a thread that called Python then would be lost in the middle of that.
static NO_MORE_CALLBACKS: AtomicBool = AtomicBool::new(false);

/// Begins no further callback, in any client.
#[pyfunction]
pub(crate) fn end_callbacks() {
    NO_MORE_CALLBACKS.store(true, Ordering::Release);
}

/// Observations, one after the other.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Clone)]
pub(crate) struct Observer {
    shared: Arc<Shared>,
    source: Arc<dyn ObservationSource>,
    /// The key, pattern or name that is observed, if it is one.
    key: Option<Arc<[u8]>>,
    /// The callback that receives the observations on the callback thread.
    callback: Option<Arc<Callback>>,
    /// A callback takes all observations.
    has_callback: bool,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Creates an observer of a feed, with a callback if there is one. In an event loop, the Python half calls the callback.
pub(crate) fn observer<T: Send + 'static>(
    py: Python<'_>,
    shared: &Arc<Shared>,
    key: Option<&[u8]>,
    stream: EventStream<T>,
    callback: Option<Py<PyAny>>,
    make: ItemConverter<T>,
) -> PyResult<Py<PyAny>> {
    observer_with(py, shared, key, stream, callback, make, false)
}

/// Creates an observer like [`observer`]. If `reports_end` is set, its callback also gets each exception, and `None` after the last
/// observation.
pub(crate) fn observer_with<T: Send + 'static>(
    py: Python<'_>,
    shared: &Arc<Shared>,
    key: Option<&[u8]>,
    stream: EventStream<T>,
    callback: Option<Py<PyAny>>,
    make: ItemConverter<T>,
    reports_end: bool,
) -> PyResult<Py<PyAny>> {
    let codec = Arc::clone(&shared.codec);
    let source = StreamSource {
        feed: stream,
        codec,
        make,
        callbacks: Arc::clone(&shared.callbacks),
        last_item_has_reason: key.is_none(),
        reports_end,
    };
    let has_callback = callback.is_some();
    let callback = match (&shared.mode, callback) {
        (CallMode::Blocking, Some(callback)) => {
            let callback = shared.callbacks.register(callback, context::current(py)?);
            let subscribed = source.subscribe(&callback);
            subscribed.map_err(|error| error::to_python(py, &error))?;
            Some(callback)
        }
        _ => None,
    };
    let observer = Observer {
        shared: Arc::clone(shared),
        source: Arc::new(source),
        key: key.map(Into::into),
        callback,
        has_callback,
    };
    shared.wrap(py, "Observer", observer)
}

/// Rejects an object that is not callable, before any request is sent.
pub(crate) fn check_callback(callback: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match callback {
        Some(callback) if !callback.is_callable() => {
            Err(wrong_type("callback", "callable", callback))
        }
        callback => Ok(callback.map(|callback| callback.clone().unbind())),
    }
}

#[pymethods]
impl Observer {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    fn __repr__(&self) -> String {
        let of = match &self.key {
            Some(key) => format!("b\"{}\"", key.escape_ascii()),
            None => "of states".to_owned(),
        };
        match self.source.lost_reason() {
            Ok(Some(lost_reason)) => format!("<Observer {of} {}>", lost_reason.as_str()),
            _ => format!("<Observer {of}>"),
        }
    }

    /// The key, the pattern, or the name of the lease or election; ``None`` for the states of a connection.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = self.key.as_deref();
        key.map(|key| self.shared.codec.write(py, key)).transpose()
    }

    /// The next observation, or ``None`` when there will be none any more: see `lost_reason`.
    ///
    /// If nothing happens for ``timeout``, this raises `TimedOutError`, and nothing is missed.
    #[pyo3(signature = (*, timeout=None))]
    fn next<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let look = self.pending_observation(py, timeout, false)?;
        loop {
            if let Some(item) = self.take(py)? {
                return Ok(item);
            }
            if !look.wait(py)?.is_truthy()? {
                return Ok(py.None().into_bound(py));
            }
        }
    }

    /// Returns an object that is called again and again for the next observation, in asyncio for the callback too.
    #[pyo3(name = "_pending_observation", signature = (timeout, for_callback=false))]
    fn pending_observation(
        &self,
        py: Python<'_>,
        timeout: Option<&Bound<'_, PyAny>>,
        for_callback: bool,
    ) -> PyResult<PendingObservation> {
        if self.has_callback && !for_callback {
            // In a forked process, that is the reason.
            self.source
                .error()
                .map_err(|error| error::to_python(py, &error))?;
            return Err(error::invalid(
                py,
                "waiting for an observation: this observer has a callback, which gets all of them; observe without a callback to iterate",
            ));
        }
        let timeout = time("timeout", timeout)?;
        Ok(PendingObservation {
            observer: self.clone(),
            timeout,
            // A time-out too long to represent counts as none.
            until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        })
    }

    /// Returns the reason why the observer has ended: a `LostReason`; ``None`` before.
    fn lost_reason(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let found = self.source.lost_reason();
        outcome::lost_reason(py, found.map_err(|error| error::to_python(py, &error))?)
    }

    /// Returns the error that ended the observer; ``None`` before, and if the client or the observer was closed.
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.source.error();
        let found = found.map_err(|error| error::to_python(py, &error))?;
        found.map(|found| error::exception(py, &found)).transpose()
    }

    /// Ends the observer: waiting calls return, and a running callback is the last one.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(callback) = &self.callback {
            callback.cancel();
        }
        self.source
            .stop()
            .map_err(|error| error::to_python(py, &error))
    }
}

impl Observer {
    /// Takes the next observation, or the end, if it is available now.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let now = self.source.try_next();
        match now.map_err(|error| error::to_python(py, &error))? {
            Poll::Ready(Some(make)) => Ok(Some(make(py)?.into_bound(py))),
            Poll::Ready(None) => Ok(Some(py.None().into_bound(py))),
            Poll::Pending => Ok(None),
        }
    }
}

/// Looks for the next observation, at most until a deadline.
#[pyclass(frozen, module = "statestore._native")]
#[derive(Debug)]
struct PendingObservation {
    observer: Observer,
    timeout: Option<Duration>,
    until: Option<Instant>,
}

#[pymethods]
impl PendingObservation {
    /// Returns the observation, or an operation that ends when there may be one.
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let CallMode::Asyncio(event_loop) = &self.observer.shared.mode {
            event_loop.check(py)?;
        }
        match self.observer.take(py)? {
            Some(item) => Ok(item),
            None => match self.wait(py) {
                // The feed was closed between the check and the wait.
                Err(error) if error::is(py, &error, ErrorKind::Closed) => {
                    Ok(py.None().into_bound(py))
                }
                waiting => waiting,
            },
        }
    }
}

impl PendingObservation {
    /// Waits until there is something to take: whether there may be.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ready = with_timeout(self.observer.source.ready(), self.timeout, self.until);
        let shared = &self.observer.shared;
        shared.run_with_result(
            py,
            OperationDescriptor::event(WAITING),
            ready,
            |py, _, ready| match ready {
                Ok(()) => true.into_py_any(py),
                // A closed client is the end, not a failure.
                Err(error) if error.kind() == ErrorKind::Closed => false.into_py_any(py),
                Err(error) => Err(error::to_python(py, &error)),
            },
        )
    }
}

/// Waits for an item; fails if none arrives in time.
async fn with_timeout(
    ready: ReadyFuture,
    timeout: Option<Duration>,
    until: Option<Instant>,
) -> Result<(), Error> {
    match (timeout, until) {
        (Some(timeout), Some(until)) => tokio::time::timeout_at(until.into(), ready)
            .await
            .map_err(|_| {
                let reason = format!("nothing happened within {timeout:?}");
                Error::new(ErrorKind::TimedOut, Outcome::NotDone, WAITING, reason)
            })
            .flatten(),
        _ => ready.await,
    }
}
