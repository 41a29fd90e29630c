//! Conversion of the parts of results to JavaScript.
use crate::failure::Failure;
use bytes::Bytes;
use napi::bindgen_prelude::{Array, BufferSlice, Either, Null, ToNapiValue};
use napi::{Env, Result};
use napi_derive::napi;
use statestore::{
    Capabilities, ConnectionState, DelOutcome, Entries, Entry, Expiry, Hlc, Holder, Holding, Leader,
};
use statestore_embed::{Error, WriteResults};
use std::time::Duration;

/// A state of the connection.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct StateOutput {
    pub is: &'static str,
    pub reason: Option<Failure>,
    pub lost_reason: Option<&'static str>,
}

impl From<ConnectionState> for StateOutput {
    fn from(state: ConnectionState) -> Self {
        let (is, reason, lost_reason) = match state {
            ConnectionState::Connected => ("connected", None, None),
            ConnectionState::Reconnecting(reason) => ("reconnecting", Some(reason), None),
            ConnectionState::Closed { lost_reason, error } => {
                ("closed", Some(error), Some(lost_reason.as_str()))
            }
            _ => ("connecting", None, None),
        };
        Self {
            is,
            reason: reason.map(|reason| Failure::from(Error::from(reason))),
            lost_reason,
        }
    }
}

/// A count, exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "JavaScript has no other numbers"
)]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

pub(crate) fn capabilities(env: &Env, store: Capabilities) -> Result<Array<'_>> {
    let mut list = env.create_array(0)?;
    list.insert(store.conditions)?;
    list.insert(store.remaining_time)?;
    list.insert(store.transactions.map(number))?;
    list.insert(store.eventual)?;
    list.insert(store.max_get_keys.map(number))?;
    list.insert(store.scan_values)?;
    list.insert(store.observe_matching)?;
    Ok(list)
}

/// Returns the name of a holder, and its client id if the library made the name.
pub(crate) fn holder<'env>(env: &'env Env, holder: &Holder) -> Result<Array<'env>> {
    let mut parts = env.create_array(2)?;
    parts.set(0, buffer(env, holder.name())?)?;
    parts.set(1, holder.client_id())?;
    Ok(parts)
}

pub(crate) fn holding(env: &Env, holding: Option<Holding>) -> Result<Option<Array<'_>>> {
    let Some(holding) = holding else {
        return Ok(None);
    };
    let mut parts = env.create_array(2)?;
    parts.set(0, holder(env, &holding.holder)?)?;
    parts.set(1, holding.version.to_string())?;
    Ok(Some(parts))
}

pub(crate) fn leader(env: &Env, leader: Option<Leader>) -> Result<Option<Array<'_>>> {
    let Some(leader) = leader else {
        return Ok(None);
    };
    let mut parts = env.create_array(2)?;
    parts.set(0, holder(env, &leader.holder)?)?;
    match leader.value {
        Some(value) => parts.set(1, buffer(env, &value)?)?,
        None => parts.set(1, Null)?,
    }
    Ok(Some(parts))
}

/// Returns the value of an entry and its remaining time in milliseconds.
pub(crate) fn remaining<'env>(env: &'env Env, entry: &Entry) -> Result<Array<'env>> {
    let mut parts = env.create_array(2)?;
    parts.set(0, buffer(env, &entry.value)?)?;
    parts.set(1, time_left(entry.expires_in))?;
    Ok(parts)
}

/// Returns a remaining time in milliseconds, or the word for an unknown one.
pub(crate) fn time_left(expires_in: Expiry) -> Either<f64, &'static str> {
    match expires_in {
        Expiry::Never => Either::A(f64::INFINITY),
        Expiry::After(left) => Either::A(milliseconds(left)),
        _ => Either::B("unknown"),
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub(crate) fn entry_list(env: &Env, entries: Entries) -> Result<Array<'_>> {
    let mut list = env.create_array(0)?;
    for entry in entries {
        if let Some(entry) = entry {
            list.insert(buffer(env, &entry.value)?)?;
            list.insert(entry.version.to_string())?;
        } else {
            list.insert(Null)?;
            list.insert(Null)?;
        }
    }
    Ok(list)
}

/// Returns the entries of a page, each with its key.
pub(crate) fn entry_page<'env>(env: &'env Env, entries: &[(Bytes, Entry)]) -> Result<Array<'env>> {
    let mut list = env.create_array(0)?;
    for (key, entry) in entries {
        list.insert(buffer(env, key)?)?;
        list.insert(remaining(env, entry)?)?;
        list.insert(entry.version.to_string())?;
    }
    Ok(list)
}

/// Returns the result of each of several writes.
pub(crate) fn result_list<T, A: ToNapiValue, B: ToNapiValue>(
    env: &Env,
    outcomes: WriteResults<T>,
    places: impl Fn(T) -> (A, B),
) -> Result<Array<'_>> {
    let mut list = env.create_array(0)?;
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => {
                let (a, b) = places(outcome);
                list.insert(())?;
                list.insert(a)?;
                list.insert(b)?;
            }
            Err(error) => {
                list.insert(Failure::from(Error::from(error)))?;
                list.insert(Null)?;
                list.insert(Null)?;
            }
        }
    }
    Ok(list)
}

pub(crate) fn deleted(outcome: &DelOutcome) -> (&'static str, Option<String>) {
    match outcome {
        DelOutcome::Deleted { version } => ("deleted", text(version.as_ref())),
        DelOutcome::Absent => ("absent", None),
        DelOutcome::Mismatch { version } => ("mismatch", text(Some(version))),
    }
}

pub(crate) fn buffers<'env>(env: &'env Env, all: &[Bytes]) -> Result<Array<'env>> {
    let mut list = env.create_array(0)?;
    for bytes in all {
        list.insert(buffer(env, bytes)?)?;
    }
    Ok(list)
}

pub(crate) fn buffer<'env>(env: &'env Env, bytes: &[u8]) -> Result<BufferSlice<'env>> {
    BufferSlice::copy_from(env, bytes)
}

pub(crate) fn text(version: Option<&Hlc>) -> Option<String> {
    version.map(ToString::to_string)
}
