//! Operations under way, and how exports begin or await them.
use crate::boundary;
use crate::callback::{Callback, Closure};
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::output::{self, Out};
use crate::status::sst_status;
use statestore_embed::{Client, Error, Job, Operation, Wait};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// An operation that an _async function began. Opaque.
///
/// It ends exactly once, by its callback, however it ends. Freeing this handle does not end it.
pub struct sst_operation;

object!(Operation, sst_operation, 2, "an operation");

/// Gives an operation up. Its callback is called with SST_CANCELLED, or with its result if that comes at this very
/// moment. What was sent is not taken back. An operation that has ended is left alone.
///
/// Owner: `operation` is borrowed and still to be freed. Thread: any. Blocks: no. NULL: `error` may be NULL. Errors:
/// SST_INVALID_HANDLE, SST_FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_cancel(
    operation: *const sst_operation,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        handle::get::<Operation>(operation)?.cancel()?;
        Ok(())
    })
}

/// Whether an operation has ended, which means that its callback was called, or is going to be at once.
///
/// Owner: `operation` is borrowed. Thread: any. Blocks: no. NULL, and what is no operation, gives true.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_has_ended(operation: *const sst_operation) -> bool {
    boundary::value(true, || handle::get::<Operation>(operation)?.has_ended())
}

/// Frees the handle of an operation, which goes on.
///
/// Thread: any. Blocks: no. NULL, and what was freed before, is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_free(operation: *mut sst_operation) {
    boundary::run(|| drop(handle::free::<Operation>(operation)));
}

/// Begins an operation that ends with a call of `callback` on the thread of the callbacks.
pub(crate) fn begin<T, C>(
    client: &Client,
    action: &'static str,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    callback: Callback<C>,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    complete: impl FnOnce(&Callback<C>, Result<T, Error>) + Send + 'static,
) -> Result<(), Error>
where
    T: Send + 'static,
    C: Closure + 'static,
{
    let operation = Out::<Operation>::optional(operation);
    let callbacks = client.callbacks()?;
    output::begin(operation, || {
        client.submit(action, future, &callbacks, |result| -> Job {
            Box::new(move || complete(&callback, result))
        })
    })
}

/// Waits for a future, of the client proper or of what is around it.
pub(crate) fn wait<T: Send, E: Into<Error>>(
    client: &Client,
    action: &'static str,
    future: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, Error> {
    let future = async { future.await.map_err(Into::into) };
    let waited = client.wait(action, future, Wait::default());
    waited.map_err(|stopped| stopped.into_error(action))
}

/// Waits for an event for some milliseconds; without a limit if they are negative.
pub(crate) fn wait_for_event<T: Send>(
    client: &Client,
    action: &'static str,
    future: impl Future<Output = Result<T, Error>> + Send,
    timeout_ms: i64,
) -> Result<T, Error> {
    let deadline = u64::try_from(timeout_ms)
        .ok()
        .and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
    let wait = Wait {
        deadline,
        for_event: true,
        ..Wait::default()
    };
    let waited = client.wait(action, future, wait);
    waited.map_err(|stopped| stopped.into_error(action))
}
