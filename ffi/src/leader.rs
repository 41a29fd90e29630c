//! Leaders of elections.
use crate::bytes::sst_slice;
use crate::callback::closure;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::status::sst_status;
use statestore_core::Leader;
use std::ffi::c_void;

/// The present leader of an election. Opaque.
pub struct sst_leader;

pub(crate) struct LeaderObject(Leader);

object!(LeaderObject, sst_leader, 16, "a leader");

impl From<Leader> for LeaderObject {
    fn from(leader: Leader) -> Self {
        Self(leader)
    }
}

/// Returns the name of the leader: the value of the lock's key.
#[unsafe(no_mangle)]
pub extern "C" fn sst_leader_holder(leader: *const sst_leader) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        Ok(sst_slice::from_bytes(
            handle::get::<LeaderObject>(leader)?.0.holder.name(),
        ))
    })
}

/// Returns whether the leader has proclaimed a value yet.
#[unsafe(no_mangle)]
pub extern "C" fn sst_leader_has_value(leader: *const sst_leader) -> bool {
    infallible::value(false, || {
        Ok(handle::get::<LeaderObject>(leader)?.0.value.is_some())
    })
}

/// Returns the value that the leader proclaims.
#[unsafe(no_mangle)]
pub extern "C" fn sst_leader_value(leader: *const sst_leader) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        let leader = handle::get::<LeaderObject>(leader)?;
        Ok(leader
            .0
            .value
            .as_ref()
            .map_or(sst_slice::NONE, |value| sst_slice::from_bytes(value)))
    })
}

/// Frees a leader object.
#[unsafe(no_mangle)]
pub extern "C" fn sst_leader_free(leader: *mut sst_leader) {
    infallible::run(|| drop(handle::free::<LeaderObject>(leader)));
}

/// Callback that receives the leader of an election.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_leader {
    pub context: *mut c_void,
    /// Called any number of times for sst_election_observe() and its twin, and at their end with SST_CLOSED. `leader`
    /// is NULL if there is no leader.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            leader: *const sst_leader,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_leader,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_leader)
);
