//! Observing keys.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::input::{self, milliseconds, sized};
use crate::lost_reason;
use crate::made::OfClient;
use crate::observation::{Observed, sst_observation};
use crate::operation::{begin, event, sst_operation, wait, wait_for_event};
use crate::output::{self, Out};
use crate::status::sst_status;
use crate::subscription::{self, sst_subscription};
use bytes::Bytes;
use statestore_core::{Observation, ObserveOptions, Outcome, Overflow};
use statestore_embed::{Client, End, Error, ErrorKind, Feed, Signal};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;

/// Follows one key. Opaque.
///
/// What it learns is asked for with sst_observer_next(), or told to one callback with sst_observer_subscribe().
pub struct sst_observer;

pub(crate) struct Observer {
    pub(crate) feed: Feed<Observation>,
    /// Present once somebody asked for it.
    signal: OnceLock<Arc<Signal>>,
    /// Who makes the signal has the lock.
    making: Mutex<()>,
}

object!(Observer, sst_observer, 12, "an observer");

impl OfClient for Observer {
    fn client(&self) -> &Client {
        self.feed.client()
    }
}

impl Observer {
    fn new(feed: Feed<Observation>) -> Self {
        Self {
            feed,
            signal: OnceLock::new(),
            making: Mutex::default(),
        }
    }

    /// Before the feed is looked at: what comes from now on sets the signal again.
    fn clear(&self) {
        if let Some(signal) = self.signal.get() {
            signal.clear();
        }
    }

    /// After something was found, since there may be more.
    fn set(&self) {
        if let Some(signal) = self.signal.get() {
            signal.set();
        }
    }
}

/// Options of sst_observe(). Set `size` to sizeof(sst_observe_options) and everything else to zero, which means the
/// default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_observe_options {
    /// sizeof(sst_observe_options).
    pub size: usize,
    /// How many changes are kept for an observer that is slow; then the oldest are dropped, and SST_OBSERVED_LAGGED
    /// tells how many (default: only the newest state is kept, and nothing is told of the others).
    pub keep: usize,
    /// How long the store may take to begin the watch, in milliseconds (default: the request time-out of the settings).
    pub timeout_ms: u64,
}

sized!(sst_observe_options, timeout_ms: u64);

/// # Safety As [`input::options`] asks.
unsafe fn options(given: *const sst_observe_options) -> Result<ObserveOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    Ok(ObserveOptions::new()
        .overflow(match given.keep {
            0 => Overflow::Latest,
            count => Overflow::All(count),
        })
        .timeout(milliseconds(given.timeout_ms)))
}

/// Is called with a new observer. For what a callback may do see "Callbacks" at the top.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_observer {
    /// Handed to both functions.
    pub context: *mut c_void,
    /// Called once; may be NULL, in which case the observer is freed. `observer` belongs to whom is called, and is NULL
    /// unless `status` is SST_OK. `error` is borrowed for the call, and NULL if `status` is SST_OK.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            observer: *mut sst_observer,
        ),
    >,
    /// Called once after the last call, or instead of it; may be NULL.
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_observer,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut sst_observer)
);

/// Is called with what an observer learns. For what a callback may do see "Callbacks" at the top.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_observation {
    /// Handed to both functions.
    pub context: *mut c_void,
    /// Called once for sst_observer_next_async(), and any number of times for sst_observer_subscribe(); may be NULL.
    /// `observation` and `error` are borrowed for the call; see sst_observation_clone(). `observation` is NULL unless
    /// `status` is SST_OK. At the end `status` is SST_CLOSED, or says why the store does not allow the watch any more.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            observation: *const sst_observation,
        ),
    >,
    /// Called once after the last call, or instead of it; may be NULL.
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_observation,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_observation)
);

/// Tells a callback an observation, or why there is none.
fn tell(callback: &Callback<sst_on_observation>, result: Result<Observation, Error>) {
    completion::lend(
        callback,
        result.map(|observation| Some(Observed(observation))),
    );
}

/// The observer, to be waited for or begun.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
unsafe fn observe(
    client: &Client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_observe_options,
) -> Result<impl Future<Output = Result<Feed<Observation>, Error>> + Send + 'static + use<>, Error>
{
    // SAFETY: by the contract.
    let (key, options) = unsafe { (input::bytes(key, key_len, "key")?, self::options(options)?) };
    Ok(client.observe(Bytes::copy_from_slice(key), options))
}

/// Begins to follow a key. From when this returns, every change is observed; the state before is not, so read it
/// afterwards if you need it. The watch goes on over reconnects: see SST_OBSERVED_RESYNC.
///
/// Owner: `*observer` is the caller's, freed with sst_observer_free(); everything else is borrowed for the call.
/// Thread: any. Blocks: until the store has begun the watch, at most for the time-out. NULL: `options` and `error`.
/// Errors: as sst_get(); `*observer` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_observe(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_observe_options,
    observer: Option<&mut MaybeUninit<*mut sst_observer>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let observer = output::failed(observer);
    boundary::with_client(error, client, |client| {
        let to = Out::<Observer>::new(observer, "observer")?;
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let feed = unsafe { observe(client, key, key_len, options) }?;
        to.give(Observer::new(wait(client, "observing", feed)?))
    })
}

