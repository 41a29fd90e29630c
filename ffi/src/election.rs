//! Elections: a lock whose holder proclaims a value.
use crate::boundary;
use crate::callback::Callback;
use crate::client::sst_client;
use crate::client_object::WithClient;
use crate::completion;
use crate::error::sst_error;
use crate::guard::{self, GuardObject, sst_guard, sst_on_guard};
use crate::handle::{self, object};
use crate::hlc::sst_hlc;
use crate::infallible;
use crate::input;
use crate::leader::{LeaderObject, sst_leader, sst_on_leader};
use crate::lock::{self, sst_lock_options};
use crate::operation::{begin, event, sst_operation, wait, wait_for_event};
use crate::outcome::{self, ResultOut};
use crate::output::{self, HandleOut};
use crate::set::{sst_on_set, sst_set_result};
use crate::status::sst_status;
use crate::subscription::{self, sst_on_subscription, sst_subscription};
use bytes::Bytes;
use statestore_embed::{Election, Error};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// An election, identified by its name. Opaque.
///
/// The name is the key of a lock, and the holder of the lock is the leader. The key `{name}/leader` holds the value
/// that the leader proclaims.
pub struct sst_election;

type ElectionObject = WithClient<Election>;

object!(ElectionObject, sst_election, 17, "an election");

/// Prepares an election. No request is sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_election_new(
    client: *const sst_client,
    name: *const c_void,
    name_len: usize,
    options: *const sst_lock_options,
    election: Option<&mut MaybeUninit<*mut sst_election>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let election = output::init_failed(election);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<ElectionObject>::new(election, "election")?;
        // SAFETY: the header asks for NULL or `name_len` bytes, and for a struct with its size.
        let (name, options) = unsafe { lock::read(name, name_len, options) }?;
        to.write(ElectionObject::new(
            client.election(name, &options)?,
            client,
        ))
    })
}

/// Reads the value to proclaim.
///
/// # Safety As [`input::bytes`] asks.
unsafe fn proclaimed_value(value: *const c_void, value_len: usize) -> Result<Bytes, Error> {
    // SAFETY: by the contract.
    let value = unsafe { input::bytes(value, value_len, "value") }?;
    Ok(Bytes::copy_from_slice(value))
}

/// Waits until this candidate is elected, and proclaims a value. Freeing the guard resigns.
///
/// Blocks: until the election is won, or the time to wait is over. Errors: as sst_lock().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_election_campaign(
    election: *const sst_election,
    value: *const c_void,
    value_len: usize,
    guard: Option<&mut MaybeUninit<*mut sst_guard>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let guard = output::init_failed(guard);
    boundary::with_object::<ElectionObject>(error, election, |election, client| {
        let to = HandleOut::<GuardObject>::new(guard, "guard")?;
        // SAFETY: the header asks for NULL or `value_len` bytes.
        let campaign = election
            .inner
            .campaign(unsafe { proclaimed_value(value, value_len) }?);
        let guard = wait_for_event(client, "campaigning", campaign, None)?;
        to.write(GuardObject::new(guard, client))
    })
}

/// Begins sst_election_campaign(). Cancelling the operation withdraws the candidate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_election_campaign_async(
    election: *const sst_election,
    value: *const c_void,
    value_len: usize,
    callback: sst_on_guard,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<ElectionObject>(error, election, |election, client| {
        // SAFETY: the header asks for NULL or `value_len` bytes.
        let campaign = election
            .inner
            .campaign(unsafe { proclaimed_value(value, value_len) }?);
        begin(
            client,
            event("campaigning"),
            campaign,
            callback,
            operation,
            guard::report(client),
        )
    })
}

/// Replaces the value that the leader proclaims. `*version` is the version of the record.
///
/// Blocks: until the answer. Errors: SST_INVALID_ARGUMENT if the guard is that of a lock; those of sst_guard_set().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_proclaim(
    guard: *const sst_guard,
    value: *const c_void,
    value_len: usize,
    result: Option<&mut MaybeUninit<sst_set_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or `value_len` bytes.
        let proclaim = guard
            .inner
            .proclaim(unsafe { proclaimed_value(value, value_len) }?);
        results.write(&wait(client, "proclaiming", proclaim)?)
    })
}

/// Begins sst_guard_proclaim().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_proclaim_async(
    guard: *const sst_guard,
    value: *const c_void,
    value_len: usize,
    callback: sst_on_set,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or `value_len` bytes.
        let proclaim = guard
            .inner
            .proclaim(unsafe { proclaimed_value(value, value_len) }?);
        begin(
            client,
            "proclaiming",
            proclaim,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}

/// Returns the present leader; `*leader` is NULL if there is none.
///
/// Blocks: until the answer. Errors: as sst_lease_holder().
#[unsafe(no_mangle)]
pub extern "C" fn sst_election_leader(
    election: *const sst_election,
    leader: Option<&mut MaybeUninit<*mut sst_leader>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let leader = output::init_failed(leader);
    boundary::with_object::<ElectionObject>(error, election, |election, client| {
        let to = HandleOut::<LeaderObject>::new(leader, "leader")?;
        let leader = election.inner.leader();
        let leader = wait(client, "asking for a leader", leader)?;
        output::write_optional(Some(to), leader.map(LeaderObject::from))
    })
}

/// Begins sst_election_leader().
#[unsafe(no_mangle)]
pub extern "C" fn sst_election_leader_async(
    election: *const sst_election,
    callback: sst_on_leader,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_object::<ElectionObject>(error, election, |election, client| {
        let leader = election.inner.leader();
        begin(
            client,
            "asking for a leader",
            leader,
            callback,
            operation,
            completion::lend_holder::<LeaderObject, _, _>,
        )
    })
}

/// Reports the leader to a callback: first the present one, then each change.
///
/// A change is another leader, no leader, or another proclaimed value. A call with an error is followed by others.
///
/// Blocks: until the store has begun the watches.
#[unsafe(no_mangle)]
pub extern "C" fn sst_election_observe(
    election: *const sst_election,
    callback: sst_on_leader,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let subscription = output::init_failed(subscription);
    let report_leader = completion::report_holders::<LeaderObject, _, _>(callback);
    boundary::with_object::<ElectionObject>(error, election, |election, client| {
        let observe = election.inner.observe();
        let leaders = wait(client, "observing an election", observe)?;
        subscription::begin(client, &leaders, subscription, report_leader)
    })
}

/// Begins sst_election_observe(). `done` receives the subscription before the first call of `callback`. If `done`
/// receives an error, `callback` is not called.
#[unsafe(no_mangle)]
pub extern "C" fn sst_election_observe_async(
    election: *const sst_election,
    callback: sst_on_leader,
    done: sst_on_subscription,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let report_leader = completion::report_holders::<LeaderObject, _, _>(callback);
    let done = Callback::new(done);
    boundary::with_object::<ElectionObject>(error, election, |election, client| {
        let observe = election.inner.observe();
        let subscribe = subscription::subscribe_and_report(client, report_leader);
        begin(
            client,
            "observing an election",
            observe,
            done,
            operation,
            subscribe,
        )
    })
}

/// Frees an election. If the lead was won, its guard keeps it.
#[unsafe(no_mangle)]
pub extern "C" fn sst_election_free(election: *mut sst_election) {
    infallible::run(|| drop(handle::free::<ElectionObject>(election)));
}
