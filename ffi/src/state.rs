//! States of the connection.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::error::{self, sst_error};
use crate::output::{self, FailureValue};
use crate::status::sst_status;
use crate::subscription::{self, sst_subscription};
use statestore_core::ConnectionState;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// State of a client's connection. New states may appear.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_state {
    /// The state is not known: see the status.
    SST_STATE_UNKNOWN = 0,
    /// The first connection is being made.
    SST_CONNECTING = 1,
    /// Requests are sent at once.
    SST_CONNECTED = 2,
    /// The connection was lost, and the client is reconnecting. Requests wait.
    SST_RECONNECTING = 3,
    /// The connection has ended; every request fails.
    SST_ENDED = 4,
}

impl FailureValue for sst_state {
    const FAILED: Self = Self::SST_STATE_UNKNOWN;
}

fn state_and_error(state: &ConnectionState) -> (sst_state, Option<Error>) {
    match state {
        ConnectionState::Connecting => (sst_state::SST_CONNECTING, None),
        ConnectionState::Connected => (sst_state::SST_CONNECTED, None),
        ConnectionState::Reconnecting(error) => {
            (sst_state::SST_RECONNECTING, Some(error.clone().into()))
        }
        ConnectionState::Closed { error, .. } => (sst_state::SST_ENDED, Some(error.clone().into())),
        _ => (sst_state::SST_STATE_UNKNOWN, None),
    }
}

/// Callback that receives each state of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_state {
    pub context: *mut c_void,
    /// Called any number of times. `reason` is the error with which the connection was lost or ended, and `status` is
    /// its status. In other states `reason` is NULL, and `status` is SST_OK.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            reason: *const sst_error,
            state: sst_state,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_state,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, sst_state)
);

/// Returns the present state of the connection.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_state(
    client: *const sst_client,
    state: Option<&mut MaybeUninit<sst_state>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let state = output::init_failed(state);
    boundary::with_client(error, client, |client| {
        let state = output::init_with(state, sst_state::SST_STATE_UNKNOWN, "state")?;
        *state = if client.is_closed()? {
            sst_state::SST_ENDED
        } else {
            state_and_error(&client.core()?.state().borrow()).0
        };
        Ok(())
    })
}

/// Reports the present state of the connection and each later one to a callback. The last one is SST_ENDED.
///
/// A state that lasts only a moment may be skipped.
#[unsafe(no_mangle)]
pub extern "C" fn sst_client_on_state(
    client: *const sst_client,
    callback: sst_on_state,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let subscription = output::init_failed(subscription);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        subscription::begin(client, &client.states()?, subscription, move |state| {
            // The reason of the end was reported with the last state.
            let Ok(state) = state else { return };
            let lost_reason = match state {
                ConnectionState::Closed { lost_reason, .. } => Some(lost_reason),
                _ => None,
            };
            let (state, reason) = state_and_error(&state);
            error::lend_at_end(reason.as_ref(), lost_reason, |status, reason| {
                // SAFETY: the function has that type and gets its own context.
                callback.call(|call, context| unsafe { call(context, status, reason, state) });
            });
        })
    })
}
