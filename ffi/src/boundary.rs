//! Where C ends and Rust begins: errors and panics become a status, and `pthread_cancel` waits.
use crate::cancellation::Uncancellable;
use crate::client::sst_client;
use crate::error::{self, sst_error};
use crate::handle;
use crate::made::OfClient;
use crate::status::sst_status;
use statestore_core::Outcome;
use statestore_embed::{Client, Error, ErrorKind};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The body of an export. `error` gets a new error object if it fails, and NULL if not; it may be NULL.
pub(crate) fn status(
    error: Option<&mut MaybeUninit<*mut sst_error>>,
    body: impl FnOnce() -> Result<(), Error>,
) -> sst_status {
    let _uncancellable = Uncancellable::begin();
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(panicked()));
    error::give(error, result)
}

/// The body of an export that uses a client, which is unusable after a panic.
pub(crate) fn with_client(
    error: Option<&mut MaybeUninit<*mut sst_error>>,
    client: *const sst_client,
    body: impl FnOnce(&Client) -> Result<(), Error>,
) -> sst_status {
    status(error, || {
        let client = handle::get::<Client>(client)?;
        poisoning(&client, || body(&client))
    })
}

/// The body of an export that uses an object of a client, which is unusable after a panic. Who waits for something that ends when
/// the object is freed must not keep it meanwhile.
pub(crate) fn with_object<T: OfClient>(
    error: Option<&mut MaybeUninit<*mut sst_error>>,
    object: *const T::Opaque,
    body: impl FnOnce(Arc<T>, &Client) -> Result<(), Error>,
) -> sst_status {
    status(error, || {
        let object = handle::get::<T>(object)?;
        let client = object.client().clone();
        poisoning(&client, || body(object, &client))
    })
}

fn poisoning(client: &Client, body: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        client.poison();
        Err(panicked())
    })
}

/// The body of an export that gives a value; `otherwise` is what it gives when there is none.
pub(crate) fn value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Error>) -> T {
    let _uncancellable = Uncancellable::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) | Err(_) => otherwise,
    }
}

/// The body of an export that gives nothing.
pub(crate) fn run(body: impl FnOnce()) {
    let _uncancellable = Uncancellable::begin();
    // There is nobody to tell, and the export has nothing that could be left half done.
    let _ = catch_unwind(AssertUnwindSafe(body));
}

fn panicked() -> Error {
    let reason = "a bug in the library; the client cannot be used any more";
    Error::new(
        ErrorKind::Internal,
        Outcome::Unknown,
        "a call of the library",
        reason,
    )
}
