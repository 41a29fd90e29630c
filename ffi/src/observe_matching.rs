//! Observers of all keys that match a pattern.
use crate::boundary;
use crate::callback::Callback;
use crate::client::sst_client;
use crate::completion;
use crate::error::sst_error;
use crate::input::{self, delay, milliseconds, sized};
use crate::observer::{ObserverObject, ObserverStream, sst_observer, sst_on_observer};
use crate::operation::{begin, sst_operation, wait};
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{MatchObservation, ObserveMatchingOptions};
use statestore_embed::{Client, Error, EventStream};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Options of sst_observe_matching().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_observe_matching_options {
    pub size: usize,
    /// Maximum number of keys (default: 1,000,000). The observer keeps each matching key and its version in memory. With
    /// more keys it ends with SST_TOO_LARGE.
    pub max_keys: usize,
    /// Time limit for the store to begin the watch (default: the request time-out of the settings).
    pub timeout_ms: u64,
    /// Interval at which the library scans for new keys on a store that does not watch patterns (default: 10,000;
    /// SST_FOREVER: never, so that such a store makes the call return SST_UNSUPPORTED).
    pub refresh_ms: u64,
}

sized!(sst_observe_matching_options, refresh_ms: u64);

/// # Safety As [`input::options`] asks.
unsafe fn options(
    given: *const sst_observe_matching_options,
) -> Result<ObserveMatchingOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    let mut options =
        ObserveMatchingOptions::new().timeout(milliseconds(given.timeout_ms, "timeout_ms")?);
    let refresh = delay(given.refresh_ms, "refresh_ms")?;
    if given.refresh_ms > 0 {
        options = options.refresh(refresh);
    }
    if given.max_keys > 0 {
        options = options.max_keys(given.max_keys);
    }
    Ok(options)
}

/// Returns the future of the observer, for both the blocking call and the operation.
///
/// # Safety As [`input::bytes`] and [`options`] ask.
unsafe fn observe(
    client: &Client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_observe_matching_options,
) -> Result<
    impl Future<Output = Result<EventStream<MatchObservation>, Error>> + Send + 'static + use<>,
    Error,
> {
    // SAFETY: by the contract.
    let (pattern, options) = unsafe {
        (
            input::bytes(pattern, pattern_len, "pattern")?,
            self::options(options)?,
        )
    };
    Ok(client.observe_matching(Bytes::copy_from_slice(pattern), options))
}

/// Starts observing all keys that match a pattern: first their present state, then every change. The pattern is that of
/// sst_scan_new().
///
/// The observations are SST_OBSERVED_SET for each key that is present, SST_OBSERVED_COMPLETE, and the later changes.
/// sst_observation_key() returns the key of each. After a gap, SST_OBSERVED_RESYNC, the differences and
/// SST_OBSERVED_RESYNCED follow. For a slow reader only the newest state of each key is kept.
///
/// On a store that does not watch patterns (`observe_matching` of sst_client_capabilities()), the library scans for keys
/// and watches each of them. New keys are then found by the scans that `refresh_ms` sets.
///
/// Blocks: until the store has begun the watch, at most for the time-out. Errors: SST_UNSUPPORTED from a store without
/// such watches and without SCAN; sst_observer_next() returns SST_TOO_LARGE if too many keys match.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_observe_matching(
    client: *const sst_client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_observe_matching_options,
    observer: Option<&mut MaybeUninit<*mut sst_observer>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let observer = output::init_failed(observer);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<ObserverObject>::new(observer, "observer")?;
        // SAFETY: the header asks for NULL or `pattern_len` bytes, and for a struct with its size.
        let stream = unsafe { observe(client, pattern, pattern_len, options) }?;
        let stream = wait(client, "observing", stream)?;
        to.write(ObserverObject::new(ObserverStream::Pattern(stream)))
    })
}

/// Begins sst_observe_matching().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_observe_matching_async(
    client: *const sst_client,
    pattern: *const c_void,
    pattern_len: usize,
    options: *const sst_observe_matching_options,
    callback: sst_on_observer,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or `pattern_len` bytes, and for a struct with its size.
        let stream = unsafe { observe(client, pattern, pattern_len, options) }?;
        begin(
            client,
            "observing",
            stream,
            callback,
            operation,
            |callback, result| {
                let stream = result.map(ObserverStream::Pattern);
                completion::pass(callback, stream.map(ObserverObject::new));
            },
        )
    })
}
