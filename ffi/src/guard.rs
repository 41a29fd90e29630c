//! Guards: held locks, leases and leads of elections.
use crate::boundary;
use crate::bytes::sst_slice;
use crate::callback::{Callback, closure};
use crate::client::{self, sst_on_done};
use crate::client_object::WithClient;
use crate::completion;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::{TimestampObject, sst_hlc};
use crate::infallible;
use crate::input::{deadline, limit};
use crate::operation::{begin, event, releasing, sst_operation, wait, wait_for_event};
use crate::outcome::{self, ResultOut};
use crate::output::{self, HandleOut};
use crate::release::{sst_on_release, sst_release};
use crate::status::sst_status;
use statestore_embed::{Client, Error, Guard, WorkOutcome};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A held lease, which reports its own loss. Opaque.
///
/// The guard renews the lease automatically. Between sst_guard_is_valid() and the effect of an action the lease may
/// still be lost. Writes with the guard are safe nevertheless: once a newer holder has written, the store rejects them.
pub struct sst_guard;

pub(crate) type GuardObject = WithClient<Guard>;

object!(GuardObject, sst_guard, 15, "a guard");

/// Returns the guard of a handle.
pub(crate) fn get(guard: *const sst_guard) -> Result<Arc<GuardObject>, Error> {
    handle::get::<GuardObject>(guard)
}

/// Callback that receives a new guard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_guard {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            guard: *mut sst_guard,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_guard,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut sst_guard)
);

/// Reports a new guard to a callback.
pub(crate) fn report(
    client: &Client,
) -> impl FnOnce(&Callback<sst_on_guard>, Result<Guard, Error>) + Send + 'static {
    // A client that was freed meanwhile must not acquire a lock.
    let client = client.downgrade();
    move |callback, result| {
        let guarded = result.and_then(|guard| Ok(GuardObject::new(guard, &client.upgrade()?)));
        completion::pass(callback, guarded);
    }
}

/// Callback that receives a version.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_version {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            version: *const sst_hlc,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_version,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_hlc)
);

/// Returns the fencing token: the version that the lease got when it was taken.
///
/// Each later holder gets a higher token. The holder can pass the token to other programs that write on its behalf.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_token(
    guard: *const sst_guard,
    token: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let token = HandleOut::<TimestampObject>::new(token, "token")?;
        token.write(TimestampObject::new(get(guard)?.inner.token()?))
    })
}

/// Returns the name under which the lease is held: the value of its key.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_holder(guard: *const sst_guard) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        Ok(sst_slice::from_bytes(get(guard)?.inner.holder()?.name()))
    })
}

/// Returns whether the lease is certainly still held. Once false, the result stays false.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_is_valid(guard: *const sst_guard) -> bool {
    infallible::value(false, || get(guard)?.inner.is_valid())
}

/// Reports why the lease is not certainly held any more.
///
/// Errors: SST_LOCK_LOST.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_check(
    guard: *const sst_guard,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || get(guard)?.inner.check())
}

/// Waits until the lease is not certainly held any more, for `timeout_ms`. A released lease is not held any more.
///
/// Blocks: at most for the time-out. Errors: SST_TIMED_OUT if it is still held.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_wait_lost(
    guard: *const sst_guard,
    timeout_ms: u64,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    const ACTION: &str = "waiting for the loss of a lease";
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let until = deadline(timeout_ms)?;
        let lost = guard.inner.lost();
        // The guard is not kept during the wait, so that freeing it releases the lease.
        drop(guard);
        wait_for_event(client, ACTION, lost, until).map(drop)
    })
}

/// Begins sst_guard_wait_lost(), without a limit.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_wait_lost_async(
    guard: *const sst_guard,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let lost = guard.inner.lost();
        let action = "waiting for the loss of a lease";
        begin(
            client,
            event(action),
            lost,
            callback,
            operation,
            |callback, lost| client::report_done(callback, lost.map(drop)),
        )
    })
}

/// Renews the lease now, in addition to the automatic renewals. `*version` is the new version of the lease's key; the
/// token stays.
///
/// Blocks: until the answer, at most for the time-out of the lease's options. NULL: `version`. Errors: SST_LOCK_LOST;
/// any other error does not mean that the lease is lost.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_renew(
    guard: *const sst_guard,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let to = HandleOut::<TimestampObject>::optional(version);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let version = wait(client, "renewing a lease", guard.inner.renew())?;
        output::write_optional(to, Some(TimestampObject::new(&version)))
    })
}

/// Begins sst_guard_renew().
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_renew_async(
    guard: *const sst_guard,
    callback: sst_on_version,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let renew = guard.inner.renew();
        begin(
            client,
            "renewing a lease",
            renew,
            callback,
            operation,
            |callback, result| {
                let version = result.map(|version| Some(TimestampObject::new(&version)));
                completion::lend(callback, version);
            },
        )
    })
}

/// Stops renewing and releases the lease, or resigns from the lead of an election. Waits for writes with the guard that
/// are under way.
///
/// Blocks: until the answer, at most for `timeout_ms`, and not longer than the lease is certain. NULL: `result`.
/// Errors: SST_TIMED_OUT with SST_UNKNOWN if the time is over; the release then continues in the background, and the
/// lease expires by itself.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_release(
    guard: *const sst_guard,
    timeout_ms: u64,
    result: Option<&mut MaybeUninit<sst_release>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::new(result);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let release = guard.inner.release(limit(timeout_ms)?);
        results.write(&wait(client, "giving a lease back", release)?)
    })
}

/// Begins sst_guard_release().
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_release_async(
    guard: *const sst_guard,
    timeout_ms: u64,
    callback: sst_on_release,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let release = guard.inner.release(limit(timeout_ms)?);
        begin(
            client,
            releasing("giving a lease back"),
            release,
            callback,
            operation,
            outcome::report,
        )
    })
}

/// Releases a lock at the end of work that succeeded, or resigns from the lead of an election.
///
/// A failure to ask the store is not an error: it is logged, and the lease expires by itself.
///
/// Blocks: as sst_guard_release(). Errors: SST_LOCK_LOST with SST_UNKNOWN if the lock was lost or released before, so
/// that some of the work was done without its protection.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_finish(
    guard: *const sst_guard,
    timeout_ms: u64,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let finish = guard
            .inner
            .finish(WorkOutcome::SucceededUnderLease, limit(timeout_ms)?);
        wait(client, "giving a lock back", finish)
    })
}

/// Begins sst_guard_finish().
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_finish_async(
    guard: *const sst_guard,
    timeout_ms: u64,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let finish = guard
            .inner
            .finish(WorkOutcome::SucceededUnderLease, limit(timeout_ms)?);
        begin(
            client,
            releasing("giving a lock back"),
            finish,
            callback,
            operation,
            client::report_done,
        )
    })
}

/// Stops renewing, and leaves the lease to expire or to be renewed by another program that knows the holder's name. The
/// lead of an election is resigned instead.
///
/// Blocks: for a moment.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_leave(
    guard: *const sst_guard,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        wait(client, "leaving a lease", guard.inner.leave())
    })
}

/// Begins sst_guard_leave().
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_leave_async(
    guard: *const sst_guard,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        let leave = guard.inner.leave();
        begin(
            client,
            releasing("leaving a lease"),
            leave,
            callback,
            operation,
            client::report_done,
        )
    })
}

/// Frees a guard. Unless the lease was released or left, it is released in the background. The callback of
/// sst_guard_wait_lost_async() is called then.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_free(guard: *mut sst_guard) {
    infallible::run(|| drop(handle::free::<GuardObject>(guard)));
}
