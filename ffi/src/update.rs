//! Updates: a new value of a key is computed from its present one.
use crate::boundary;
use crate::bytes::{BytesObject, sst_bytes};
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::entry::{EntryObject, sst_entry};
use crate::error::sst_error;
use crate::guard::GuardObject;
use crate::handle;
use crate::hlc::sst_hlc;
use crate::input::{self, FOREVER, milliseconds, sized};
use crate::operation::{begin_with_callback, sst_operation, wait};
use crate::outcome::{self, OperationOutcome, ResultOut};
use crate::output::{self, FailureValue, HandleOut};
use crate::revocable_callback::{RevocableCallback, Revoke};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{Entry, Hlc, UpdateOptions, UpdateOutcome};
use statestore_embed::{Client, Error, ErrorKind, Guard};
use std::ffi::c_void;
use std::future::{pending, poll_fn};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

pub(crate) const UPDATING: &str = "updating";
type UpdateFuture = Pin<Box<dyn Future<Output = Result<UpdateOutcome, Error>> + Send>>;

/// Result of sst_update(), sst_guard_update() and sst_compare_and_set().
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_update_result {
    /// The call failed: see the status.
    SST_UPDATE_FAILED = 0,
    /// The new value is stored.
    SST_UPDATE_APPLIED = 1,
    /// The key is unchanged: the callback wanted no change, or the key does not hold the expected value.
    SST_UPDATE_UNCHANGED = 2,
}

impl FailureValue for sst_update_result {
    const FAILED: Self = Self::SST_UPDATE_FAILED;
}

impl OperationOutcome for UpdateOutcome {
    type ResultEnum = sst_update_result;

    fn result(&self) -> sst_update_result {
        match self {
            Self::Applied { .. } => sst_update_result::SST_UPDATE_APPLIED,
            Self::Unchanged => sst_update_result::SST_UPDATE_UNCHANGED,
        }
    }

    fn version(&self) -> Option<&Hlc> {
        match self {
            Self::Applied { version } => Some(version),
            Self::Unchanged => None,
        }
    }
}

/// Decision of a callback of sst_update().
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_change {
    /// Keeps the key unchanged.
    SST_KEEP = 0,
    /// Stores the new value.
    SST_STORE = 1,
}

/// Options of sst_update(), sst_guard_update(), sst_compare_and_set(), sst_touch() and sst_incr().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_update_options {
    pub size: usize,
    /// Time in milliseconds after which the key expires, at least 100; SST_FOREVER for never. By default the key keeps
    /// its remaining time, or does not expire if the store cannot report that time.
    pub expires_in_ms: u64,
    /// Time limit of all attempts together (default: the request time-out of the settings).
    pub timeout_ms: u64,
    /// Not zero: asks the store to keep the key on disk.
    pub persist: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(sst_update_options, reserved: u32);

/// # Safety As [`input::options`] asks.
pub(crate) unsafe fn options(given: *const sst_update_options) -> Result<UpdateOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    if given.reserved != 0 {
        return Err(input::invalid("reserved", "it is not zero"));
    }
    Ok(UpdateOptions::new()
        .expires_in(lifetime(given.expires_in_ms)?)
        .persist(given.persist != 0)
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?))
}

/// Reads an expiry, which has no end for SST_FOREVER; `None` for the default.
pub(crate) fn lifetime(ms: u64) -> Result<Option<Duration>, Error> {
    let time = milliseconds(ms, "expires_in_ms")?;
    Ok(time.map(|time| if ms == FOREVER { Duration::MAX } else { time }))
}

/// Reads the arguments of an update.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
pub(crate) unsafe fn read<'a>(
    key: *const c_void,
    key_len: usize,
    options: *const sst_update_options,
) -> Result<(&'a [u8], UpdateOptions), Error> {
    // SAFETY: by the contract.
    unsafe { Ok((input::bytes(key, key_len, "key")?, self::options(options)?)) }
}

/// Callback that computes the new value of a key. It may be called several times, when another client was faster, so it
/// should do nothing but compute.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_changer {
    pub context: *mut c_void,
    /// Returns an sst_change; must not be NULL. `old` is the entry of the key, NULL if the key is absent.
    ///
    /// For SST_STORE, set `*value` to the new value, made with sst_bytes_new(); the library takes it over. `*value` is
    /// NULL before the call. If it is still NULL afterwards, the key is not changed.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            old: *const sst_entry,
            value: *mut *mut sst_bytes,
        ) -> u32,
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_changer,
    unsafe extern "C" fn(*mut c_void, *const sst_entry, *mut *mut sst_bytes) -> u32
);

