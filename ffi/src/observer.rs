//! Observers of one key, or of the keys that match a pattern.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::client_object::ClientObject;
use crate::completion;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::input::{self, deadline, milliseconds, sized};
use crate::observation::{ObservationObject, sst_observation};
use crate::operation::{begin, event, sst_operation, wait, wait_for_event};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use crate::subscription::{self, sst_subscription};
use bytes::Bytes;
use statestore_core::{MatchObservation, Observation, ObserveOptions, Outcome, Overflow};
use statestore_embed::{Client, Error, ErrorKind, EventStream, OfferedItem, Signal, StreamEnd};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Instant;

const NEXT: &str = "waiting for an observation";

/// An observer of one key, or of all keys that match a pattern. Opaque.
///
/// Its observations are read with sst_observer_next(), or reported to one callback with sst_observer_subscribe().
pub struct sst_observer;

pub(crate) struct ObserverObject {
    stream: ObserverStream,
    /// The signal, made at the first call of sst_observer_fd().
    signal: OnceLock<Arc<Signal>>,
    /// The lock that is held while the signal is made.
    signal_init: Mutex<()>,
}

object!(ObserverObject, sst_observer, 12, "an observer");

/// The observations of an observer.
pub(crate) enum ObserverStream {
    Key(EventStream<Observation>),
    Pattern(EventStream<MatchObservation>),
}

/// Evaluates an expression with the stream of an observer, whichever type it has.
macro_rules! with_stream {
    ($observer:expr, |$stream:ident| $body:expr) => {
        match &$observer.stream {
            ObserverStream::Key($stream) => $body,
            ObserverStream::Pattern($stream) => $body,
        }
    };
}

impl ClientObject for ObserverObject {
    fn client(&self) -> &Client {
        with_stream!(self, |stream| stream.client())
    }
}

impl ObserverObject {
    pub(crate) fn new(stream: ObserverStream) -> Self {
        Self {
            stream,
            signal: OnceLock::new(),
            signal_init: Mutex::default(),
        }
    }

    /// Returns the end of the observations.
    pub(crate) fn end(&self) -> Result<&StreamEnd, Error> {
        with_stream!(self, |stream| stream.end())
    }

    /// Clears the signal before the stream is read: events that arrive from now on set it again.
    fn clear_signal(&self) {
        if let Some(signal) = self.signal.get() {
            signal.clear();
        }
    }

    /// Sets the signal after an event was read, since there may be more.
    fn set_signal(&self) {
        if let Some(signal) = self.signal.get() {
            signal.set();
        }
    }
}

/// Options of sst_observe().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_observe_options {
    pub size: usize,
    /// Maximum number of changes that are kept for a slow observer. Beyond it the oldest are dropped, and
    /// SST_OBSERVED_LAGGED reports how many (default: only the newest state is kept, and the loss of others is not
    /// reported).
    pub keep: usize,
    /// Time limit for the store to begin the watch (default: the request time-out of the settings).
    pub timeout_ms: u64,
    /// Not zero: the first observation is the present state of the key. SST_OBSERVED_DELETED without a version means
    /// that the key is absent.
    pub initial: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(sst_observe_options, reserved: u32);

/// # Safety As [`input::options`] asks.
unsafe fn options(given: *const sst_observe_options) -> Result<ObserveOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    Ok(ObserveOptions::new()
        .overflow(match given.keep {
            0 => Overflow::Latest,
            count => Overflow::All(count),
        })
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?)
        .initial(given.initial != 0))
}

/// Callback that receives a new observer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_observer {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            observer: *mut sst_observer,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_observer,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut sst_observer)
);

/// Callback that receives the observations of an observer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_observation {
    pub context: *mut c_void,
    /// Called any number of times for sst_observer_subscribe(). At the end `status` is SST_CLOSED, or the reason why
    /// the store does not allow the watch any more.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            observation: *const sst_observation,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_observation,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_observation)
);

/// Reports an observation to a callback, or why there is none.
fn report<T: Into<ObservationObject>>(
    callback: &Callback<sst_on_observation>,
    result: Result<T, Error>,
) {
    let observation: Result<ObservationObject, Error> = result.map(Into::into);
    completion::lend(callback, observation.map(Some));
}

/// Returns the future of the observer, for both the blocking call and the operation.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
unsafe fn observe(
    client: &Client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_observe_options,
) -> Result<
    impl Future<Output = Result<EventStream<Observation>, Error>> + Send + 'static + use<>,
    Error,
> {
    // SAFETY: by the contract.
    let (key, options) = unsafe { (input::bytes(key, key_len, "key")?, self::options(options)?) };
    Ok(client.observe(Bytes::copy_from_slice(key), options))
}

/// Starts observing a key. Every change after the return of this call is observed.
///
/// The state before is not, unless the options have `initial`. The watch continues across reconnects: see
/// SST_OBSERVED_RESYNC.
///
/// Blocks: until the store has begun the watch, at most for the time-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_observe(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_observe_options,
    observer: Option<&mut MaybeUninit<*mut sst_observer>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let observer = output::init_failed(observer);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<ObserverObject>::new(observer, "observer")?;
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let stream = unsafe { observe(client, key, key_len, options) }?;
        let stream = wait(client, "observing", stream)?;
        to.write(ObserverObject::new(ObserverStream::Key(stream)))
    })
}

/// Begins sst_observe().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_observe_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_observe_options,
    callback: sst_on_observer,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let stream = unsafe { observe(client, key, key_len, options) }?;
        begin(
            client,
            "observing",
            stream,
            callback,
            operation,
            |callback, result| {
                let stream = result.map(ObserverStream::Key);
                completion::pass(callback, stream.map(ObserverObject::new));
            },
        )
    })
}

