//! Options as the face passes them: times in milliseconds, words as they are, versions as texts.
use bytes::Bytes;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use statestore::{
    Condition, DelOptions, GetOptions, Hlc, LeaseOptions, LockOptions, ObserveMatchingOptions,
    ObserveOptions, Outcome, Overflow, Renewal, Retry, ScanOptions, SetOptions, TransactOptions,
    UpdateOptions, Version,
};
use statestore_embed::{Error, ErrorKind};
use std::time::Duration;

/// Converts milliseconds to a time. The JavaScript layer rejects negative numbers, and allows infinity only where it has a
/// meaning.
pub(crate) fn time(milliseconds: f64) -> Duration {
    Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or(Duration::MAX)
}

pub(crate) fn get(timeout: Option<f64>, remaining: bool, eventual: bool) -> GetOptions {
    GetOptions::new()
        .timeout(timeout.map(time))
        .remaining(remaining)
        .eventual(eventual)
}

/// Options of `set`.
#[napi(object, object_to_js = false)]
#[derive(Debug, Default)]
pub struct SetInput {
    pub condition: Option<String>,
    /// In the place of a condition.
    pub if_version: Option<String>,
    pub expires_in: Option<f64>,
    pub fencing_token: Option<String>,
    pub persist: Option<bool>,
    pub coalesce: Option<bool>,
    pub timeout: Option<f64>,
    pub retry: Option<String>,
}

/// Options of `del` and `vdel`.
#[napi(object, object_to_js = false)]
#[derive(Debug, Default)]
pub struct DelInput {
    pub fencing_token: Option<String>,
    pub if_version: Option<String>,
    pub timeout: Option<f64>,
    pub retry: Option<String>,
}

/// Options of `transact`.
#[napi(object, object_to_js = false)]
#[derive(Debug, Default)]
pub struct TransactInput {
    pub persist: Option<bool>,
    pub timeout: Option<f64>,
    pub retry: Option<String>,
}

/// Options of `update`.
#[napi(object, object_to_js = false)]
#[derive(Debug, Default)]
pub struct UpdateInput {
    pub expires_in: Option<f64>,
    pub persist: Option<bool>,
    pub timeout: Option<f64>,
}

/// Options of `observe_matching`.
#[napi(object, object_to_js = false)]
#[derive(Debug, Default)]
pub struct ObserveMatchingInput {
    /// Zero for none.
    pub refresh: Option<f64>,
    pub max_keys: Option<u32>,
    pub timeout: Option<f64>,
}

/// Options of `lease`, `lock` and `election`.
#[napi(object, object_to_js = false)]
#[derive(Default)]
pub struct LockInput {
    pub duration: Option<f64>,
    /// Between two renewals; zero for none.
    pub renewal: Option<f64>,
    pub holder: Option<Uint8Array>,
    pub resume: Option<bool>,
    pub timeout: Option<f64>,
    pub foreign_lease_max: Option<f64>,
    pub wait: Option<f64>,
}

pub(crate) fn set(input: Option<SetInput>) -> Result<SetOptions, Error> {
    let input = input.unwrap_or_default();
    let condition = match input.condition.as_deref() {
        _ if input.if_version.is_some() => match hlc("version", input.if_version)? {
            Some(version) => Condition::IfVersion(version.into()),
            None => Condition::Always,
        },
        None | Some("always") => Condition::Always,
        Some("if_absent") => Condition::IfAbsent,
        Some("if_absent_or_equal") => Condition::IfAbsentOrEqual,
        Some(other) => return Err(unknown("condition", other)),
    };
    Ok(SetOptions::new()
        .condition(condition)
        .expires_in(input.expires_in.map(time))
        .fencing_token(hlc("fencing token", input.fencing_token)?)
        .persist(input.persist.unwrap_or_default())
        .coalesce(input.coalesce.unwrap_or_default())
        .timeout(input.timeout.map(time))
        .retry(retry(input.retry.as_deref())?))
}

pub(crate) fn del(input: Option<DelInput>) -> Result<DelOptions, Error> {
    let input = input.unwrap_or_default();
    Ok(DelOptions::new()
        .fencing_token(hlc("fencing token", input.fencing_token)?)
        .if_version(hlc("version", input.if_version)?.map(Version::from))
        .timeout(input.timeout.map(time))
        .retry(retry(input.retry.as_deref())?))
}

pub(crate) fn transact(input: Option<TransactInput>) -> Result<TransactOptions, Error> {
    let input = input.unwrap_or_default();
    Ok(TransactOptions::new()
        .persist(input.persist.unwrap_or_default())
        .timeout(input.timeout.map(time))
        .retry(retry(input.retry.as_deref())?))
}

pub(crate) fn update(input: Option<UpdateInput>) -> UpdateOptions {
    let input = input.unwrap_or_default();
    UpdateOptions::new()
        .expires_in(input.expires_in.map(time))
        .persist(input.persist.unwrap_or_default())
        .timeout(input.timeout.map(time))
}

pub(crate) fn scan(timeout: Option<f64>, fallback: bool) -> ScanOptions {
    ScanOptions::new()
        .timeout(timeout.map(time))
        .fallback(fallback)
}

/// Observations of `kept` are kept; only the latest without it.
pub(crate) fn observe(kept: Option<u32>, timeout: Option<f64>, initial: bool) -> ObserveOptions {
    ObserveOptions::new()
        .overflow(kept.map_or(Overflow::Latest, |kept| Overflow::All(kept as usize)))
        .timeout(timeout.map(time))
        .initial(initial)
}

pub(crate) fn observe_matching(input: Option<ObserveMatchingInput>) -> ObserveMatchingOptions {
    let input = input.unwrap_or_default();
    let default = ObserveMatchingOptions::default();
    ObserveMatchingOptions::new()
        .refresh(match input.refresh {
            None => default.refresh,
            Some(0.0) => None,
            Some(every) => Some(time(every)),
        })
        .max_keys(input.max_keys.map_or(default.max_keys, |max| max as usize))
        .timeout(input.timeout.map(time))
}

pub(crate) fn lock(input: Option<LockInput>) -> LockOptions {
    let input = input.unwrap_or_default();
    let default = LeaseOptions::default();
    let lease = LeaseOptions::new()
        .duration(input.duration.map_or(default.duration, time))
        .renewal(match input.renewal {
            None => Renewal::Third,
            Some(0.0) => Renewal::Manual,
            Some(every) => Renewal::Every(time(every)),
        })
        .holder(input.holder.map(|holder| Bytes::copy_from_slice(&holder)))
        .resume(input.resume.unwrap_or_default())
        .timeout(input.timeout.map(time))
        .foreign_lease_max(
            input
                .foreign_lease_max
                .map_or(default.foreign_lease_max, time),
        );
    LockOptions::new().lease(lease).wait(input.wait.map(time))
}

fn hlc(name: &str, text: Option<String>) -> Result<Option<Hlc>, Error> {
    let read = |text: String| {
        Hlc::parse(text.as_bytes())
            .map_err(|error| invalid(format!("`{text}` is not a {name}: {error}")))
    };
    text.map(read).transpose()
}

fn retry(word: Option<&str>) -> Result<Retry, Error> {
    match word {
        None | Some("safe") => Ok(Retry::Safe),
        Some("always") => Ok(Retry::Always),
        Some("never") => Ok(Retry::Never),
        Some(other) => Err(unknown("retry", other)),
    }
}

fn unknown(option: &str, word: &str) -> Error {
    invalid(format!("`{option}` cannot be `{word}`"))
}

fn invalid(reason: String) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Outcome::NotDone,
        "reading the options",
        reason,
    )
}
