//! Observations of one key, or of the keys that match a pattern.
use crate::boundary;
use crate::bytes::sst_slice;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::{TimestampObject, sst_hlc};
use crate::infallible;
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{Hlc, MatchObservation, Observation};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

/// An event that an observer reports about its key, or about a key that matches its pattern. Opaque.
pub struct sst_observation;

pub(crate) struct ObservationObject {
    kind: sst_observation_kind,
    key: Option<Bytes>,
    value: Option<Bytes>,
    version: Option<Hlc>,
    lagged: u64,
}

object!(ObservationObject, sst_observation, 10, "an observation");

impl ObservationObject {
    fn new(kind: sst_observation_kind) -> Self {
        Self {
            kind,
            key: None,
            value: None,
            version: None,
            lagged: 0,
        }
    }
}

impl From<Observation> for ObservationObject {
    fn from(observation: Observation) -> Self {
        match observation {
            Observation::Set { value, version } => Self {
                value: Some(value),
                version: Some(version),
                ..Self::new(sst_observation_kind::SST_OBSERVED_SET)
            },
            Observation::Deleted { version } => Self {
                version,
                ..Self::new(sst_observation_kind::SST_OBSERVED_DELETED)
            },
            Observation::Resync => Self::new(sst_observation_kind::SST_OBSERVED_RESYNC),
            Observation::Lagged(lagged) => Self {
                lagged,
                ..Self::new(sst_observation_kind::SST_OBSERVED_LAGGED)
            },
            _ => Self::new(sst_observation_kind::SST_NOT_OBSERVED),
        }
    }
}

impl From<MatchObservation> for ObservationObject {
    fn from(observation: MatchObservation) -> Self {
        match observation {
            MatchObservation::Set {
                key,
                value,
                version,
            } => Self {
                key: Some(key),
                value: Some(value),
                version: Some(version),
                ..Self::new(sst_observation_kind::SST_OBSERVED_SET)
            },
            MatchObservation::Deleted { key, version } => Self {
                key: Some(key),
                version,
                ..Self::new(sst_observation_kind::SST_OBSERVED_DELETED)
            },
            MatchObservation::Complete => Self::new(sst_observation_kind::SST_OBSERVED_COMPLETE),
            MatchObservation::Resync => Self::new(sst_observation_kind::SST_OBSERVED_RESYNC),
            MatchObservation::Resynced => Self::new(sst_observation_kind::SST_OBSERVED_RESYNCED),
            _ => Self::new(sst_observation_kind::SST_NOT_OBSERVED),
        }
    }
}

/// Returns bytes that an observation may have.
fn slice(bytes: Option<&Bytes>) -> sst_slice {
    bytes.map_or(sst_slice::NONE, |bytes| sst_slice::from_bytes(bytes))
}

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
    /// Changes may have been missed, because the connection was lost or the store reported a gap. The state of the key
    /// follows, unless it was the last one reported. For a pattern the differences follow, including the deletions, and
    /// then SST_OBSERVED_RESYNCED.
    SST_OBSERVED_RESYNC = 3,
    /// The observer was too slow, and observations were dropped; the newest ones are kept. Not for patterns.
    SST_OBSERVED_LAGGED = 4,
    /// The present state of the keys that match a pattern was reported. Once for each observer, also if no key matches.
    SST_OBSERVED_COMPLETE = 5,
    /// The differences since SST_OBSERVED_RESYNC were reported, for a pattern. If that came before
    /// SST_OBSERVED_COMPLETE, SST_OBSERVED_COMPLETE stands in its place.
    SST_OBSERVED_RESYNCED = 6,
}

/// Returns the kind of an observation.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_kind_of(
    observation: *const sst_observation,
) -> sst_observation_kind {
    infallible::value(sst_observation_kind::SST_NOT_OBSERVED, || {
        Ok(handle::get::<ObservationObject>(observation)?.kind)
    })
}

/// Returns the key of SST_OBSERVED_SET and SST_OBSERVED_DELETED from sst_observe_matching(). An observer of one key
/// returns no bytes.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_key(observation: *const sst_observation) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        let observation = handle::get::<ObservationObject>(observation)?;
        Ok(slice(observation.key.as_ref()))
    })
}

/// Returns the value of SST_OBSERVED_SET.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_value(observation: *const sst_observation) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        let observation = handle::get::<ObservationObject>(observation)?;
        Ok(slice(observation.value.as_ref()))
    })
}

/// Returns the version of SST_OBSERVED_SET, or of SST_OBSERVED_DELETED unless the library read the key and found it
/// absent, as after a reconnect.
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
        let observation = handle::get::<ObservationObject>(observation)?;
        let version = observation.version.as_ref();
        output::write_optional(Some(to), version.map(TimestampObject::new))
    })
}

/// Returns the number of dropped observations of SST_OBSERVED_LAGGED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_observation_lagged(observation: *const sst_observation) -> u64 {
    infallible::value(0, || {
        Ok(handle::get::<ObservationObject>(observation)?.lagged)
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