/// Returns the next observation, and waits for it for `timeout_ms`. Observations from before the end are still
/// returned.
///
/// Thread: any; each observation goes to one of the waiting threads. Blocks: at most for the time-out. Errors:
/// SST_TIMED_OUT if nothing happened, SST_CLOSED at the end, or the reason why the store does not allow the watch any
/// more.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_next(
    observer: *const sst_observer,
    timeout_ms: u64,
    observation: Option<&mut MaybeUninit<*mut sst_observation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let observation = output::init_failed(observation);
    boundary::with_object::<ObserverObject>(error, observer, |observer, client| {
        let to = HandleOut::<ObservationObject>::new(observation, "observation")?;
        let until = deadline(timeout_ms)?;
        observer.clear_signal();
        let next = with_stream!(observer, |stream| next(client, stream, until))?;
        observer.set_signal();
        let Some(next) = next else {
            return Err(completion::end_error(observer.end()?));
        };
        to.write(next)
    })
}

/// Waits for the next observation; returns `None` at the end.
fn next<T: Into<ObservationObject> + Send + 'static>(
    client: &Client,
    stream: &EventStream<T>,
    until: Option<Instant>,
) -> Result<Option<ObservationObject>, Error> {
    let next = match stream.try_next()? {
        Poll::Ready(next) => next,
        Poll::Pending => wait_for_event(client, NEXT, stream.next(), until)?,
    };
    Ok(next.map(Into::into))
}

/// Begins sst_observer_next(), without a limit.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_next_async(
    observer: *const sst_observer,
    callback: sst_on_observation,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<ObserverObject>(error, observer, |observer, client| {
        with_stream!(observer, |stream| begin_next(
            client, stream, callback, operation
        ))
    })
}

fn begin_next<T: Into<ObservationObject> + Send + 'static>(
    client: &Client,
    stream: &EventStream<T>,
    callback: Callback<sst_on_observation>,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
) -> Result<(), Error> {
    // The stream itself would keep the client open.
    let (next, end) = (stream.next_offered(), stream.end()?.clone());
    begin(
        client,
        event(NEXT),
        next,
        callback,
        operation,
        // An offer that is not taken, since the callback was revoked, stays available for the next call.
        move |callback, result| match result.map(|offer| offer.and_then(OfferedItem::take)) {
            Ok(Some(observation)) => report(callback, Ok(observation)),
            Ok(None) => completion::report_end::<ObservationObject, _>(callback, &end),
            Err(error) => report::<T>(callback, Err(error)),
        },
    )
}

/// Reports every observation to a callback. After this call do not use sst_observer_next().
///
/// The observer may be freed: the subscription continues until it is cancelled, or the client is closed.
///
/// Errors: SST_INVALID_ARGUMENT if the observer already has a callback or a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_subscribe(
    observer: *const sst_observer,
    callback: sst_on_observation,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let subscription = output::init_failed(subscription);
    let callback = Callback::new(callback);
    boundary::with_object::<ObserverObject>(error, observer, |observer, client| {
        with_stream!(observer, |stream| subscribe(
            client,
            stream,
            callback,
            subscription
        ))
    })
}

fn subscribe<T: Into<ObservationObject> + Send + 'static>(
    client: &Client,
    stream: &EventStream<T>,
    callback: Callback<sst_on_observation>,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
) -> Result<(), Error> {
    subscription::begin(client, stream, subscription, move |next| match next {
        Ok(observation) => report(&callback, Ok(observation)),
        Err(end) => completion::report_end::<ObservationObject, _>(&callback, end),
    })
}

/// Returns a file descriptor for event loops that is readable while sst_observer_next() may have an observation.
///
/// When it is readable, call sst_observer_next() with a time-out of 0 until it returns SST_TIMED_OUT. Do not read the
/// descriptor. The descriptor is closed with the observer.
///
/// Errors: SST_INVALID_ARGUMENT if the observer has a callback, SST_INTERNAL if the system provides no descriptor, as
/// on Windows.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_fd(
    observer: *const sst_observer,
    fd: Option<&mut MaybeUninit<c_int>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let fd = output::init_with(fd, -1, "fd")?;
        let observer = handle::get::<ObserverObject>(observer)?;
        let _making = observer
            .signal_init
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if observer.signal.get().is_none() {
            let signal = Arc::new(Signal::new().map_err(|error| {
                let action = "making a file descriptor";
                Error::new(
                    ErrorKind::Internal,
                    Outcome::NotDone,
                    action,
                    error.to_string(),
                )
            })?);
            let hooked = Arc::clone(&signal);
            with_stream!(observer, |stream| stream.on_ready(move || hooked.set()))?;
            // The lock keeps other threads from setting it meanwhile.
            let _ = observer.signal.set(signal);
        }
        if let Some(signal) = observer.signal.get() {
            *fd = signal.raw_fd();
        }
        Ok(())
    })
}

/// Ends an observer for all its users.
///
/// Calls of sst_observer_next(), present and later ones, return SST_CLOSED. The callback receives SST_CLOSED in its
/// last call, and the descriptor becomes readable. The watch at the store ends with the last observer of the key or
/// pattern. Closing again does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_close(
    observer: *const sst_observer,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let observer = handle::get::<ObserverObject>(observer)?;
        with_stream!(observer, |stream| stream.stop())
    })
}

/// Frees an observer. The watch at the store ends with the last observer of the key or pattern. A subscription
/// continues, and keeps the watch.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_free(observer: *mut sst_observer) {
    infallible::run(|| drop(handle::free::<ObserverObject>(observer)));
}
