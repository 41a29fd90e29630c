//! Results on their way into an event loop of asyncio.
use crate::error;
use crate::interpreter::Invoke;
use crate::pending::Pending;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
#[cfg(unix)]
use statestore_embed::Signal;
use statestore_embed::{Client, Error, Mailbox, Operation, OperationDescriptor};
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Makes the object of a result, in the event loop.
pub(crate) type ObjectFactory = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// A function that converts the result of an operation to an item.
type CompletionFn<T> = Box<dyn FnOnce(Result<T, Error>) -> MailboxItem + Send>;

/// Something to be done in the event loop.
pub(crate) enum MailboxItem {
    /// A future gets its result.
    Done {
        future: Py<PyAny>,
        make: ObjectFactory,
    },
    /// Python is called.
    Call(Box<dyn FnOnce(Python<'_>) + Send>),
}

/// Under trio or curio there is none.
const NO_LOOP: &str = "no running event loop of asyncio, which statestore.aio needs; with anyio, choose its backend asyncio; under \
                       trio, call the blocking client in a worker thread";

/// Most items in one turn of the loop, so that others have theirs.
const ITEMS_PER_TURN: usize = 1024;

/// The event loop of a client, and the mailbox that it empties.
///
/// The thread of the runtime never waits for the interpreter: it sets a file descriptor, which the loop has in its
/// selector, once for all results of a batch. Loops without `add_reader` are woken with `call_soon_threadsafe`.
#[derive(Debug)]
pub(crate) struct EventLoop {
    object: Py<PyAny>,
    create_future: Py<PyAny>,
    mailbox: Arc<Mailbox<MailboxItem>>,
}

impl EventLoop {
    /// Returns the state for the event loop that runs on this thread.
    pub(crate) fn running(py: Python<'_>) -> PyResult<Arc<Self>> {
        let object = running_loop(py).map_err(|_| PyRuntimeError::new_err(NO_LOOP))?;
        let drain = Py::new(py, DrainCallback::default())?;
        let mailbox = match Self::with_reader(&object, &drain)? {
            Some(mailbox) => mailbox,
            None => Self::with_calls(&object, &drain),
        };
        // The object is new, so the value is not set yet.
        let _ = drain.get().mailbox.set(Arc::downgrade(&mailbox));
        Ok(Arc::new(Self {
            create_future: object.getattr("create_future")?.unbind(),
            object: object.unbind(),
            mailbox,
        }))
    }

    #[cfg(unix)]
    fn with_reader(
        object: &Bound<'_, PyAny>,
        drain: &Py<DrainCallback>,
    ) -> PyResult<Option<Arc<Mailbox<MailboxItem>>>> {
        let signal = Arc::new(Signal::new()?);
        let descriptor = signal.as_fd().as_raw_fd();
        match object.call_method1("add_reader", (descriptor, drain)) {
            Ok(_) => {}
            Err(error) if error.is_instance_of::<PyNotImplementedError>(object.py()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let bell = LoopWaker(Arc::clone(&signal));
        // The object is new, so the value is not set yet.
        let _ = drain.get().signal.set(signal);
        Ok(Some(Mailbox::new(move || bell.0.set())))
    }

    #[cfg(not(unix))]
    fn with_reader(
        _: &Bound<'_, PyAny>,
        _: &Py<DrainCallback>,
    ) -> PyResult<Option<Arc<Mailbox<MailboxItem>>>> {
        Ok(None)
    }

    fn with_calls(
        object: &Bound<'_, PyAny>,
        drain: &Py<DrainCallback>,
    ) -> Arc<Mailbox<MailboxItem>> {
        let drain = drain.clone_ref(object.py());
        let object = object.clone().unbind();
        Mailbox::new(move || {
            Python::try_attach(|py| {
                // A closed loop accepts no results.
                let _ = object
                    .bind(py)
                    .invoke_method(intern!(py, "call_soon_threadsafe"), (&drain,));
            });
        })
    }

    /// Refuses calls from outside of this loop.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if running_loop(py)?.is(&self.object) {
            return Ok(());
        }
        let is_closed = self.object.call_method0(py, "is_closed")?;
        Err(PyRuntimeError::new_err(if is_closed.is_truthy(py)? {
            "the event loop of this client is closed; connect a new client in the loop that runs now"
        } else {
            "this client belongs to another event loop; connect one in each loop"
        }))
    }

    /// Begins an operation. `convert` creates an object from its result.
    pub(crate) fn submit<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        client: &Client,
        action: impl Into<OperationDescriptor>,
        operation: impl Future<Output = Result<T, Error>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, Result<T, Error>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.begin(py, convert, |complete| {
            client.submit(action, operation, &self.mailbox, complete)
        })
    }

    /// Submits an operation without the limit on operations under way, such as a release.
    pub(crate) fn submit_return<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        client: &Client,
        action: impl Into<OperationDescriptor>,
        operation: impl Future<Output = Result<T, Error>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, Result<T, Error>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.begin(py, convert, |complete| {
            client.submit_return(action, operation, &self.mailbox, complete)
        })
    }

