//! Calling the function of an update.
use crate::argument::wrong_type;
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::face::Face;
use crate::outcome;
use bytes::Bytes;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use statestore::Entry;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

type NewValue = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

/// The function of an update, and what it raised.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    function: Arc<Py<PyAny>>,
    codec: Arc<Codec>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Change {
    /// # Errors
    /// `TypeError`: it is not callable.
    pub(crate) fn new(function: &Bound<'_, PyAny>, codec: &Arc<Codec>) -> PyResult<Self> {
        if !function.is_callable() {
            return Err(wrong_type("change", "callable", function));
        }
        Ok(Self {
            function: Arc::new(function.clone().unbind()),
            codec: Arc::clone(codec),
            raised: Arc::default(),
        })
    }

    /// What the function raised, which ended the update.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.take()
    }

    /// Calls the function on this thread.
    pub(crate) fn here(&self, old: Option<&Entry>) -> NewValue {
        let new = Python::try_attach(|py| {
            let result = self.call(py, old);
            self.read(result)
        });
        Box::pin(std::future::ready(new.flatten()))
    }

    /// Calls the function in an event loop. It may return something to be awaited.
    pub(crate) fn there(&self, event_loop: &EventLoop, old: Option<Entry>) -> NewValue {
        let (sender, receiver) = oneshot::channel();
        let this = self.clone();
        event_loop.call(move |py| {
            let result = this.call(py, old.as_ref());
            this.answer(py, result, sender);
        });
        Box::pin(async move { receiver.await.ok().flatten() })
    }

    fn call<'py>(&self, py: Python<'py>, old: Option<&Entry>) -> PyResult<Bound<'py, PyAny>> {
        let old = outcome::optional_entry(py, &self.codec, old)?;
        self.function.bind(py).call1((old,))
    }

    fn answer(
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
                .call_method1("ensure_future", (value,))?;
            Ok(Ok(future))
        });
        match awaited {
            Ok(Ok(future)) => {
                let when_done = WhenDone(Mutex::new(Some((self, sender))));
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

    /// The new value; nothing, which ends the update, if there was an exception.
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

/// Takes the result of a coroutine that computes the new value.
#[pyclass(frozen, module = "statestore._native")]
struct WhenDone(Mutex<Option<(Change, oneshot::Sender<Option<Bytes>>)>>);

#[pymethods]
impl WhenDone {
    fn __call__(&self, py: Python<'_>, future: &Bound<'_, PyAny>) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((change, sender)) = waiting {
            let result = future.call_method0(intern!(py, "result"));
            // Who cancelled the update does not wait for it.
            let _ = sender.send(change.read(result));
        }
    }
}

/// The new value of each attempt.
pub(crate) fn calls(
    face: &Face,
    change: &Change,
) -> impl FnMut(Option<Entry>) -> NewValue + Send + 'static + use<> {
    let (face, change) = (face.clone(), change.clone());
    move |old: Option<Entry>| match &face {
        Face::Blocking => change.here(old.as_ref()),
        Face::Asyncio(event_loop) => change.there(event_loop, old),
    }
}
