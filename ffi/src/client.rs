//! Clients: connecting and closing.
use crate::boundary;
use crate::bytes::{BytesObject, sst_bytes};
use crate::callback::{Callback, closure};
use crate::completion;
use crate::error::{self, sst_error};
use crate::handle::{self, object};
use crate::infallible;
use crate::input::{self, deadline, limit};
use crate::operation::{begin, begin_close, event, sst_operation, wait, wait_for_event};
use crate::output::{self, HandleOut};
use crate::settings::{self, sst_settings};
use crate::status::sst_status;
use statestore_core::{Outcome, Settings};
use statestore_embed::{Client, Error, ErrorKind, WaitOptions};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

const DRAINING: &str = "draining the client";

/// A client of the state store: one connection, used by any number of requests and threads at a time. Opaque.
///
/// Every object that was made from the client keeps it open, until sst_client_close().
pub struct sst_client;

object!(Client, sst_client, 8, "a client");

/// Returns the client of a handle.
pub(crate) fn get(client: *const sst_client) -> Result<Arc<Client>, Error> {
    handle::get::<Client>(client)
}

/// Callback that is called when an operation without a result has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_done {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(context: *mut c_void, status: sst_status, error: *const sst_error),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_done,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error)
);

/// Reports to a callback that an operation has ended.
pub(crate) fn report_done(callback: &Callback<sst_on_done>, result: Result<(), Error>) {
    let ((), failed) = error::split(result);
    error::lend(failed.as_ref(), |status, error| {
        // SAFETY: the function has that type and gets its own context.
        callback.call(|call, context| unsafe { call(context, status, error) });
    });
}

/// Callback that receives a new client.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_client {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            client: *mut sst_client,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_client,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut sst_client)
);

/// Makes a client that is not connected yet.
///
/// The settings come from the URL, or from the environment if it is NULL. The settings of the caller override them.
///
/// # Safety As [`input::text`] and [`settings::client`] ask.
unsafe fn make(url: *const c_char, given: *const sst_settings) -> Result<Client, Error> {
    // SAFETY: by the contract.
    let settings = match unsafe { input::text(url, "url") } {
        Ok(Some(url)) => Settings::from_url(url)?,
        Ok(None) => Settings::from_environment()?,
        Err(_) => {
            return Err(Error::new(
                ErrorKind::InvalidSettings,
                Outcome::NotDone,
                "reading the URL",
                "it is not UTF-8",
            ));
        }
    };
    // SAFETY: by the contract.
    unsafe { settings::client(settings, given) }
}

/// Connects, and waits until the broker has accepted the connection and its subscriptions.
///
/// `url` is mqtt://[user[:password]@]host[:port], mqtts://… for TLS, ws://… and wss://… for WebSocket, or
/// unix://…/path. docs/connecting.md describes its parameters. With NULL the settings come from the environment of pods
/// of Azure IoT Operations: AIO_BROKER_HOSTNAME and the other variables. Fields of `settings` override both.
///
/// Blocks: until it is connected, or until one attempt has failed; with `connect_limit_ms` until that time is over.
/// Errors: SST_UNREACHABLE, SST_CONNECTION_REFUSED, SST_NOT_AUTHENTICATED, SST_UNTRUSTED, SST_INVALID_SETTINGS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_connect(
    url: *const c_char,
    settings: *const sst_settings,
    client: Option<&mut MaybeUninit<*mut sst_client>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let to = HandleOut::<Client>::new(client, "client")?;
        // SAFETY: the header asks for a text, and for a struct with its size.
        let client = unsafe { make(url, settings) }?;
        let connected = wait(&client, "connecting", client.connect());
        if connected.is_err() {
            // The client is closed already, but its thread may still be ending.
            let _ = client.close(WaitOptions::default());
        }
        connected?;
        to.write(client)
    })
}

/// Begins sst_connect().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_connect_async(
    url: *const c_char,
    settings: *const sst_settings,
    callback: sst_on_client,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::status(error, || {
        // SAFETY: the header asks for a text, and for a struct with its size.
        let client = unsafe { make(url, settings) }?;
        let (connecting, connected) = (client.connect(), client.clone());
        begin(
            &client,
            "connecting",
            connecting,
            callback,
            operation,
            |callback, result| completion::pass(callback, result.map(|()| connected)),
        )
    })
}

