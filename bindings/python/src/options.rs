//! The options of calls.
use crate::argument::{flag, limit, number, time, word, wrong_type};
use crate::codec::Codec;
use crate::condition::IfVersion;
use crate::hlc::Hlc;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use statestore::{
    Condition, DelOptions, GetOptions, LeaseOptions, LockOptions, ObserveMatchingOptions,
    ObserveOptions, Overflow, Renewal, Retry, SetOptions, TransactOptions, UpdateOptions, Version,
};
use std::time::Duration;

type OptionalArgument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// How many observations are kept by `overflow="all"`.
const DEFAULT_KEPT: usize = 1024;

/// The options of SET as Python values; `None` is the default.
pub(crate) struct SetArguments<'a, 'py> {
    pub(crate) condition: OptionalArgument<'a, 'py>,
    pub(crate) expires_in: OptionalArgument<'a, 'py>,
    pub(crate) fencing_token: OptionalArgument<'a, 'py>,
    pub(crate) persist: OptionalArgument<'a, 'py>,
    pub(crate) coalesce: OptionalArgument<'a, 'py>,
    pub(crate) timeout: OptionalArgument<'a, 'py>,
    pub(crate) retry: OptionalArgument<'a, 'py>,
}

impl SetArguments<'_, '_> {
    pub(crate) fn read(&self) -> PyResult<SetOptions> {
        const CONDITIONS: &[(&str, Condition)] = &[
            ("always", Condition::Always),
            ("if_absent", Condition::IfAbsent),
            ("if_absent_or_equal", Condition::IfAbsentOrEqual),
        ];
        Ok(SetOptions::new()
            .condition(match self.condition.map(Bound::cast::<IfVersion>) {
                Some(Ok(condition)) => Condition::IfVersion(condition.get().version()),
                _ => word("condition", self.condition, CONDITIONS)?,
            })
            .expires_in(limit("expires_in", self.expires_in)?)
            .fencing_token(hlc("fencing_token", self.fencing_token)?)
            .persist(flag("persist", self.persist)?.unwrap_or_default())
            .coalesce(flag("coalesce", self.coalesce)?.unwrap_or_default())
            .timeout(time("timeout", self.timeout)?)
            .retry(retry(self.retry)?))
    }
}

/// Reads the options of GET; `None` is the default.
pub(crate) fn get(
    remaining: OptionalArgument<'_, '_>,
    eventual: OptionalArgument<'_, '_>,
    timeout: OptionalArgument<'_, '_>,
) -> PyResult<GetOptions> {
    Ok(GetOptions::new()
        .remaining(flag("remaining", remaining)?.unwrap_or_default())
        .eventual(flag("eventual", eventual)?.unwrap_or_default())
        .timeout(time("timeout", timeout)?))
}

/// Reads the options of a transaction; `None` is the default.
pub(crate) fn transact(
    persist: OptionalArgument<'_, '_>,
    timeout: OptionalArgument<'_, '_>,
    retry_argument: OptionalArgument<'_, '_>,
) -> PyResult<TransactOptions> {
    Ok(TransactOptions::new()
        .persist(flag("persist", persist)?.unwrap_or_default())
        .timeout(time("timeout", timeout)?)
        .retry(retry(retry_argument)?))
}

/// Reads the options of DEL and VDEL; `None` is the default.
pub(crate) fn del(
    fencing_token: OptionalArgument<'_, '_>,
    if_version: OptionalArgument<'_, '_>,
    timeout: OptionalArgument<'_, '_>,
    retry_argument: OptionalArgument<'_, '_>,
) -> PyResult<DelOptions> {
    Ok(DelOptions::new()
        .fencing_token(hlc("fencing_token", fencing_token)?)
        .if_version(hlc("if_version", if_version)?.map(Version::from))
        .timeout(time("timeout", timeout)?)
        .retry(retry(retry_argument)?))
}

/// Reads the options of an update; `None` is the default.
pub(crate) fn update(
    expires_in: OptionalArgument<'_, '_>,
    persist: OptionalArgument<'_, '_>,
    timeout: OptionalArgument<'_, '_>,
) -> PyResult<UpdateOptions> {
    Ok(UpdateOptions::new()
        .expires_in(limit("expires_in", expires_in)?)
        .persist(flag("persist", persist)?.unwrap_or_default())
        .timeout(time("timeout", timeout)?))
}

