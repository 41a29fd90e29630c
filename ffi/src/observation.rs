//! Observations of a key.
use crate::boundary;
use crate::bytes::sst_slice;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::{TimestampObject, sst_hlc};
use crate::infallible;
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use statestore_core::{Observation, Outcome};
use statestore_embed::{Error, ErrorKind};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

/// An event that an observer reports about its key. Opaque.
pub struct sst_observation;

pub(crate) struct ObservationObject(pub(crate) Observation);

object!(ObservationObject, sst_observation, 10, "an observation");

/// Kind of an observation. New kinds may appear.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_observation_kind {
    /// The handle is not an observation.
    SST_NOT_OBSERVED = 0,
    /// The key now has this value.
    SST_OBSERVED_SET = 1,
    /// The key is absent now: it was deleted, or it expired.
    SST_OBSERVED_DELETED = 2,
    /// The connection was lost, and changes may have been missed. The state of the key follows, unless it was the last
    /// one reported.
    SST_OBSERVED_RESYNC = 3,
    /// The observer was too slow, and observations were dropped; the newest ones are kept.
    SST_OBSERVED_LAGGED = 4,
}

/// Returns the kind of an observation.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_kind_of(
    observation: *const sst_observation,
) -> sst_observation_kind {
    infallible::value(
        sst_observation_kind::SST_NOT_OBSERVED,
        || match handle::get::<ObservationObject>(observation)?.0 {
            Observation::Set { .. } => Ok(sst_observation_kind::SST_OBSERVED_SET),
            Observation::Deleted { .. } => Ok(sst_observation_kind::SST_OBSERVED_DELETED),
            Observation::Resync => Ok(sst_observation_kind::SST_OBSERVED_RESYNC),
            Observation::Lagged(_) => Ok(sst_observation_kind::SST_OBSERVED_LAGGED),
            _ => Err(unknown()),
        },
    )
}

fn unknown() -> Error {
    let reason = "it is of a new kind";
    Error::new(
        ErrorKind::Internal,
        Outcome::NotDone,
        "an observation",
        reason,
    )
}

/// Returns the value of SST_OBSERVED_SET.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_value(observation: *const sst_observation) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        Ok(match &handle::get::<ObservationObject>(observation)?.0 {
            Observation::Set { value, .. } => sst_slice::from_bytes(value),
            _ => sst_slice::NONE,
        })
    })
}

/// Returns the version of SST_OBSERVED_SET, or of SST_OBSERVED_DELETED unless the deletion was detected after a
/// reconnect.
///
/// `*version` is NULL if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_version(
    observation: *const sst_observation,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let to = HandleOut::<TimestampObject>::new(version, "version")?;
        let observed = handle::get::<ObservationObject>(observation)?;
        let version = match &observed.0 {
            Observation::Set { version, .. } => Some(version),
            Observation::Deleted { version } => version.as_ref(),
            _ => None,
        };
        output::write_optional(Some(to), version.map(TimestampObject::new))
    })
}

/// Returns the number of dropped observations of SST_OBSERVED_LAGGED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_lagged(observation: *const sst_observation) -> u64 {
    infallible::value(0, || {
        Ok(match handle::get::<ObservationObject>(observation)?.0 {
            Observation::Lagged(count) => count,
            _ => 0,
        })
    })
}

/// Returns another handle of the same observation, to keep a borrowed one. The value is not copied.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_clone(
    observation: *const sst_observation,
) -> *mut sst_observation {
    infallible::value(ptr::null_mut(), || {
        handle::share::<ObservationObject>(Arc::clone(&handle::get::<ObservationObject>(
            observation,
        )?))
    })
}

/// Frees an observation.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_free(observation: *mut sst_observation) {
    infallible::run(|| drop(handle::free::<ObservationObject>(observation)));
}