/// Closes a client and waits until its last callback has returned.
///
/// Every operation under way ends, at the latest with SST_CLOSED. Afterwards nothing of the client runs any more. When
/// the last client of the process is closed, the threads of the library end. Closing again does nothing. If the client
/// has a queue, this call runs the callbacks of this client that wait there, on this thread.
///
/// Thread: any except that of the callbacks. Blocks: until everything has ended, which takes a moment unless a callback
/// takes longer. Errors: SST_WRONG_THREAD in a callback of this client or of one with the same queue; nothing happens
/// then.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_close(
    client: *const sst_client,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_client(error, client, |client| {
        let closed = client.close(WaitOptions::default());
        closed.map_err(|stopped| stopped.into_error("closing the client"))
    })
}

/// Finishes the operations and blocking calls under way, and closes the client, within `timeout_ms`.
///
/// New calls return SST_CLOSED at once. Without a connection, the call waits for nothing. Operations that are still
/// under way when the time is over end with SST_CLOSED; their outcome is unknown if the request was sent. Closing then
/// continues in the background. Operations that wait for an event, such as an observation, end with the client. With a
/// time-out of 0 this is sst_client_close() without a wait.
///
/// Thread: any except that of the callbacks. Blocks: at most for the time-out, and while callbacks of the queue of this
/// client run on this thread. Errors: SST_TIMED_OUT; SST_WRONG_THREAD as for sst_client_close().
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_close_within(
    client: *const sst_client,
    timeout_ms: u64,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_client(error, client, |client| {
        let deadline = deadline(timeout_ms)?;
        let wait = || WaitOptions {
            deadline,
            ..WaitOptions::default()
        };
        let timeout = limit(timeout_ms)?.unwrap_or(Duration::MAX);
        let finished = client.finish(timeout, wait());
        let closed = finished.and_then(|()| client.close(wait()));
        closed.map_err(|stopped| stopped.into_error("closing the client"))
    })
}

/// Waits until all operations and blocking calls that wait for answers have ended, for `timeout_ms`.
///
/// This includes those that begin meanwhile. It does not include those that wait for an event: an observation, a lock
/// that others have, the loss of a lock. For an orderly end, begin nothing more, drain, and close.
///
/// Blocks: at most for the time-out. Errors: SST_TIMED_OUT if something is still under way.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_drain(
    client: *const sst_client,
    timeout_ms: u64,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_client(error, client, |client| {
        wait_for_event(client, DRAINING, client.drain(), deadline(timeout_ms)?)
    })
}

/// Begins sst_client_drain(), without a limit. The callback is called after those of all operations that the drain
/// waited for.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_drain_async(
    client: *const sst_client,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        let drain = client.drain();
        begin(
            client,
            event(DRAINING),
            drain,
            callback,
            operation,
            report_done,
        )
    })
}

/// Ends all blocking calls that wait with this client at this moment, on any thread.
///
/// They return SST_CANCELLED and the outcome as far as it is known. A call that begins later is not affected: repeat
/// this until the thread in question has noticed. Operations continue; use sst_operation_cancel() for them. If a
/// sst_client_close() is interrupted, closing continues in the background.
///
/// This takes locks, so do not call it in a signal handler: call it on a thread that waits for signals.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_interrupt(
    client: *const sst_client,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || get(client)?.interrupt())
}

/// Begins sst_client_close(). This may be called in a callback, since it does not wait for callbacks.
///
/// Errors: SST_CLOSED if the client is closed already. The number of operations under way never causes SST_QUEUE_FULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_close_async(
    client: *const sst_client,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        begin_close(client, callback, operation, report_done)
    })
}

/// Frees a client. Unless it was closed, the client is closed in the background once no object that was made from it is
/// left.
///
/// Operations under way do not keep the client open: they end as they do at sst_client_close(). Callbacks may run
/// during this call and after it. To be sure that none runs any more, call sst_client_close() first.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_free(client: *mut sst_client) {
    infallible::run(|| drop(handle::free::<Client>(client)));
}

/// Returns the MQTT client id, as UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_id(
    client: *const sst_client,
    id: Option<&mut MaybeUninit<*mut sst_bytes>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let id = output::init_failed(id);
    boundary::with_client(error, client, |client| {
        let id = HandleOut::<BytesObject>::new(id, "id")?;
        id.write(BytesObject(client.core()?.client_id().into()))
    })
}

/// Panics inside the boundary, for tests. Only in builds with the feature `test-panic`.
///
/// Thread: any. Blocks: no. NULL: `error`. Errors: SST_INTERNAL, always; the client is unusable afterwards.
///
/// cbindgen:ignore
#[cfg(feature = "test-panic")]
#[unsafe(no_mangle)]
pub extern "C" fn sst_test_panic(
    client: *const sst_client,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_client(error, client, |_| panic!("injected"))
}
