//! Calling the function of an update.
use crate::argument::wrong_type;
use crate::call_mode::{self, CallMode};
use crate::codec::Codec;
use crate::context;
use crate::error;
use crate::event_loop::EventLoop;
use crate::interpreter::Invoke;
use crate::outcome;
use crate::shared::Shared;
use bytes::Bytes;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use statestore::{Entry, UpdateOptions, UpdateOutcome};
use statestore_embed::{Client, Error, Guard};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tokio::sync::{mpsc, oneshot};

const UPDATING: &str = "updating";

type UpdateFuture = Pin<Box<dyn Future<Output = Result<UpdateOutcome, Error>> + Send>>;
type NewValue = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

/// The function of an update, and the exception that it raised.
#[derive(Debug, Clone)]
pub(crate) struct ChangeFunction {
    function: Arc<Py<PyAny>>,
    codec: Arc<Codec>,
    /// The context of the caller (`contextvars`), in which an event loop calls the function.
    context: Arc<Py<PyAny>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl ChangeFunction {
    /// # Errors
    /// `TypeError`: it is not callable.
    pub(crate) fn new(function: &Bound<'_, PyAny>, codec: &Arc<Codec>) -> PyResult<Self> {
        if !function.is_callable() {
            return Err(wrong_type("change", "callable", function));
        }
        Ok(Self {
            function: Arc::new(function.clone().unbind()),
            codec: Arc::clone(codec),
            context: Arc::new(context::current(function.py())?),
            raised: Arc::default(),
        })
    }

    /// Returns the exception of the function, which ended the update.
    fn raised(&self) -> Option<PyErr> {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.take()
    }

    /// Returns the result of an update, or raises the exception of the function.
    fn result(&self, py: Python<'_>, outcome: &UpdateOutcome) -> PyResult<Py<PyAny>> {
        match self.raised() {
            Some(raised) => Err(raised),
            None => outcome::update(py, outcome),
        }
    }

    /// Calls the function on this thread.
    fn call_here(&self, py: Python<'_>, old: Option<&Entry>) -> Option<Bytes> {
        let result = self.call(py, old);
        self.read(result)
    }

    /// Calls the function in an event loop. It may return something to be awaited.
    fn call_in_loop(&self, event_loop: &EventLoop, old: Option<Entry>) -> NewValue {
        let (sender, receiver) = oneshot::channel();
        let this = self.clone();
        event_loop.call(move |py| {
            let context = Arc::clone(&this.context);
            let asked = ChangeCall(Mutex::new(Some((this, old, sender))));
            let ran = Bound::new(py, asked)
                .and_then(|asked| context.bind(py).invoke_method(intern!(py, "run"), (asked,)));
            if let Err(error) = ran {
                error.write_unraisable(py, None);
            }
        });
        Box::pin(async move { receiver.await.ok().flatten() })
    }

    fn call<'py>(&self, py: Python<'py>, old: Option<&Entry>) -> PyResult<Bound<'py, PyAny>> {
        let old = outcome::optional_entry(py, &self.codec, old)?;
        self.function.bind(py).invoke((old,))
    }

    fn send_result(
        self,
        py: Python<'_>,
        result: PyResult<Bound<'_, PyAny>>,
        sender: oneshot::Sender<Option<Bytes>>,
    ) {
        static IS_AWAITABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let awaited = result.and_then(|value| {
            let is_awaitable = IS_AWAITABLE.import(py, "inspect", "isawaitable")?;
            if !is_awaitable.call1((&value,))?.is_truthy()? {
                return Ok(Err(value));
            }
            let future = py
                .import("asyncio")?
                .invoke_method(intern!(py, "ensure_future"), (value,))?;
            Ok(Ok(future))
        });
        match awaited {
            Ok(Ok(future)) => {
                let when_done = ChangeDone(Mutex::new(Some((self, sender))));
                let added = Bound::new(py, when_done)
                    .and_then(|done| future.call_method1("add_done_callback", (done,)));
                if let Err(error) = added {
                    error.write_unraisable(py, Some(&future));
                }
            }
            Ok(Err(value)) => {
                let _ = sender.send(self.read(Ok(value)));
            }
            Err(error) => {
                let _ = sender.send(self.read(Err(error)));
            }
        }
    }

    /// Reads the new value; `None`, which ends the update, after an exception.
    fn read(&self, result: PyResult<Bound<'_, PyAny>>) -> Option<Bytes> {
        let read = result.and_then(|value| {
            if value.is_none() {
                return Ok(None);
            }
            self.codec.read("the new value", &value).map(Some)
        });
        read.unwrap_or_else(|error| {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            None
        })
    }
}

