//! Operations under way, and how exports begin or await them.
use crate::boundary;
use crate::callback::{Callback, Closure};
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::output::{self, Out};
use crate::revocable::Revoke;
use crate::status::sst_status;
use crate::told::Told;
use statestore_embed::{Client, Error, Job, Operation, Wait};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An operation that an _async function began. Opaque.
///
/// It ends exactly once, by its callback, however it ends. Freeing this handle does not end it.
pub struct sst_operation;

/// An operation that was begun, and what it calls.
pub(crate) struct Begun {
    operation: Operation,
    callbacks: Vec<Arc<dyn Revoke>>,
}

object!(Begun, sst_operation, 2, "an operation");

/// Gives an operation up. Its callback is called with SST_CANCELLED, or with its result if that comes at this very
/// moment. What was sent is not taken back. An operation that has ended is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_cancel(
    operation: *const sst_operation,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        handle::get::<Begun>(operation)?.operation.cancel()?;
        Ok(())
    })
}

/// Gives an operation up, and takes its callback back: unless it was called before or runs now, it is never called, and
/// when this returns its context was dropped. A call that runs on another thread is waited for, so nothing that it
/// waits for may be held meanwhile. In the callback itself this does nothing. What such an operation would have given
/// is given back, whether or not the queue runs: an observation goes to whoever asks next.
///
/// Thread: any; the context is dropped on this one unless the callback was called. Blocks: while the callback runs on
/// another thread.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_close(
    operation: *const sst_operation,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let begun = handle::get::<Begun>(operation)?;
        // In this order, or it could be told that it was cancelled.
        for callback in &begun.callbacks {
            callback.revoke();
        }
        begun.operation.cancel()?;
        Ok(())
    })
}

/// Whether an operation has ended, which means that its callback was called, or is going to be at once. What is no
/// operation gives true.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_has_ended(operation: *const sst_operation) -> bool {
    boundary::value(true, || {
        handle::get::<Begun>(operation)?.operation.has_ended()
    })
}

/// Frees the handle of an operation, which goes on: its callback may run now, and is called unless it was before. To be
/// sure that it is not called any more, call sst_operation_close() before.
#[unsafe(no_mangle)]
pub extern "C" fn sst_operation_free(operation: *mut sst_operation) {
    boundary::run(|| drop(handle::free::<Begun>(operation)));
}

/// What an operation does, for errors, and what it waits for.
#[derive(Clone, Copy)]
pub(crate) struct Action {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Waits for answers, which come in time.
    Request,
    /// Waits for something that may never happen.
    Event,
    /// Gives something back, which is possible however many operations are under way.
    Return,
}

impl From<&'static str> for Action {
    /// It waits for answers, which come in time.
    fn from(name: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Request,
        }
    }
}

/// It waits for something that may never happen.
pub(crate) fn event(name: &'static str) -> Action {
    Action {
        name,
        kind: Kind::Event,
    }
}

/// It gives something back.
pub(crate) fn giving_back(name: &'static str) -> Action {
    Action {
        name,
        kind: Kind::Return,
    }
}

/// Begins an operation that ends with a call of `callback` on the thread of the callbacks.
pub(crate) fn begin<T, C>(
    client: &Client,
    action: impl Into<Action>,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    callback: Callback<C>,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    complete: impl FnOnce(&Callback<C>, Result<T, Error>) + Send + 'static,
) -> Result<(), Error>
where
    T: Send + 'static,
    C: Closure + 'static,
{
    let (action, operation) = (action.into(), Out::<Begun>::optional(operation));
    begin_asking(client, action, future, callback, None, operation, complete)
}

/// [`begin`] for an operation that may have another callback asked before.
pub(crate) fn begin_asking<T, C>(
    client: &Client,
    action: Action,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    callback: Callback<C>,
    asked: Option<Arc<dyn Revoke>>,
    operation: Option<Out<'_, Begun>>,
    complete: impl FnOnce(&Callback<C>, Result<T, Error>) + Send + 'static,
) -> Result<(), Error>
where
    T: Send + 'static,
    C: Closure + 'static,
{
    let (told, revocable) = Told::of(callback, operation.is_some());
    output::begin(operation, || {
        let operation = submit(client, action, future, |result| told.job(complete, result))?;
        let callbacks = revocable.into_iter().chain(asked).collect();
        Ok(Begun {
            operation,
            callbacks,
        })
    })
}

/// [`begin`] for closing the client, which is possible whatever else is under way.
pub(crate) fn begin_to_close<C: Closure + 'static>(
    client: &Client,
    callback: Callback<C>,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    complete: impl FnOnce(&Callback<C>, Result<(), Error>) + Send + 'static,
) -> Result<(), Error> {
    let operation = Out::<Begun>::optional(operation);
    let (told, revocable) = Told::of(callback, operation.is_some());
    output::begin(operation, || {
        let callbacks = client.callbacks_to_close()?;
        let operation = client.submit_close(Duration::ZERO, &callbacks, |result| {
            told.job(complete, result)
        })?;
        let callbacks = revocable.into_iter().collect();
        Ok(Begun {
            operation,
            callbacks,
        })
    })
}

fn submit<T: Send + 'static>(
    client: &Client,
    action: Action,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    complete: impl FnOnce(Result<T, Error>) -> Job + Send + 'static,
) -> Result<Operation, Error> {
    let callbacks = client.callbacks()?;
    match action.kind {
        Kind::Request => client.submit(action.name, future, &callbacks, complete),
        Kind::Event => client.submit_event(action.name, future, &callbacks, complete),
        Kind::Return => client.submit_return(action.name, future, &callbacks, complete),
    }
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

/// Waits for an event, without a limit if there is no deadline.
pub(crate) fn wait_for_event<T: Send>(
    client: &Client,
    action: &'static str,
    future: impl Future<Output = Result<T, Error>> + Send,
    deadline: Option<Instant>,
) -> Result<T, Error> {
    let wait = Wait {
        deadline,
        for_event: true,
        ..Wait::default()
    };
    let waited = client.wait(action, future, wait);
    waited.map_err(|stopped| stopped.into_error(action))
}
