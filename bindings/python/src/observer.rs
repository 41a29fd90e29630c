//! What happens again and again: changes of a key, of the connection, of who holds a lease or leads.
use crate::argument::{time, wrong_type};
use crate::codec::Codec;
use crate::error;
use crate::event_loop::Make;
use crate::face::Face;
use crate::shared::Shared;
use pyo3::prelude::*;
use statestore::{Error, ErrorKind, Outcome};
use statestore_embed::{Feed, Subscription};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

const WAITING: &str = "waiting for an observation";

type NextItem = Pin<Box<dyn Future<Output = Result<Option<Make>, Error>> + Send>>;

/// Makes an object of an item.
type MakeItem<T> = fn(Python<'_>, &Codec, T) -> PyResult<Py<PyAny>>;

/// Where observations come from, whatever they are of.
trait Source: Send + Sync {
    fn next(&self) -> NextItem;
    fn try_next(&self) -> Result<Poll<Option<Make>>, Error>;
    fn tell(&self, callback: Py<PyAny>) -> Result<Subscription, Error>;
    fn error(&self) -> Result<Option<Error>, Error>;
    fn stop(&self) -> Result<(), Error>;
}

struct Of<T> {
    feed: Feed<T>,
    codec: Arc<Codec>,
    make: MakeItem<T>,
    callback_thread: Arc<OnceLock<u64>>,
}

impl<T: Send + 'static> Of<T> {
    /// How to make an object of an item later.
    fn maker(&self) -> impl Fn(T) -> Make + Send + 'static + use<T> {
        let (make, codec) = (self.make, Arc::clone(&self.codec));
        move |item| {
            let codec = Arc::clone(&codec);
            Box::new(move |py| make(py, &codec, item))
        }
    }
}

impl<T: Send + 'static> Source for Of<T> {
    fn next(&self) -> NextItem {
        let (next, maker) = (self.feed.next(), self.maker());
        Box::pin(async move { Ok(next.await?.map(maker)) })
    }

    fn try_next(&self) -> Result<Poll<Option<Make>>, Error> {
        let item = self.feed.try_next()?;
        Ok(item.map(|item| item.map(self.maker())))
    }

    fn tell(&self, callback: Py<PyAny>) -> Result<Subscription, Error> {
        let maker = self.maker();
        let thread = Arc::clone(&self.callback_thread);
        let client = self.feed.client();
        client.subscribe(&self.feed, move |item| {
            let Some(item) = item else { return };
            if NO_MORE_CALLBACKS.load(Ordering::Acquire) {
                return;
            }
            let make = maker(item);
            // Nobody is told anything while the interpreter ends.
            Python::try_attach(|py| {
                let told = note_thread(py, &thread)
                    .and_then(|()| make(py))
                    .and_then(|item| callback.call1(py, (item,)));
                if let Err(error) = told {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        })
    }

    fn error(&self) -> Result<Option<Error>, Error> {
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

/// Notes on which thread callbacks are called.
fn note_thread(py: Python<'_>, thread: &OnceLock<u64>) -> PyResult<()> {
    if thread.get().is_none() {
        let ident = py.import("threading")?.call_method0("get_ident")?;
        // There is one such thread, so it cannot be another one.
        let _ = thread.set(ident.extract()?);
    }
    Ok(())
}

/// Observations, one after the other.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Clone)]
pub(crate) struct Observer {
    shared: Arc<Shared>,
    source: Arc<dyn Source>,
    /// The key or name that is observed, if it is one.
    key: Option<Arc<[u8]>>,
    subscription: Arc<Mutex<Option<Subscription>>>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// An observer of a feed, with a callback if there is one. In an event loop, the callback is called by the Python half.
pub(crate) fn observer<T: Send + 'static>(
    py: Python<'_>,
    shared: &Arc<Shared>,
    key: Option<&[u8]>,
    feed: Feed<T>,
    callback: Option<Py<PyAny>>,
    make: MakeItem<T>,
) -> PyResult<Py<PyAny>> {
    let codec = Arc::clone(&shared.codec);
    let source = Of {
        feed,
        codec,
        make,
        callback_thread: Arc::clone(&shared.callback_thread),
    };
    let subscription = match (&shared.face, callback) {
        (Face::Blocking, Some(callback)) => Some(
            source
                .tell(callback)
                .map_err(|error| error::to_python(py, &error))?,
        ),
        _ => None,
    };
    let observer = Observer {
        shared: Arc::clone(shared),
        source: Arc::new(source),
        key: key.map(Into::into),
        subscription: Arc::new(Mutex::new(subscription)),
    };
    shared.dress(py, "Observer", observer)
}

/// Refuses what cannot be called, before anything is sent.
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
        match &self.key {
            Some(key) => format!("<Observer b\"{}\">", key.escape_ascii()),
            None => "<Observer of states>".to_owned(),
        }
    }

    /// The key, or the name of the lease or election; ``None`` for the states of a connection.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = self.key.as_deref();
        key.map(|key| self.shared.codec.write(py, key)).transpose()
    }

    /// The next observation, or ``None`` when there will be none any more: see `error`.
    ///
    /// If nothing happens for ``timeout``, this raises `TimedOutError`, and nothing is missed.
    #[pyo3(signature = (*, timeout=None))]
    fn next<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let timeout = time("timeout", timeout)?;
        if let Face::Asyncio(event_loop) = &self.shared.face {
            event_loop.check(py)?;
        }
        let now = self.source.try_next();
        match now.map_err(|error| error::to_python(py, &error))? {
            Poll::Ready(Some(make)) => return Ok(make(py)?.into_bound(py)),
            Poll::Ready(None) => return Ok(py.None().into_bound(py)),
            Poll::Pending => {}
        }
        let next = in_time(self.source.next(), timeout);
        let ran = self
            .shared
            .run_either(py, WAITING, next, |py, _, next| match next {
                Ok(Some(make)) => make(py),
                Ok(None) => Ok(py.None()),
                // That the client was closed is the end.
                Err(error) if error.kind() == ErrorKind::Closed => Ok(py.None()),
                Err(error) => Err(error::to_python(py, &error)),
            });
        match ran {
            // It was closed between the look and the wait.
            Err(error) if error::is(py, &error, ErrorKind::Closed) => Ok(py.None().into_bound(py)),
            ran => ran,
        }
    }

    /// Why there will be no further observation, once that is so; ``None`` if the client or the observer was closed.
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.source.error();
        let found = found.map_err(|error| error::to_python(py, &error))?;
        found.map(|found| error::exception(py, &found)).transpose()
    }

    /// Ends it: who waits for an observation gets the end, and a callback that runs is the last one.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let subscription = self
            .subscription
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(subscription) = subscription {
            subscription.cancel();
        }
        self.source
            .stop()
            .map_err(|error| error::to_python(py, &error))
    }
}

/// The item, unless nothing comes in time.
async fn in_time(next: NextItem, timeout: Option<Duration>) -> Result<Option<Make>, Error> {
    match timeout {
        None => next.await,
        Some(timeout) => tokio::time::timeout(timeout, next)
            .await
            .map_err(|_| {
                let reason = format!("nothing happened within {timeout:?}");
                Error::new(ErrorKind::TimedOut, Outcome::NotDone, WAITING, reason)
            })
            .flatten(),
    }
}
