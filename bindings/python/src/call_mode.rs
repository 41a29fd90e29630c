//! The two ways to wait for an operation.
use crate::callbacks::CallbackRegistry;
use crate::error;
use crate::event_loop::EventLoop;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use statestore_embed::{Client, Error, ErrorKind, OperationDescriptor, WaitError, WaitOptions};
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait for a callback when a client is closed.
const CALLBACK_WAIT: Duration = Duration::from_secs(2);

/// Action in errors of a close.
pub(crate) const CLOSING: &str = "closing the client";

/// How calls of a client wait.
#[derive(Debug, Clone)]
pub(crate) enum CallMode {
    /// The thread waits.
    Blocking,
    /// A task of this event loop waits.
    Asyncio(Arc<EventLoop>),
}

/// Waits for the result of an operation on this thread.
///
/// # Errors
/// What a signal handler raised, as `KeyboardInterrupt`.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    client: &Client,
    action: impl Into<OperationDescriptor>,
    operation: impl Future<Output = Result<T, Error>> + Send,
) -> PyResult<Result<T, Error>> {
    let action = action.into();
    let for_event = action.is_event();
    wait_detached(py, action.name(), |wait| {
        client.wait(action.name(), operation, WaitOptions { for_event, ..wait })
    })
}

/// Waits without the interpreter. Signal handlers run at least every 50 ms, so Ctrl-C ends it.
fn wait_detached<T: Send>(
    py: Python<'_>,
    action: &str,
    work: impl FnOnce(WaitOptions<'_>) -> Result<T, WaitError> + Send,
) -> PyResult<Result<T, Error>> {
    let mut raised = None;
    let result = py.detach(|| {
        #[allow(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is that of one lifetime"
        )]
        let check = || Python::try_attach(|py| py.check_signals());
        let mut interrupt = || match check() {
            Some(Ok(())) => false,
            Some(Err(error)) => {
                raised = Some(error);
                true
            }
            // The interpreter ends.
            None => true,
        };
        work(WaitOptions {
            interrupt: Some(&mut interrupt),
            ..WaitOptions::default()
        })
    });
    match (result, raised) {
        (_, Some(error)) => Err(error),
        (result, None) => Ok(result.map_err(|stopped| stopped.into_error(action))),
    }
}

/// Finishes the calls under way, for at most `timeout`, closes the client, and waits for a running callback. After [`CALLBACK_WAIT`],
/// it warns.
pub(crate) fn close<'py>(
    py: Python<'py>,
    client: &Client,
    timeout: Duration,
    callbacks: &CallbackRegistry,
) -> PyResult<Bound<'py, PyAny>> {
    let finished = wait_detached(py, CLOSING, |wait| client.finish(timeout, wait))?;
    finished.map_err(|error| error::to_python(py, &error))?;
    loop {
        let deadline = Some(Instant::now() + CALLBACK_WAIT);
        let closed = wait_detached(py, CLOSING, |wait| {
            client.close(WaitOptions { deadline, ..wait })
        })?;
        let Err(error) = closed else { break };
        if error.kind() != ErrorKind::TimedOut {
            return Err(error::to_python(py, &error));
        }
        if let Some(callback) = callbacks.running(py) {
            warn(py, &callback)?;
            break;
        }
    }
    Ok(py.None().into_bound(py))
}

fn warn(py: Python<'_>, callback: &Py<PyAny>) -> PyResult<()> {
    let message = format!(
        "{CLOSING}: the callback {} has not returned within {} s and is not waited for any longer; it goes on in the background",
        callback.bind(py).repr()?,
        CALLBACK_WAIT.as_secs()
    );
    let message = CString::new(message.replace('\0', "\u{fffd}"))?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1)
}
