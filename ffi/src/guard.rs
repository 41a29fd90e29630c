//! What is held: a lock, or the lead of an election.
use crate::boundary;
use crate::bytes::sst_slice;
use crate::callback::{Callback, closure};
use crate::client::{self, sst_on_done};
use crate::completion;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::{Timestamp, sst_hlc};
use crate::made::Made;
use crate::operation::{begin, event, sst_operation, wait, wait_for_event};
use crate::outcome::{self, Results};
use crate::output::{self, Out};
use crate::release::{sst_on_release, sst_release};
use crate::status::sst_status;
use statestore_embed::{Client, Error, Guard, Work};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Holds a lease, and knows when it does not hold it any more. Opaque.
///
/// It renews the lease by itself. What is done between sst_guard_is_valid() and its effect on the world can still come
/// too late; writes that are made with the guard are safe nevertheless, since the store refuses them once a newer
/// holder has written.
pub struct sst_guard;

pub(crate) type Guarded = Made<Guard>;

object!(Guarded, sst_guard, 15, "a guard");

/// The guard of a handle.
pub(crate) fn get(guard: *const sst_guard) -> Result<Arc<Guarded>, Error> {
    handle::get::<Guarded>(guard)
}

/// Is called with a new guard. For what a callback may do see "Callbacks" at the top.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_guard {
    /// Handed to both functions.
    pub context: *mut c_void,
    /// Called once; may be NULL, in which case what is held is given back. `guard` belongs to whom is called, and is
    /// NULL unless `status` is SST_OK. `error` is borrowed for the call, and NULL if `status` is SST_OK.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            guard: *mut sst_guard,
        ),
    >,
    /// Called once after the last call, or instead of it; may be NULL.
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_guard,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut sst_guard)
);

/// Tells a callback of a new guard.
pub(crate) fn tell(
    client: &Client,
) -> impl FnOnce(&Callback<sst_on_guard>, Result<Guard, Error>) + Send + 'static {
    // Nobody is to get a lock in the name of a client that was freed meanwhile.
    let client = client.downgrade();
    move |callback, result| {
        let guarded = result.and_then(|guard| Ok(Guarded::new(guard, &client.upgrade()?)));
        completion::give(callback, guarded);
    }
}

/// Is called with a version. For what a callback may do see "Callbacks" at the top.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_version {
    /// Handed to both functions.
    pub context: *mut c_void,
    /// Called once; may be NULL. `version` and `error` are borrowed for the call. `version` is NULL unless `status` is
    /// SST_OK; `error` is NULL if it is.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            version: *const sst_hlc,
        ),
    >,
    /// Called once after the last call, or instead of it; may be NULL.
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_version,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_hlc)
);

/// The fencing token: the version that the lease got when it was taken. Each later holder gets a higher one. It can be
/// handed to others who write on behalf of the holder.
///
/// Owner: `*token` is the caller's, freed with sst_hlc_free(). Thread: any. Blocks: no. NULL: `error`. Errors:
/// SST_INVALID_ARGUMENT, SST_INVALID_HANDLE; `*token` is NULL then.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_token(
    guard: *const sst_guard,
    token: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let token = Out::<Timestamp>::new(token, "token")?;
        token.give(Timestamp::new(get(guard)?.it.token()?))
    })
}

/// The name under which the lease is held: the value of its key.
///
/// Owner: its bytes belong to `guard` and live as long as it. Thread: any. Blocks: no. NULL, and what is no guard,
/// gives none.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_holder(guard: *const sst_guard) -> sst_slice {
    boundary::value(sst_slice::NONE, || {
        Ok(sst_slice::of(get(guard)?.it.holder()?.name()))
    })
}

/// Whether the lease is certainly still held. Once this was false it stays so.
///
/// Owner: `guard` is borrowed. Thread: any. Blocks: no. NULL, and what is no guard, gives false.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_is_valid(guard: *const sst_guard) -> bool {
    boundary::value(false, || get(guard)?.it.is_valid())
}

/// Says why the lease is not certainly held any more.
///
/// Owner: `guard` is borrowed. Thread: any. Blocks: no. NULL: `error`. Errors: SST_LOCK_LOST, SST_INVALID_HANDLE,
/// SST_FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_check(
    guard: *const sst_guard,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || get(guard)?.it.check())
}

/// Waits until the lease is not certainly held any more, for `timeout_ms` milliseconds: not at all for 0, without a
/// limit if it is negative. A lease that was given back is not held any more.
///
/// Owner: `guard` is borrowed. Thread: any. Blocks: at most for the time-out. NULL: `error`. Errors: SST_TIMED_OUT if
/// it is still held, SST_INVALID_HANDLE, SST_FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_wait_lost(
    guard: *const sst_guard,
    timeout_ms: i64,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    const ACTION: &str = "waiting for the loss of a lease";
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let lost = guard.it.lost();
        // It is not kept meanwhile, so that freeing it gives the lease back.
        drop(guard);
        wait_for_event(client, ACTION, lost, timeout_ms).map(drop)
    })
}

/// Has a callback called as soon as the lease is not certainly held any more. See sst_guard_wait_lost().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(). Thread: any.
/// Blocks: no. NULL: `operation` and `error`. Errors: SST_QUEUE_FULL, SST_CLOSED, SST_INVALID_HANDLE; the callback is
/// not called then, its context is dropped before this returns, and `*operation` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_wait_lost_async(
    guard: *const sst_guard,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let lost = guard.it.lost();
        let action = "waiting for the loss of a lease";
        begin(
            client,
            event(action),
            lost,
            callback,
            operation,
            |callback, lost| client::done(callback, lost.map(drop)),
        )
    })
}