    /// Begins to close a client, however many operations are under way.
    pub(crate) fn submit_close<'py>(
        &self,
        py: Python<'py>,
        client: &Client,
        timeout: Duration,
        convert: impl FnOnce(Python<'_>, Result<(), Error>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.begin(py, convert, |complete| {
            client.submit_close(timeout, &self.mailbox, complete)
        })
    }

    fn begin<'py, T: Send + 'static, C>(
        &self,
        py: Python<'py>,
        convert: C,
        submit: impl FnOnce(CompletionFn<T>) -> Result<Operation, Error>,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        C: FnOnce(Python<'_>, Result<T, Error>) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        self.check(py)?;
        let future = self.create_future.bind(py).invoke(())?.unbind();
        let waiting = future.clone_ref(py);
        let complete = Box::new(move |result| MailboxItem::Done {
            future: waiting,
            make: Box::new(move |py| convert(py, result)),
        });
        let operation = submit(complete).map_err(|error| error::to_python(py, &error))?;
        Ok(Bound::new(py, Pending { future, operation })?.into_any())
    }

    /// Runs a function in the event loop.
    pub(crate) fn call(&self, call: impl FnOnce(Python<'_>) + Send + 'static) {
        // The mailbox is open as long as its client is.
        let _ = self.mailbox.post(MailboxItem::Call(Box::new(call)));
    }
}

/// Returns the loop that runs on this thread.
fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    RUNNING.import(py, "asyncio", "get_running_loop")?.call0()
}

/// Calls the loop for each batch, and a last time when the mailbox is gone.
#[cfg(unix)]
struct LoopWaker(Arc<Signal>);

#[cfg(unix)]
impl Drop for LoopWaker {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A callable for the event loop that empties the mailbox.
#[pyclass(frozen, module = "statestore._native")]
#[derive(Debug, Default)]
struct DrainCallback {
    mailbox: OnceLock<Weak<Mailbox<MailboxItem>>>,
    #[cfg(unix)]
    signal: OnceLock<Arc<Signal>>,
}

#[pymethods]
impl DrainCallback {
    fn __call__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        #[cfg(unix)]
        if let Some(signal) = this.signal.get() {
            signal.clear();
        }
        if let Some(mailbox) = this.mailbox.get().and_then(Weak::upgrade) {
            if mailbox.drain(ITEMS_PER_TURN, |item| item.run(py)) {
                // The hook is not called again before the mailbox was empty.
                running_loop(py)?.invoke_method(intern!(py, "call_soon"), (slf,))?;
            }
            return Ok(());
        }
        #[cfg(unix)]
        if let Some(signal) = this.signal.get() {
            let descriptor = signal.as_fd().as_raw_fd();
            running_loop(py)?.call_method1("remove_reader", (descriptor,))?;
        }
        Ok(())
    }
}

impl MailboxItem {
    fn run(self, py: Python<'_>) {
        let (future, make) = match self {
            Self::Call(call) => return call(py),
            Self::Done { future, make } => (future, make),
        };
        let set = match make(py) {
            Ok(value) => future
                .bind(py)
                .invoke_method(intern!(py, "set_result"), (value,)),
            Err(error) => future
                .bind(py)
                .invoke_method(intern!(py, "set_exception"), (error,)),
        };
        // A future that was cancelled takes no result.
        let Err(error) = set else { return };
        let is_done = future.call_method0(py, intern!(py, "done"));
        if !is_done.is_ok_and(|done| done.is_truthy(py).unwrap_or(false)) {
            error.write_unraisable(py, Some(future.bind(py)));
        }
    }
}