/// Begins to begin to follow a key. See sst_observe().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(); everything else is
/// borrowed for the call. Thread: any. Blocks: no. NULL: `options`, `operation` and `error`. Errors:
/// SST_INVALID_ARGUMENT, SST_QUEUE_FULL, SST_CLOSED; the callback is not called then, its context is dropped before
/// this returns, and `*operation` is NULL.
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
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let feed = unsafe { observe(client, key, key_len, options) }?;
        begin(
            client,
            "observing",
            feed,
            callback,
            operation,
            |callback, result| completion::give(callback, result.map(Observer::new)),
        )
    })
}

/// The next observation. Waits for it for `timeout_ms` milliseconds: not at all for 0, without a limit if it is
/// negative. What was observed before the end is still given.
///
/// Owner: `*observation` is the caller's, freed with sst_observation_free(). Thread: any; each observation goes to one
/// of those who wait. Blocks: at most for the time-out. NULL: `error`. Errors: SST_TIMED_OUT if nothing happened,
/// SST_CLOSED at the end, or why the store does not allow the watch any more; SST_INVALID_HANDLE; `*observation` is
/// NULL then.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_next(
    observer: *const sst_observer,
    timeout_ms: i64,
    observation: Option<&mut MaybeUninit<*mut sst_observation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    const ACTION: &str = "waiting for an observation";
    let observation = output::failed(observation);
    boundary::with_object::<Observer>(error, observer, |observer, client| {
        let to = Out::<Observed>::new(observation, "observation")?;
        observer.clear();
        let next = match observer.feed.try_next()? {
            Poll::Ready(next) => next,
            Poll::Pending => wait_for_event(client, ACTION, observer.feed.next(), timeout_ms)?,
        };
        observer.set();
        let Some(next) = next else {
            return Err(lost_reason::end(observer.feed.end()?));
        };
        to.give(Observed(next))
    })
}

/// Begins to wait for the next observation. See sst_observer_next().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(). Thread: any.
/// Blocks: no. NULL: `operation` and `error`. Errors: SST_QUEUE_FULL, SST_CLOSED, SST_INVALID_HANDLE; the callback is
/// not called then, its context is dropped before this returns, and `*operation` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_next_async(
    observer: *const sst_observer,
    callback: sst_on_observation,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<Observer>(error, observer, |observer, client| {
        let feed = &observer.feed;
        // The feed itself would keep the client open.
        let (next, end) = (feed.next(), feed.end()?.clone());
        let next = async move { Ok(next.await?.ok_or(end)) };
        begin(
            client,
            event("waiting for an observation"),
            next,
            callback,
            operation,
            |callback, result: Result<Result<_, End>, _>| match result {
                Ok(Ok(observation)) => tell(callback, Ok(observation)),
                Ok(Err(end)) => completion::end::<Observed, _>(callback, &end),
                Err(error) => tell(callback, Err(error)),
            },
        )
    })
}

/// Has a callback told every observation. The observer must not be asked for observations besides.
///
/// Owner: `callback` is handed over; `*subscription` is the caller's, freed with sst_subscription_free(). `observer`
/// may be freed: the subscription goes on until it is cancelled, or the client is closed. Thread: any. Blocks: no.
/// NULL: `subscription` and `error`. Errors: SST_INVALID_ARGUMENT if the observer has a callback or a descriptor already,
/// SST_QUEUE_FULL, SST_CLOSED, SST_INVALID_HANDLE; the callback is not called then, its context is dropped before this
/// returns, and `*subscription` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_subscribe(
    observer: *const sst_observer,
    callback: sst_on_observation,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let subscription = output::failed(subscription);
    let callback = Callback::new(callback);
    boundary::with_object::<Observer>(error, observer, |observer, client| {
        let feed = &observer.feed;
        subscription::begin(client, feed, subscription, move |next| match next {
            Ok(observation) => tell(&callback, Ok(observation)),
            Err(end) => completion::end::<Observed, _>(&callback, end),
        })
    })
}

/// A file descriptor for event loops that is readable while sst_observer_next() may have something. When it is, call
/// that with a time-out of 0 until it gives SST_TIMED_OUT. Do not read the descriptor.
///
/// Owner: the descriptor belongs to `observer` and is closed with it. Thread: any. Blocks: no. NULL: `error`. Errors:
/// SST_INVALID_ARGUMENT if the observer has a callback, SST_INTERNAL if the system gives no descriptor, as on Windows,
/// SST_INVALID_HANDLE; `*fd` is -1 then.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_fd(
    observer: *const sst_observer,
    fd: Option<&mut MaybeUninit<c_int>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let fd = output::place(fd, -1, "fd")?;
        let observer = handle::get::<Observer>(observer)?;
        let _making = observer
            .making
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
            observer.feed.on_ready(move || hooked.set())?;
            // Nobody else sets it meanwhile.
            let _ = observer.signal.set(signal);
        }
        if let Some(signal) = observer.signal.get() {
            *fd = signal.raw_fd();
        }
        Ok(())
    })
}

/// Ends an observer for everybody: who waits in sst_observer_next() gets SST_CLOSED, and so does whoever asks later; its
/// callback is told that as its last call, and its descriptor becomes readable. The watch at the store ends with the last
/// observer of the key. Closing again does nothing.
///
/// Owner: `observer` is borrowed and still to be freed. Thread: any. Blocks: no. NULL: `error`. Errors:
/// SST_INVALID_HANDLE, SST_FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_close(
    observer: *const sst_observer,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || handle::get::<Observer>(observer)?.feed.stop())
}

/// Frees an observer. The watch at the store ends with the last observer of the key.
///
/// Thread: any. Blocks: no. NULL, and what was freed before, is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observer_free(observer: *mut sst_observer) {
    boundary::run(|| drop(handle::free::<Observer>(observer)));
}
