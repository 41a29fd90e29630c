//! Leases: single attempts to take one, and their holders.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::client_object::WithClient;
use crate::completion;
use crate::error::{self, sst_error};
use crate::guard::{GuardObject, sst_guard};
use crate::handle::{self, object};
use crate::holding::{HoldingObject, sst_holding, sst_on_holding};
use crate::infallible;
use crate::input::{self, FOREVER, milliseconds, sized};
use crate::operation::{begin, sst_operation, wait};
use crate::outcome::{self, ResultOut};
use crate::output::{self, HandleOut};
use crate::release::{sst_on_release, sst_release};
use crate::status::sst_status;
use crate::subscription::{self, sst_on_subscription, sst_subscription};
use bytes::Bytes;
use statestore_core::{LeaseOptions, Renewal};
use statestore_embed::{Acquisition, Error, Lease};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// A lease, identified by its name, which is a key of the store. Opaque.
pub struct sst_lease;

type LeaseObject = WithClient<Lease>;

object!(LeaseObject, sst_lease, 14, "a lease");

/// Options of sst_lease_new(), and of the lease behind a lock or an election.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_lease_options {
    pub size: usize,
    /// How long the lease lasts after it was taken or renewed: 100 to a day (default: 10,000).
    pub duration_ms: u64,
    /// Interval at which the guard renews the lease (default: a third of the duration; SST_FOREVER: only when
    /// sst_guard_renew() is called).
    pub renewal_ms: u64,
    /// Name of the holder, which each attempt makes unique by a suffix (default: the client id). Borrowed for the call.
    pub holder: *const c_void,
    /// Number of bytes of the name.
    pub holder_len: usize,
    /// Time limit of an attempt (default: the request time-out of the settings).
    pub timeout_ms: u64,
    /// Maximum age at which a value that this library did not write still counts as a lease (default: an hour).
    pub foreign_lease_max_ms: u64,
    /// Not zero: holds the lease under exactly the name of the holder, even if it is already held under that name. A
    /// restarted program resumes its lease this way. Two running clients that resume one name both hold the lease.
    pub resume: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(sst_lease_options, reserved: u32);

/// # Safety As [`input::options`] asks, with a holder as [`input::bytes`] asks.
pub(crate) unsafe fn options(given: *const sst_lease_options) -> Result<LeaseOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    // SAFETY: by the contract.
    let holder = unsafe { input::bytes(given.holder, given.holder_len, "holder") }?;
    if given.reserved != 0 {
        return Err(input::invalid("reserved", "it is not zero"));
    }
    let mut options = LeaseOptions::new()
        .resume(given.resume != 0)
        .renewal(match milliseconds(given.renewal_ms, "renewal_ms")? {
            None => Renewal::Third,
            Some(_) if given.renewal_ms == FOREVER => Renewal::Manual,
            Some(interval) => Renewal::Every(interval),
        })
        .holder((!given.holder.is_null()).then(|| Bytes::copy_from_slice(holder)))
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?);
    if let Some(duration) = milliseconds(given.duration_ms, "duration_ms")? {
        options.duration = duration;
    }
    if let Some(age) = milliseconds(given.foreign_lease_max_ms, "foreign_lease_max_ms")? {
        options.foreign_lease_max = age;
    }
    Ok(options)
}

/// Callback that receives the result of an attempt to take a lease.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_acquired {
    pub context: *mut c_void,
    /// `guard` is NULL if another client holds the lease; `holding` is its holder, if that is known.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            guard: *mut sst_guard,
            holding: *const sst_holding,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_acquired,
    unsafe extern "C" fn(
        *mut c_void,
        sst_status,
        *const sst_error,
        *mut sst_guard,
        *const sst_holding,
    )
);

/// Prepares a lease. No request is sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_lease_new(
    client: *const sst_client,
    name: *const c_void,
    name_len: usize,
    options: *const sst_lease_options,
    lease: Option<&mut MaybeUninit<*mut sst_lease>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let lease = output::init_failed(lease);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<LeaseObject>::new(lease, "lease")?;
        // SAFETY: the header asks for NULL or `name_len` bytes, and for a struct with its size.
        let (name, options) = unsafe {
            (
                input::bytes(name, name_len, "name")?,
                self::options(options)?,
            )
        };
        to.write(LeaseObject::new(client.lease(name, &options)?, client))
    })
}

/// Makes one attempt to take a lease. If another client holds it, `*guard` is NULL, and `*holding` is its holder if
/// that is known.
///
/// Blocks: until the answer, at most for the time-out. NULL: `holding`. Errors: SST_NOT_A_LOCK if the key holds
/// something else.
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_acquire(
    lease: *const sst_lease,
    guard: Option<&mut MaybeUninit<*mut sst_guard>>,
    holding: Option<&mut MaybeUninit<*mut sst_holding>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let guard = output::init_failed(guard);
    let holding = output::init_failed(holding);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let holding = HandleOut::<HoldingObject>::optional(holding);
        let guard = HandleOut::<GuardObject>::new(guard, "guard")?;
        let acquire = lease.inner.acquire();
        match wait(client, "taking a lease", acquire)? {
            Acquisition::Acquired(taken) => guard.write(GuardObject::new(taken, client)),
            Acquisition::Held(held) => {
                output::write_optional(holding, held.map(HoldingObject::from))
            }
        }
    })
}