fn hlc(name: &str, value: OptionalArgument<'_, '_>) -> PyResult<Option<statestore::Hlc>> {
    let Some(value) = value else { return Ok(None) };
    match value.cast::<Hlc>() {
        Ok(hlc) => Ok(Some(hlc.get().0.clone())),
        Err(_) => Err(wrong_type(name, "an Hlc", value)),
    }
}

fn retry(value: OptionalArgument<'_, '_>) -> PyResult<Retry> {
    const WORDS: &[(&str, Retry)] = &[
        ("safe", Retry::Safe),
        ("always", Retry::Always),
        ("never", Retry::Never),
    ];
    word("retry", value, WORDS)
}

/// Reads the options of an observation; `None` is the default.
pub(crate) fn observe(
    initial: OptionalArgument<'_, '_>,
    overflow: OptionalArgument<'_, '_>,
    timeout: OptionalArgument<'_, '_>,
) -> PyResult<ObserveOptions> {
    const WORDS: &[(&str, Overflow)] = &[
        ("latest", Overflow::Latest),
        ("all", Overflow::All(DEFAULT_KEPT)),
    ];
    let overflow = match overflow {
        None => Overflow::Latest,
        Some(value) if value.is_instance_of::<PyString>() => word("overflow", Some(value), WORDS)?,
        Some(value) => match number("overflow", Some(value)) {
            Ok(kept) => kept.map_or(Overflow::Latest, Overflow::All),
            Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
                let wanted = "'latest', 'all' or the number of observations to keep";
                return Err(wrong_type("overflow", wanted, value));
            }
            Err(error) => return Err(error),
        },
    };
    Ok(ObserveOptions::new()
        .initial(flag("initial", initial)?.unwrap_or_default())
        .overflow(overflow)
        .timeout(time("timeout", timeout)?))
}

/// Reads the interval of scans for new keys; `None` turns them off.
pub(crate) fn refresh(interval: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    time("refresh", (!interval.is_none()).then_some(interval))
}

/// Reads the options of an observation of a pattern; `None` is the default, except of `refresh`.
pub(crate) fn observe_matching(
    refresh: Option<Duration>,
    max_keys: OptionalArgument<'_, '_>,
    timeout: OptionalArgument<'_, '_>,
) -> PyResult<ObserveMatchingOptions> {
    let default = ObserveMatchingOptions::default();
    let max_keys = number("max_keys", max_keys)?.unwrap_or(default.max_keys);
    Ok(default
        .refresh(refresh)
        .max_keys(max_keys)
        .timeout(time("timeout", timeout)?))
}

/// The options of a lease as Python values; `None` is the default.
pub(crate) struct LeaseArguments<'a, 'py> {
    pub(crate) duration: OptionalArgument<'a, 'py>,
    pub(crate) renewal: OptionalArgument<'a, 'py>,
    pub(crate) holder: OptionalArgument<'a, 'py>,
    pub(crate) resume: OptionalArgument<'a, 'py>,
    pub(crate) timeout: OptionalArgument<'a, 'py>,
    pub(crate) foreign_lease_max: OptionalArgument<'a, 'py>,
}

impl LeaseArguments<'_, '_> {
    pub(crate) fn read(&self, codec: &Codec) -> PyResult<LeaseOptions> {
        let default = LeaseOptions::default();
        let holder = self.holder.map(|name| codec.read("holder", name));
        let foreign_lease_max = time("foreign_lease_max", self.foreign_lease_max)?;
        Ok(LeaseOptions::new()
            .duration(time("duration", self.duration)?.unwrap_or(default.duration))
            .renewal(renewal(self.renewal)?)
            .holder(holder.transpose()?)
            .resume(flag("resume", self.resume)?.unwrap_or_default())
            .timeout(time("timeout", self.timeout)?)
            .foreign_lease_max(foreign_lease_max.unwrap_or(default.foreign_lease_max)))
    }

    pub(crate) fn read_lock(
        &self,
        codec: &Codec,
        wait: OptionalArgument<'_, '_>,
    ) -> PyResult<LockOptions> {
        Ok(LockOptions::new()
            .lease(self.read(codec)?)
            .wait(time("wait", wait)?))
    }
}

fn renewal(value: OptionalArgument<'_, '_>) -> PyResult<Renewal> {
    const WORDS: &[(&str, Renewal)] = &[("third", Renewal::Third), ("manual", Renewal::Manual)];
    match value {
        Some(value) if !value.is_instance_of::<PyString>() => {
            Ok(time("renewal", Some(value))?.map_or(Renewal::Third, Renewal::Every))
        }
        value => word("renewal", value, WORDS),
    }
}
