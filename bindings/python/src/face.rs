//! The two ways to wait for an operation.
use crate::error;
use crate::event_loop::EventLoop;
use pyo3::prelude::*;
use statestore_embed::{Client, Error, Stopped, Wait};
use std::sync::Arc;

/// What goes on while a client is closed, for errors.
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
    action: &'static str,
    operation: impl Future<Output = Result<T, Error>> + Send,
) -> PyResult<Result<T, Error>> {
    waiting(py, action, |wait| client.wait(action, operation, wait))
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

/// Closes a client, and waits for its callbacks.
pub(crate) fn close<'py>(py: Python<'py>, client: &Client) -> PyResult<Bound<'py, PyAny>> {
    let closed = waiting(py, CLOSING, |wait| client.close(wait))?;
    closed.map_err(|error| error::to_python(py, &error))?;
    Ok(py.None().into_bound(py))
}