/// Begins sst_lease_acquire().
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_acquire_async(
    lease: *const sst_lease,
    callback: sst_on_acquired,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let acquire = lease.inner.acquire();
        let owner = client.downgrade();
        begin(
            client,
            "taking a lease",
            acquire,
            callback,
            operation,
            move |callback, result| {
                let none = (ptr::null_mut(), ptr::null_mut());
                let reported = result.and_then(|acquisition| {
                    Ok(match acquisition {
                        Acquisition::Acquired(guard) => {
                            let guarded = GuardObject::new(guard, &owner.upgrade()?);
                            (handle::new(guarded)?, ptr::null_mut())
                        }
                        Acquisition::Held(Some(holding)) => {
                            (ptr::null_mut(), handle::new(HoldingObject::from(holding))?)
                        }
                        Acquisition::Held(None) => none,
                    })
                });
                error::lend(reported.as_ref().err(), |status, error| {
                    let (guard, holding) = *reported.as_ref().unwrap_or(&none);
                    let mut is_taken = false;
                    callback.call(|call, context| {
                        is_taken = true;
                        // SAFETY: the function has that type and gets its own context.
                        unsafe { call(context, status, error, guard, holding) }
                    });
                    if !is_taken {
                        handle::free::<GuardObject>(guard);
                    }
                    handle::free::<HoldingObject>(holding);
                });
            },
        )
    })
}

/// Releases the lease if it is held under the resumed holder's name in the options, regardless of the program that took
/// it. A guard releases its lease itself.
///
/// Blocks: until the answer, at most for the time-out. NULL: `result`. Errors: SST_INVALID_ARGUMENT if the options do
/// not resume a holder.
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_release(
    lease: *const sst_lease,
    result: Option<&mut MaybeUninit<sst_release>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::new(result);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let release = lease.inner.release();
        results.write(&wait(client, "releasing a lease", release)?)
    })
}

/// Begins sst_lease_release().
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_release_async(
    lease: *const sst_lease,
    callback: sst_on_release,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let release = lease.inner.release();
        begin(
            client,
            "releasing a lease",
            release,
            callback,
            operation,
            outcome::report,
        )
    })
}

/// Returns the present holder of a lease; `*holding` is NULL if there is none.
///
/// Blocks: until the answer, at most for the time-out. Errors: SST_NOT_A_LOCK if the key holds something else.
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_holder(
    lease: *const sst_lease,
    holding: Option<&mut MaybeUninit<*mut sst_holding>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let holding = output::init_failed(holding);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let to = HandleOut::<HoldingObject>::new(holding, "holding")?;
        let holder = lease.inner.holder();
        let holding = wait(client, "asking for a holder", holder)?;
        output::write_optional(Some(to), holding.map(HoldingObject::from))
    })
}

/// Begins sst_lease_holder().
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_holder_async(
    lease: *const sst_lease,
    callback: sst_on_holding,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let holder = lease.inner.holder();
        begin(
            client,
            "asking for a holder",
            holder,
            callback,
            operation,
            completion::lend_holder::<HoldingObject, _, _>,
        )
    })
}

/// Reports the holder of a lease to a callback: first the present one, then each change, also to no holder.
///
/// Renewals are not reported. A call with an error is followed by others.
///
/// Blocks: until the store has begun the watch.
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_observe(
    lease: *const sst_lease,
    callback: sst_on_holding,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let subscription = output::init_failed(subscription);
    let report_holder = completion::report_holders::<HoldingObject, _, _>(callback);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let observe = lease.inner.observe();
        let holders = wait(client, "observing a lease", observe)?;
        subscription::begin(client, &holders, subscription, report_holder)
    })
}

/// Begins sst_lease_observe(). `done` receives the subscription before the first call of `callback`. If `done` receives
/// an error, `callback` is not called.
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_observe_async(
    lease: *const sst_lease,
    callback: sst_on_holding,
    done: sst_on_subscription,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let report_holder = completion::report_holders::<HoldingObject, _, _>(callback);
    let done = Callback::new(done);
    boundary::with_object::<LeaseObject>(error, lease, |lease, client| {
        let observe = lease.inner.observe();
        let subscribe = subscription::subscribe_and_report(client, report_holder);
        begin(
            client,
            "observing a lease",
            observe,
            done,
            operation,
            subscribe,
        )
    })
}

/// Frees a lease. If it was taken, its guard keeps it.
#[unsafe(no_mangle)]
pub extern "C" fn sst_lease_free(lease: *mut sst_lease) {
    infallible::run(|| drop(handle::free::<LeaseObject>(lease)));
}
