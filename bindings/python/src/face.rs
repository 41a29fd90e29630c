//! The two ways to wait for an operation.
use crate::callbacks::Callbacks;
use crate::error;
use crate::event_loop::EventLoop;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use statestore_embed::{Action, Client, Error, ErrorKind, Stopped, Wait};
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait for a callback when a client is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Action in errors of a close.
pub(crate) const CLOSING: &str = "closing the client";

/// How calls of a client wait.
#[derive(Debug, Clone)]
pub(crate) enum Face {
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
    action: impl Into<Action>,
    operation: impl Future<Output = Result<T, Error>> + Send,
) -> PyResult<Result<T, Error>> {
    let action = action.into();
    let for_event = action.is_event();
    waiting(py, action.name(), |wait| {
        client.wait(action.name(), operation, Wait { for_event, ..wait })
    })
}

/// Waits without the interpreter. Signal handlers run at least every 50 ms, so Ctrl-C ends it.
fn waiting<T: Send>(
    py: Python<'_>,
    action: &str,
    work: impl FnOnce(Wait<'_>) -> Result<T, Stopped> + Send,
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
        work(Wait {
            interrupt: Some(&mut interrupt),
            ..Wait::default()
        })
    });
    match (result, raised) {
        (_, Some(error)) => Err(error),
        (result, None) => Ok(result.map_err(|stopped| stopped.into_error(action))),
    }
}

/// Finishes the calls under way, for at most `timeout`, closes the client, and waits for a running callback. After [`PATIENCE`],
/// it warns.
pub(crate) fn close<'py>(
    py: Python<'py>,
    client: &Client,
    timeout: Duration,
    callbacks: &Callbacks,
) -> PyResult<Bound<'py, PyAny>> {
    let finished = waiting(py, CLOSING, |wait| client.finish(timeout, wait))?;
    finished.map_err(|error| error::to_python(py, &error))?;
    loop {
        let deadline = Some(Instant::now() + PATIENCE);
        let closed = waiting(py, CLOSING, |wait| client.close(Wait { deadline, ..wait }))?;
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
        PATIENCE.as_secs()
    );
    let message = CString::new(message.replace('\0', "\u{fffd}"))?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1)
}