/// The function, the entry that it gets, and the receiver of its result.
type ValueRequest = (
    ChangeFunction,
    Option<Entry>,
    oneshot::Sender<Option<Bytes>>,
);

/// A question of an update, to be asked in the context of the caller.
#[pyclass(frozen, module = "statestore._native")]
struct ChangeCall(Mutex<Option<ValueRequest>>);

#[pymethods]
impl ChangeCall {
    fn __call__(&self, py: Python<'_>) {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((change, old, sender)) = asked {
            let result = change.call(py, old.as_ref());
            change.send_result(py, result, sender);
        }
    }
}

/// Takes the result of a coroutine that computes the new value.
#[pyclass(frozen, module = "statestore._native")]
struct ChangeDone(Mutex<Option<(ChangeFunction, oneshot::Sender<Option<Bytes>>)>>);

#[pymethods]
impl ChangeDone {
    fn __call__(&self, py: Python<'_>, future: &Bound<'_, PyAny>) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((change, sender)) = waiting {
            let result = future.call_method0(intern!(py, "result"));
            // A caller that cancelled the update does not wait for it.
            let _ = sender.send(change.read(result));
        }
    }
}

/// Begins an update by the client, or by a guard.
fn begin<C>(
    client: &Client,
    guard: Option<&Guard>,
    key: Bytes,
    options: UpdateOptions,
    change: C,
) -> UpdateFuture
where
    C: FnMut(Option<Entry>) -> NewValue + Send + 'static,
{
    match guard {
        Some(guard) => Box::pin(guard.update(key, options, change)),
        None => Box::pin(client.update(key, options, change)),
    }
}

/// Updates a key by a function of its value, in the way of the face, through the client or a guard.
pub(crate) fn run<'py>(
    py: Python<'py>,
    shared: &Shared,
    guard: Option<&Guard>,
    key: Bytes,
    options: UpdateOptions,
    change: ChangeFunction,
) -> PyResult<Bound<'py, PyAny>> {
    match &shared.mode {
        CallMode::Blocking => {
            let outcome = update_on_this_thread(py, &shared.client, guard, key, options, &change)?;
            let outcome = outcome.map_err(|error| error::to_python(py, &error))?;
            Ok(change.result(py, &outcome)?.into_bound(py))
        }
        CallMode::Asyncio(event_loop) => {
            let (event_loop, calls) = (Arc::clone(event_loop), change.clone());
            let change_there = move |old| calls.call_in_loop(&event_loop, old);
            let update = begin(&shared.client, guard, key, options, change_there);
            shared.run(py, UPDATING, update, move |py, _, outcome| {
                change.result(py, &outcome)
            })
        }
    }
}

/// Waits for an update, and computes its values on this thread between the waits. All connections and locks of the process
/// depend on the runtime, which other threads can drive meanwhile.
fn update_on_this_thread(
    py: Python<'_>,
    client: &Client,
    guard: Option<&Guard>,
    key: Bytes,
    options: UpdateOptions,
    change: &ChangeFunction,
) -> PyResult<Result<UpdateOutcome, Error>> {
    let (posed, mut questions) = mpsc::unbounded_channel();
    let ask = move |old| -> NewValue {
        let (answer, answered) = oneshot::channel();
        // The receiver is right here.
        let _ = posed.send((old, answer));
        Box::pin(async move { answered.await.ok().flatten() })
    };
    let mut update = begin(client, guard, key, options, ask);
    loop {
        let next = poll_fn(|context| {
            if let Poll::Ready(outcome) = update.as_mut().poll(context) {
                return Poll::Ready(outcome.map(UpdateEvent::Outcome));
            }
            match questions.poll_recv(context) {
                Poll::Ready(Some((old, answer))) => {
                    Poll::Ready(Ok(UpdateEvent::ValueRequest(old, answer)))
                }
                // The update has the other end.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        });
        match call_mode::wait(py, client, UPDATING, next)? {
            Ok(UpdateEvent::Outcome(outcome)) => return Ok(Ok(outcome)),
            Ok(UpdateEvent::ValueRequest(old, answer)) => {
                // The update, which waits for it, is right here.
                let _ = answer.send(change.call_here(py, old.as_ref()));
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// An event that an update waits for on its thread.
enum UpdateEvent {
    Outcome(UpdateOutcome),
    ValueRequest(Option<Entry>, oneshot::Sender<Option<Bytes>>),
}