/// Asks a callback for the new value; `None` for no change.
fn compute_value(
    changer: &Callback<sst_changer>,
    old: Option<Entry>,
) -> Result<Option<Bytes>, Error> {
    handle::lend(old.map(EntryObject::from), |old| {
        let mut value = ptr::null_mut();
        let mut change = sst_change::SST_KEEP as u32;
        // SAFETY: the function has that type and gets its own context; the variable outlives the call.
        changer.call(|call, context| change = unsafe { call(context, old, &raw mut value) });
        let value = handle::free::<BytesObject>(value);
        let is_wanted = change == sst_change::SST_STORE as u32;
        value.filter(|_| is_wanted).map(|value| value.0.clone())
    })
}

/// A callback that computes values, until it is revoked.
pub(crate) type ChangeCallback = RevocableCallback<sst_changer>;

/// Answers a question. If the callback was revoked, the question is dropped, which notifies the update.
fn reply_to(changer: &ChangeCallback, request: ValueRequest) {
    let ValueRequest { old, reply: answer } = request;
    changer.call(|callback| {
        // The update may have ended meanwhile.
        let _ = answer.send(compute_value(callback, old));
    });
}

/// A request for the new value of a key.
struct ValueRequest {
    old: Option<Entry>,
    /// Receives the answer; dropped if no answer is possible any more.
    reply: oneshot::Sender<Result<Option<Bytes>, Error>>,
}

/// The client, or the guard of a lease, through which updates are made.
#[derive(Clone, Copy)]
pub(crate) struct UpdateTarget<'a> {
    client: &'a Client,
    /// The guard, for an update under its token.
    guard: Option<&'a Guard>,
}

impl<'a> UpdateTarget<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self {
            client,
            guard: None,
        }
    }

    pub(crate) fn with_guard(client: &'a Client, guard: &'a GuardObject) -> Self {
        Self {
            client,
            guard: Some(&guard.inner),
        }
    }

    fn update<F, C>(self, key: &[u8], options: UpdateOptions, change: C) -> UpdateFuture
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
        C: FnMut(Option<Entry>) -> F + Send + 'static,
    {
        let key = Bytes::copy_from_slice(key);
        match self.guard {
            Some(guard) => Box::pin(guard.update(key, options, change)),
            None => Box::pin(self.client.update(key, options, change)),
        }
    }

    /// Waits for an update. The context of `changer` is dropped at its end.
    pub(crate) fn wait(
        self,
        key: &[u8],
        options: UpdateOptions,
        changer: &Arc<ChangeCallback>,
    ) -> Result<UpdateOutcome, Error> {
        // The thread that waits here may be the one that runs the queue.
        if self.client.is_in_callback() || self.client.has_queue() {
            update_on_this_thread(self, key, options, changer)
        } else {
            let update = update_on_callback_thread(self, key, options, changer)?;
            wait(self.client, UPDATING, update)
        }
    }

    /// Begins an update. `changer` is dropped before `callback` is called.
    pub(crate) fn begin(
        self,
        key: &[u8],
        options: UpdateOptions,
        changer: &Arc<ChangeCallback>,
        callback: Callback<sst_on_update>,
        operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    ) -> Result<(), Error> {
        let update = update_on_callback_thread(self, key, options, changer)?;
        let ended = Arc::clone(changer);
        begin_with_callback(
            self.client,
            UPDATING.into(),
            update,
            callback,
            Some(Arc::clone(changer) as _),
            HandleOut::optional(operation),
            move |callback, result| {
                ended.revoke();
                outcome::report_with_version(callback, result);
            },
        )
    }
}

/// Returns the future of an update that passes its requests for values to `send`.
fn update<P: FnMut(ValueRequest) + Send + 'static>(
    updater: UpdateTarget<'_>,
    key: &[u8],
    options: UpdateOptions,
    mut send: P,
) -> impl Future<Output = Result<UpdateOutcome, Error>> + Send + 'static + use<P> {
    let failure = Arc::new(Mutex::new(None));
    let failed = Arc::clone(&failure);
    let update = updater.update(key, options, move |old| {
        let (answer, answered) = oneshot::channel();
        send(ValueRequest { old, reply: answer });
        let failure = Arc::clone(&failure);
        async move {
            let error = match answered.await {
                Ok(Ok(new)) => return new,
                Ok(Err(error)) => error,
                Err(_) => closed(),
            };
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            // There is no value, and the absence of a value would mean no change.
            pending().await
        }
    });
    async move {
        let mut update = pin!(update);
        poll_fn(|context| {
            let polled = update.as_mut().poll(context);
            let error = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            error.map_or(polled, |error| Poll::Ready(Err(error)))
        })
        .await
    }
}

