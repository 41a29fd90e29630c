//! Results of calls, as the classes of `statestore._results` and `statestore._state`.
use crate::codec::Codec;
use crate::error;
use crate::hlc::Hlc;
use crate::interpreter::Invoke;
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use statestore::{
    Capabilities, ConnectionState, Counters, DelOutcome, Entries, Entry, Expiry, Holder, Holding,
    Leader, LostReason, MatchObservation, Observation, Release, SetOutcome, TransactionOutcome,
    UpdateOutcome, VdelOutcome,
};

type ObjectResult = PyResult<Py<PyAny>>;

/// A class, or an object that is the only one of its kind.
macro_rules! result {
    ($py:expr, $name:literal) => {
        result!($py, "statestore._results", $name)
    };
    ($py:expr, $module:literal, $name:literal) => {{
        static OBJECT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        OBJECT.import($py, $module, $name)
    }};
}

fn version(version: &statestore::Hlc) -> Hlc {
    Hlc(version.clone())
}

fn optional_version(at: Option<&statestore::Hlc>) -> Option<Hlc> {
    at.map(version)
}

pub(crate) fn entry(py: Python<'_>, codec: &Codec, entry: &Entry) -> ObjectResult {
    let value = codec.write(py, &entry.value)?;
    let expires_in = expiry(py, entry.expires_in)?;
    let made = result!(py, "Entry")?.invoke((value, version(&entry.version), expires_in))?;
    Ok(made.unbind())
}