/// Renews the lease now, besides what the guard does by itself. `*version` is the new version of the lease's key; the
/// token stays.
///
/// Owner: `*version` is the caller's, freed with sst_hlc_free(). Thread: any. Blocks: until the answer, at most for the
/// time-out of the lease's options. NULL: `version` and `error`. Errors: SST_LOCK_LOST, and as sst_set(), which does
/// not mean that the lease is lost; `*version` is NULL then.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_renew(
    guard: *const sst_guard,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let to = Out::<Timestamp>::optional(version);
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let version = wait(client, "renewing a lease", guard.it.renew())?;
        output::give(to, Some(Timestamp::new(&version)))
    })
}

/// Begins to renew the lease. See sst_guard_renew().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(). Thread: any.
/// Blocks: no. NULL: `operation` and `error`. Errors: SST_QUEUE_FULL, SST_CLOSED, SST_INVALID_HANDLE; the callback is
/// not called then, its context is dropped before this returns, and `*operation` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_renew_async(
    guard: *const sst_guard,
    callback: sst_on_version,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let renew = guard.it.renew();
        begin(
            client,
            "renewing a lease",
            renew,
            callback,
            operation,
            |callback, result| {
                let version = result.map(|version| Some(Timestamp::new(&version)));
                completion::lend(callback, version);
            },
        )
    })
}

/// Stops renewing and gives the lease back, or resigns from the lead of an election. Writes with the guard that are
/// under way are waited for.
///
/// Owner: `guard` is borrowed and still to be freed. Thread: any. Blocks: until the answer, at most until the lease
/// would end by itself. NULL: `result` and `error`. Errors: the store could not be asked; `*result` is
/// SST_RELEASE_FAILED then, and the lease ends when its time is over.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_release(
    guard: *const sst_guard,
    result: Option<&mut MaybeUninit<sst_release>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = Results::new(result);
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let release = guard.it.release();
        results.give(&wait(client, "giving a lease back", release)?)
    })
}

/// Begins to give the lease back. See sst_guard_release().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(). Thread: any.
/// Blocks: no. NULL: `operation` and `error`. Errors: SST_QUEUE_FULL, SST_CLOSED, SST_INVALID_HANDLE; the callback is
/// not called then, its context is dropped before this returns, and `*operation` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_release_async(
    guard: *const sst_guard,
    callback: sst_on_release,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let release = guard.it.release();
        begin(
            client,
            "giving a lease back",
            release,
            callback,
            operation,
            outcome::tell,
        )
    })
}

/// Gives a lock back at the end of work that succeeded, or resigns from the lead of an election. That the store could not
/// be asked is no error: the log is told, and the lease ends by itself.
///
/// Owner: `guard` is borrowed and still to be freed. Thread: any. Blocks: as sst_guard_release(). NULL: `error`.
/// Errors: SST_LOCK_LOST with SST_UNKNOWN if it was lost or given back before, so that the work, or a part of it, was
/// done without its protection.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_finish(
    guard: *const sst_guard,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        wait(client, "giving a lock back", guard.it.finish(Work::Whole))
    })
}

/// Begins to give a lock back at the end of work that succeeded. See sst_guard_finish().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(). Thread: any.
/// Blocks: no. NULL: `operation` and `error`. Errors: SST_QUEUE_FULL, SST_CLOSED, SST_INVALID_HANDLE; the callback is
/// not called then, its context is dropped before this returns, and `*operation` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_finish_async(
    guard: *const sst_guard,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let finish = guard.it.finish(Work::Whole);
        begin(
            client,
            "giving a lock back",
            finish,
            callback,
            operation,
            client::done,
        )
    })
}

/// Stops renewing and leaves the lease to its time, or to somebody who knows the holder's name and renews it. The lead
/// of an election is resigned from.
///
/// Owner: `guard` is borrowed and still to be freed. Thread: any. Blocks: for a moment. NULL: `error`. Errors:
/// SST_CLOSED, SST_INVALID_HANDLE, SST_FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_leave(
    guard: *const sst_guard,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        wait(client, "leaving a lease", guard.it.leave())
    })
}

/// Begins to leave the lease to its time. See sst_guard_leave().
///
/// Owner: `callback` is handed over; `*operation` is the caller's, freed with sst_operation_free(). Thread: any.
/// Blocks: no. NULL: `operation` and `error`. Errors: SST_QUEUE_FULL, SST_CLOSED, SST_INVALID_HANDLE; the callback is
/// not called then, its context is dropped before this returns, and `*operation` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_leave_async(
    guard: *const sst_guard,
    callback: sst_on_done,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<Guarded>(error, guard, |guard, client| {
        let leave = guard.it.leave();
        begin(
            client,
            "leaving a lease",
            leave,
            callback,
            operation,
            client::done,
        )
    })
}

/// Frees a guard, and gives its lease back in the background unless that was done or the lease was left.
///
/// Thread: any. Blocks: no. NULL, and what was freed before, is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn sst_guard_free(guard: *mut sst_guard) {
    boundary::run(|| drop(handle::free::<Guarded>(guard)));
}
