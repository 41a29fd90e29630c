//! Boundary of exports that return a status: errors and panics become a status and an error object, and `pthread_cancel` is
//! deferred.
use crate::cancellation::CancellationGuard;
use crate::client_object::ClientObject;
use crate::error::{self, sst_error};
use crate::handle::{self, Object};
use crate::status::sst_status;
use statestore_core::Outcome;
use statestore_embed::{Client, Error, ErrorKind};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs the body of an export. `error` receives a new error object on failure and NULL on success; it may be NULL.
pub(crate) fn status(
    error: Option<&mut MaybeUninit<*mut sst_error>>,
    body: impl FnOnce() -> Result<(), Error>,
) -> sst_status {
    let _uncancellable = CancellationGuard::begin();
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(panicked()));
    error::write(error, result)
}

/// Runs the body of an export that uses a client. A panic makes the client unusable.
pub(crate) fn with_client(
    error: Option<&mut MaybeUninit<*mut sst_error>>,
    client: *const <Client as Object>::Opaque,
    body: impl FnOnce(&Client) -> Result<(), Error>,
) -> sst_status {
    status(error, || {
        let client = handle::get::<Client>(client)?;
        poison_on_panic(&client, || body(&client))
    })
}

/// Runs the body of an export that uses an object of a client. A panic makes the client unusable.
///
/// A body that waits for an event that freeing the object causes must drop its reference to the object before it waits.
pub(crate) fn with_object<T: ClientObject>(
    error: Option<&mut MaybeUninit<*mut sst_error>>,
    object: *const T::Opaque,
    body: impl FnOnce(Arc<T>, &Client) -> Result<(), Error>,
) -> sst_status {
    status(error, || {
        let object = handle::get::<T>(object)?;
        let client = object.client().clone();
        poison_on_panic(&client, || body(object, &client))
    })
}

fn poison_on_panic(client: &Client, body: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        client.poison();
        Err(panicked())
    })
}

fn panicked() -> Error {
    let reason = "an internal error of the library; the client can no longer be used";
    Error::new(
        ErrorKind::Internal,
        Outcome::Unknown,
        "a call of the library",
        reason,
    )
}