fn closed() -> Error {
    let reason = "the client was closed before the new value was known";
    Error::new(
        ErrorKind::Closed,
        statestore_core::Outcome::NotDone,
        UPDATING,
        reason,
    )
}

/// Returns the future of an update whose values are computed on the thread of the callbacks.
fn update_on_callback_thread(
    updater: UpdateTarget<'_>,
    key: &[u8],
    options: UpdateOptions,
    changer: &Arc<ChangeCallback>,
) -> Result<impl Future<Output = Result<UpdateOutcome, Error>> + Send + 'static + use<>, Error> {
    let callbacks = updater.client.callbacks()?;
    let changer = Arc::clone(changer);
    Ok(update(updater, key, options, move |request| {
        let changer = Arc::clone(&changer);
        // If the client was closed, the job is dropped, and with it the question.
        let _ = callbacks.post(Box::new(move || reply_to(&changer, request)));
    }))
}

/// Waits for an update whose values are computed on this thread, because no other thread would ever do it. Meanwhile
/// the runtime continues without this thread.
fn update_on_this_thread(
    updater: UpdateTarget<'_>,
    key: &[u8],
    options: UpdateOptions,
    changer: &ChangeCallback,
) -> Result<UpdateOutcome, Error> {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let mut update = Box::pin(update(updater, key, options, move |request| {
        // The receiver exists in this function.
        let _ = sender.send(request);
    }));
    loop {
        let next = poll_fn(|context| {
            if let Poll::Ready(outcome) = update.as_mut().poll(context) {
                return Poll::Ready(outcome.map(UpdateEvent::Outcome));
            }
            match requests.poll_recv(context) {
                Poll::Ready(Some(request)) => Poll::Ready(Ok(UpdateEvent::ValueRequest(request))),
                // The update holds the other end.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        });
        match wait(updater.client, UPDATING, next)? {
            UpdateEvent::Outcome(outcome) => return Ok(outcome),
            UpdateEvent::ValueRequest(request) => reply_to(changer, request),
        }
    }
}

enum UpdateEvent {
    Outcome(UpdateOutcome),
    ValueRequest(ValueRequest),
}

/// Callback that receives the result of an update.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_update {
    pub context: *mut c_void,
    /// `version` is the version of the new value, NULL unless `result` is SST_UPDATE_APPLIED.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            result: sst_update_result,
            version: *const sst_hlc,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_update,
    unsafe extern "C" fn(
        *mut c_void,
        sst_status,
        *const sst_error,
        sst_update_result,
        *const sst_hlc,
    )
);

/// Computes a new value of a key from its present one, without a lock.
///
/// The call reads the key, and writes it if it still has the version that was read. `changer` is called on the thread
/// of the callbacks, or on this one if the client has a queue. It is not called any more after this has returned, and
/// its context is dropped before.
///
/// The key keeps its remaining time, unless the options say otherwise. `*version` is the version of the new value, NULL
/// if nothing changed. For a key that a lock protects, use sst_guard_update().
///
/// On a store without conditions on versions (see sst_client_capabilities()) this is a fenced compare-and-set. From the
/// first update on, a SET or DEL without a token is rejected, and all clients that write the key should use this;
/// docs/locks.md has the limits.
///
/// Blocks: until it is done, at most for the time-out, and while `changer` runs. Errors: SST_TIMED_OUT if other clients
/// changed the key each time; SST_FENCING_TOKEN_REQUIRED if the key is fenced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_update(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_update_options,
    changer: sst_changer,
    result: Option<&mut MaybeUninit<sst_update_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    let is_missing = changer.call.is_none();
    let changer = ChangeCallback::new(Callback::new(changer));
    let status = boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { read(key, key_len, options) }?;
        if is_missing {
            return Err(input::null("changer.call"));
        }
        results.write(&UpdateTarget::new(client).wait(key, options, &changer)?)
    });
    changer.revoke();
    status
}

/// Begins sst_update(). `changer` is dropped before `callback` is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_update_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    options: *const sst_update_options,
    changer: sst_changer,
    callback: sst_on_update,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    let is_missing = changer.call.is_none();
    let changer = ChangeCallback::new(Callback::new(changer));
    let status = boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { read(key, key_len, options) }?;
        if is_missing {
            return Err(input::null("changer.call"));
        }
        UpdateTarget::new(client).begin(key, options, &changer, callback, operation)
    });
    if status != sst_status::SST_OK {
        changer.revoke();
    }
    status
}
