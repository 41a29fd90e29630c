//! State that a client shares with the objects that it creates.
use crate::call_mode::{self, CallMode};
use crate::callbacks::CallbackRegistry;
use crate::codec::Codec;
use crate::error;
use crate::interpreter::Invoke;
use pyo3::prelude::*;
use statestore_embed::{Client, Error, OperationDescriptor};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) mode: CallMode,
    pub(crate) codec: Arc<Codec>,
    /// The module with the classes of this client's objects.
    pub(crate) module: Py<PyModule>,
    pub(crate) callbacks: Arc<CallbackRegistry>,
}

impl Shared {
    /// Runs an operation in the way of the face; `convert` creates an object from its result.
    pub(crate) fn run<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        action: impl Into<OperationDescriptor>,
        operation: impl Future<Output = Result<T, Error>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, &Codec, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run_with_result(py, action, operation, |py, codec, result| {
            let value = result.map_err(|error| error::to_python(py, &error))?;
            convert(py, codec, value)
        })
    }

    /// Runs an operation like [`run`](Self::run); `convert` also converts an error.
    pub(crate) fn run_with_result<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        action: impl Into<OperationDescriptor>,
        operation: impl Future<Output = Result<T, Error>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, &Codec, Result<T, Error>) -> PyResult<Py<PyAny>>
        + Send
        + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.mode {
            CallMode::Blocking => {
                let result = call_mode::wait(py, &self.client, action, operation)?;
                Ok(convert(py, &self.codec, result)?.into_bound(py))
            }
            CallMode::Asyncio(event_loop) => {
                let codec = Arc::clone(&self.codec);
                let convert = move |py: Python<'_>, result| convert(py, &codec, result);
                event_loop.submit(py, &self.client, action, operation, convert)
            }
        }
    }

    /// Runs a release without the limit on operations under way.
    pub(crate) fn run_release<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        action: impl Into<OperationDescriptor>,
        operation: impl Future<Output = Result<T, Error>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let convert = |py: Python<'_>, result: Result<T, Error>| {
            convert(py, result.map_err(|error| error::to_python(py, &error))?)
        };
        match &self.mode {
            CallMode::Blocking => {
                let result = call_mode::wait(py, &self.client, action, operation)?;
                Ok(convert(py, result)?.into_bound(py))
            }
            CallMode::Asyncio(event_loop) => {
                event_loop.submit_return(py, &self.client, action, operation, convert)
            }
        }
    }

    /// Finishes the calls under way, for `timeout` at most, and closes the client in the way of the face. Closing again does nothing.
    pub(crate) fn close<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Duration>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let client = &self.client;
        let timeout = timeout.unwrap_or(statestore::Client::CLOSE_TIMEOUT);
        let is_closed = client.is_closed();
        if is_closed.map_err(|error| error::to_python(py, &error))? {
            return Ok(py.None().into_bound(py));
        }
        let CallMode::Asyncio(event_loop) = &self.mode else {
            return call_mode::close(py, client, timeout, &self.callbacks);
        };
        let closing = event_loop.submit_close(py, client, timeout, |py, closed| match closed {
            Ok(()) => Ok(py.None()),
            Err(error) => Err(error::to_python(py, &error)),
        });
        match closing {
            Err(_) if client.is_closed().unwrap_or(false) => Ok(py.None().into_bound(py)),
            closing => closing,
        }
    }

    /// Creates an object of a client, in the class that the face has for it.
    pub(crate) fn wrap<T>(
        &self,
        py: Python<'_>,
        class: &str,
        object: impl Into<PyClassInitializer<T>>,
    ) -> PyResult<Py<PyAny>>
    where
        T: pyo3::PyClass,
    {
        let plain = Py::new(py, object)?;
        let class = self.module.bind(py).getattr(class)?;
        Ok(class.invoke((plain,))?.unbind())
    }
}