/// Returns the remaining time of a key in seconds, infinity or "unknown".
pub(crate) fn expiry(py: Python<'_>, expiry: Expiry) -> PyResult<Bound<'_, PyAny>> {
    Ok(match expiry {
        Expiry::Never => f64::INFINITY.into_pyobject(py)?.into_any(),
        Expiry::After(left) => left.as_secs_f64().into_pyobject(py)?.into_any(),
        _ => intern!(py, "unknown").clone().into_any(),
    })
}

pub(crate) fn optional_entry(py: Python<'_>, codec: &Codec, found: Option<&Entry>) -> ObjectResult {
    match found {
        Some(found) => entry(py, codec, found),
        None => Ok(py.None()),
    }
}

pub(crate) fn entries(py: Python<'_>, codec: &Codec, found: &Entries) -> ObjectResult {
    let entries = found
        .iter()
        .map(|found| optional_entry(py, codec, found.as_ref()));
    let entries = entries.collect::<PyResult<Vec<_>>>()?;
    let made = result!(py, "Entries")?.invoke((entries, found.is_snapshot()))?;
    Ok(made.unbind())
}

pub(crate) fn set(py: Python<'_>, outcome: &SetOutcome) -> ObjectResult {
    let arguments = (outcome.is_applied(), optional_version(outcome.version()));
    Ok(result!(py, "SetOutcome")?.invoke(arguments)?.unbind())
}

pub(crate) fn capabilities(py: Python<'_>, store: Capabilities) -> ObjectResult {
    let arguments = (
        store.conditions,
        store.remaining_time,
        store.transactions,
        store.eventual,
        store.max_get_keys,
        store.scan_values,
        store.observe_matching,
    );
    Ok(result!(py, "Capabilities")?.invoke(arguments)?.unbind())
}

pub(crate) fn transaction(py: Python<'_>, outcome: &TransactionOutcome) -> ObjectResult {
    let arguments = match outcome {
        TransactionOutcome::Applied(versions) => {
            let versions = versions.iter().map(|at| optional_version(at.as_ref()));
            (true, versions.collect(), None, None)
        }
        TransactionOutcome::NotApplied { operation, version } => {
            let version = optional_version(version.as_ref());
            (false, Vec::new(), Some(*operation), version)
        }
    };
    Ok(result!(py, "TransactionOutcome")?
        .invoke(arguments)?
        .unbind())
}

fn deleted(py: Python<'_>, at: Option<&statestore::Hlc>) -> ObjectResult {
    let made = result!(py, "Deleted")?.invoke((optional_version(at),))?;
    Ok(made.unbind())
}

fn absent(py: Python<'_>) -> ObjectResult {
    Ok(result!(py, "ABSENT")?.clone().unbind())
}

fn mismatch(py: Python<'_>, at: Option<&statestore::Hlc>) -> ObjectResult {
    if at.is_none() {
        return Ok(result!(py, "MISMATCH")?.clone().unbind());
    }
    let made = result!(py, "Mismatch")?.invoke((optional_version(at),))?;
    Ok(made.unbind())
}

pub(crate) fn del(py: Python<'_>, outcome: &DelOutcome) -> ObjectResult {
    match outcome {
        DelOutcome::Deleted { version } => deleted(py, version.as_ref()),
        DelOutcome::Absent => absent(py),
        DelOutcome::Mismatch { version } => mismatch(py, Some(version)),
    }
}

/// Returns a list with the result of each of several requests. If any failed, raises the first failure, whose `results` contain
/// all results.
pub(crate) fn result_list<T, E>(
    py: Python<'_>,
    outcomes: &[std::result::Result<T, E>],
    outcome: impl Fn(Python<'_>, &T) -> ObjectResult,
) -> ObjectResult
where
    E: Clone + Into<statestore_embed::Error>,
{
    let failure = |error: &E| error::exception(py, &error.clone().into());
    let results = outcomes.iter().map(|result| match result {
        Ok(done) => outcome(py, done),
        Err(error) => Ok(failure(error)?.unbind()),
    });
    let results = results.collect::<PyResult<Vec<_>>>()?;
    let Some(first) = outcomes.iter().find_map(|result| result.as_ref().err()) else {
        return results.into_py_any(py);
    };
    // Not the one in the results, which would be in a circle with its traceback then.
    let raised = failure(first)?;
    raised.setattr("results", results)?;
    Err(PyErr::from_value(raised))
}

pub(crate) fn vdel(py: Python<'_>, outcome: &VdelOutcome) -> ObjectResult {
    match outcome {
        VdelOutcome::Deleted { version } => deleted(py, version.as_ref()),
        VdelOutcome::Absent => absent(py),
        VdelOutcome::Mismatch { version } => mismatch(py, version.as_ref()),
    }
}

pub(crate) fn update(py: Python<'_>, outcome: &UpdateOutcome) -> ObjectResult {
    match outcome {
        UpdateOutcome::Applied { version: at } => {
            Ok(result!(py, "Applied")?.invoke((version(at),))?.unbind())
        }
        UpdateOutcome::Unchanged => Ok(result!(py, "UNCHANGED")?.clone().unbind()),
    }
}

pub(crate) fn release(py: Python<'_>, outcome: Release) -> ObjectResult {
    let made = match outcome {
        Release::Released => result!(py, "RELEASED")?,
        Release::NotHeld => result!(py, "NOT_HELD")?,
    };
    Ok(made.clone().unbind())
}

pub(crate) fn observation(py: Python<'_>, codec: &Codec, observation: Observation) -> ObjectResult {
    match observation {
        Observation::Set { value, version: at } => {
            let value = codec.write(py, &value)?;
            Ok(result!(py, "Set")?.invoke((value, version(&at)))?.unbind())
        }
        Observation::Deleted { version } => deleted(py, version.as_ref()),
        Observation::Lagged(count) => Ok(result!(py, "Lagged")?.invoke((count,))?.unbind()),
        // A kind that this version does not know is a reason to look at the key, as a gap is.
        _ => Ok(result!(py, "RESYNC")?.clone().unbind()),
    }
}

pub(crate) fn match_observation(
    py: Python<'_>,
    codec: &Codec,
    observation: MatchObservation,
) -> ObjectResult {
    match observation {
        MatchObservation::Set {
            key,
            value,
            version: at,
        } => {
            let arguments = (
                codec.write(py, &key)?,
                codec.write(py, &value)?,
                version(&at),
            );
            Ok(result!(py, "MatchSet")?.invoke(arguments)?.unbind())
        }
        MatchObservation::Deleted { key, version } => {
            let arguments = (codec.write(py, &key)?, optional_version(version.as_ref()));
            Ok(result!(py, "MatchDeleted")?.invoke(arguments)?.unbind())
        }
        MatchObservation::Complete => Ok(result!(py, "COMPLETE")?.clone().unbind()),
        MatchObservation::Resynced => Ok(result!(py, "RESYNCED")?.clone().unbind()),
        // A gap. A kind that this version does not know is treated as one.
        _ => Ok(result!(py, "RESYNC")?.clone().unbind()),
    }
}

pub(crate) fn holder(py: Python<'_>, codec: &Codec, holder: &Holder) -> ObjectResult {
    let name = codec.write(py, holder.name())?;
    let made = result!(py, "Holder")?.invoke((name, holder.client_id()))?;
    Ok(made.unbind())
}

pub(crate) fn holding(py: Python<'_>, codec: &Codec, holding: &Holding) -> ObjectResult {
    let holder = holder(py, codec, &holding.holder)?;
    let made = result!(py, "Holding")?.invoke((holder, version(&holding.version)))?;
    Ok(made.unbind())
}

pub(crate) fn optional_holding(
    py: Python<'_>,
    codec: &Codec,
    found: Option<&Holding>,
) -> ObjectResult {
    match found {
        Some(found) => holding(py, codec, found),
        None => Ok(py.None()),
    }
}

/// Returns `Held`: another holder has the lease.
pub(crate) fn held(py: Python<'_>, codec: &Codec, by: Option<&Holding>) -> ObjectResult {
    let by = optional_holding(py, codec, by)?;
    Ok(result!(py, "Held")?.invoke((by,))?.unbind())
}

pub(crate) fn leader(py: Python<'_>, codec: &Codec, leader: &Leader) -> ObjectResult {
    let holder = holder(py, codec, &leader.holder)?;
    let value = match &leader.value {
        Some(value) => Some(codec.write(py, value)?),
        None => None,
    };
    Ok(result!(py, "Leader")?.invoke((holder, value))?.unbind())
}

/// Returns `NO_HOLDER`, the observation that there is no holder. `None` is the end of the observations.
pub(crate) fn no_holder(py: Python<'_>) -> ObjectResult {
    Ok(result!(py, "NO_HOLDER")?.clone().unbind())
}

pub(crate) fn state(py: Python<'_>, state: &ConnectionState) -> ObjectResult {
    let (kind, reason, lost_reason) = match state {
        ConnectionState::Connected => ("connected", None, None),
        ConnectionState::Reconnecting(reason) => ("reconnecting", Some(reason), None),
        ConnectionState::Closed { lost_reason, error } => {
            ("closed", Some(error), Some(lost_reason.as_str()))
        }
        _ => ("connecting", None, None),
    };
    let reason = reason
        .map(|reason| error::exception(py, &reason.clone().into()))
        .transpose()?;
    let made = result!(py, "statestore._state", "State")?.invoke((kind, reason, lost_reason))?;
    Ok(made.unbind())
}

/// Returns the word for a lost reason.
pub(crate) fn lost_reason(py: Python<'_>, lost_reason: Option<LostReason>) -> ObjectResult {
    lost_reason.map(LostReason::as_str).into_py_any(py)
}

pub(crate) fn counters(py: Python<'_>, counters: &Counters) -> ObjectResult {
    let named = PyDict::new(py);
    macro_rules! copy {
        ($($name:ident)*) => { $( named.set_item(stringify!($name), counters.$name)?; )* };
    }
    copy! {
        sent completed timed_out failed superseded resent reconnects reauthentications sessions_lost protocol_errors
        unmatched_responses clock_skews notifications stale_notifications malformed_messages in_flight queued
    }
    let made = result!(py, "Counters")?.call((), Some(&named))?;
    Ok(made.unbind())
}
