//! Operations, and how exports begin or await them.
use crate::boundary;
use crate::callback::{Callback, Closure};
use crate::completion_callback::CompletionCallback;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::output::{self, HandleOut};
use crate::revocable_callback::Revoke;
use crate::status::sst_status;
use statestore_embed::{Client, Error, Job, Operation, WaitOptions};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An operation that an _async function began. Opaque.
///
/// An operation always ends exactly once, by its callback. Freeing this handle does not end the operation.
pub struct sst_operation;

/// An operation under way, with its callbacks.
pub(crate) struct OperationObject {
    operation: Operation,
    callbacks: Vec<Arc<dyn Revoke>>,
}

object!(OperationObject, sst_operation, 2, "an operation");

/// Cancels an operation. Its callback receives SST_CANCELLED, or the result if that arrives at the same moment.
///
/// A request that was sent is not taken back. An operation that has ended is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_cancel(
    operation: *const sst_operation,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        handle::get::<OperationObject>(operation)?
            .operation
            .cancel()?;
        Ok(())
    })
}

/// Cancels an operation and revokes its callback: unless the callback was called before or runs now, it is never
/// called. When this returns, its context was dropped.
///
/// A call that runs on another thread is waited for, so do not hold anything that the call waits for. In the callback
/// itself this does nothing. A result that the operation would have delivered is returned, whether or not the queue
/// runs: an observation goes to the next call that asks for one.
///
/// Thread: any; the context is dropped on this one unless the callback was called. Blocks: while the callback runs on
/// another thread.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_close(
    operation: *const sst_operation,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let object = handle::get::<OperationObject>(operation)?;
        // The callbacks are revoked first: otherwise they could be called with the cancellation.
        for callback in &object.callbacks {
            callback.revoke();
        }
        object.operation.cancel()?;
        Ok(())
    })
}

/// Returns whether an operation has ended: its callback was called, or is about to be. A handle that is not an
/// operation gives true.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_has_ended(operation: *const sst_operation) -> bool {
    infallible::value(true, || {
        handle::get::<OperationObject>(operation)?
            .operation
            .has_ended()
    })
}

/// Frees the handle of an operation. The operation continues: its callback may run now, and is called unless it was
/// before.
///
/// To be sure that it is not called any more, call sst_operation_close() first.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_free(operation: *mut sst_operation) {
    infallible::run(|| drop(handle::free::<OperationObject>(operation)));
}

/// The name of an operation, for errors, and the kind of event that it waits for.
#[derive(Clone, Copy)]
pub(crate) struct OperationDescriptor {
    name: &'static str,
    kind: OperationKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    /// Waits for answers, which arrive in bounded time.
    Request,
    /// Waits for an event that may never happen.
    Event,
    /// Releases or returns something, which is possible with any number of operations under way.
    Release,
}

impl From<&'static str> for OperationDescriptor {
    /// Makes the action of an operation that waits for answers, which arrive in bounded time.
    fn from(name: &'static str) -> Self {
        Self {
            name,
            kind: OperationKind::Request,
        }
    }
}

/// Makes the action of an operation that waits for an event that may never happen.
pub(crate) fn event(name: &'static str) -> OperationDescriptor {
    OperationDescriptor {
        name,
        kind: OperationKind::Event,
    }
}

/// Makes the action of an operation that releases or returns something.
pub(crate) fn releasing(name: &'static str) -> OperationDescriptor {
    OperationDescriptor {
        name,
        kind: OperationKind::Release,
    }
}

/// Begins an operation that ends with a call of `callback` on the thread of the callbacks.
pub(crate) fn begin<T, C>(
    client: &Client,
    action: impl Into<OperationDescriptor>,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    callback: Callback<C>,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    complete: impl FnOnce(&Callback<C>, Result<T, Error>) + Send + 'static,
) -> Result<(), Error>
where
    T: Send + 'static,
    C: Closure + 'static,
{
    let (action, operation) = (
        action.into(),
        HandleOut::<OperationObject>::optional(operation),
    );
    begin_with_callback(client, action, future, callback, None, operation, complete)
}

/// Begins an operation as [`begin`] does, with another callback that may be asked before the end.
pub(crate) fn begin_with_callback<T, C>(
    client: &Client,
    action: OperationDescriptor,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    callback: Callback<C>,
    changer: Option<Arc<dyn Revoke>>,
    operation: Option<HandleOut<'_, OperationObject>>,
    complete: impl FnOnce(&Callback<C>, Result<T, Error>) + Send + 'static,
) -> Result<(), Error>
where
    T: Send + 'static,
    C: Closure + 'static,
{
    let (completion, revocable) = CompletionCallback::wrap(callback, operation.is_some());
    output::begin(operation, || {
        let operation = submit(client, action, future, |result| {
            completion.into_job(complete, result)
        })?;
        let callbacks = revocable.into_iter().chain(changer).collect();
        Ok(OperationObject {
            operation,
            callbacks,
        })
    })
}

/// Begins to close the client as [`begin`] does, with any number of operations under way.
pub(crate) fn begin_close<C: Closure + 'static>(
    client: &Client,
    callback: Callback<C>,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    complete: impl FnOnce(&Callback<C>, Result<(), Error>) + Send + 'static,
) -> Result<(), Error> {
    let operation = HandleOut::<OperationObject>::optional(operation);
    let (completion, revocable) = CompletionCallback::wrap(callback, operation.is_some());
    output::begin(operation, || {
        let callbacks = client.callbacks_for_close()?;
        let operation = client.submit_close(Duration::ZERO, &callbacks, |result| {
            completion.into_job(complete, result)
        })?;
        let callbacks = revocable.into_iter().collect();
        Ok(OperationObject {
            operation,
            callbacks,
        })
    })
}

fn submit<T: Send + 'static>(
    client: &Client,
    action: OperationDescriptor,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    complete: impl FnOnce(Result<T, Error>) -> Job + Send + 'static,
) -> Result<Operation, Error> {
    let callbacks = client.callbacks()?;
    match action.kind {
        OperationKind::Request => client.submit(action.name, future, &callbacks, complete),
        OperationKind::Event => client.submit_event(action.name, future, &callbacks, complete),
        OperationKind::Release => client.submit_return(action.name, future, &callbacks, complete),
    }
}

/// Waits for a future of the core client or of the layer around it.
pub(crate) fn wait<T: Send, E: Into<Error>>(
    client: &Client,
    action: &'static str,
    future: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, Error> {
    let future = async { future.await.map_err(Into::into) };
    let waited = client.wait(action, future, WaitOptions::default());
    waited.map_err(|stopped| stopped.into_error(action))
}

/// Waits for an event, without a limit if there is no deadline.
pub(crate) fn wait_for_event<T: Send>(
    client: &Client,
    action: &'static str,
    future: impl Future<Output = Result<T, Error>> + Send,
    deadline: Option<Instant>,
) -> Result<T, Error> {
    let wait = WaitOptions {
        deadline,
        for_event: true,
        ..WaitOptions::default()
    };
    let waited = client.wait(action, future, wait);
    waited.map_err(|stopped| stopped.into_error(action))
}
