//! The options of calls.
use crate::argument::{number, time, word, wrong_type};
use crate::codec::Codec;
use crate::hlc::Hlc;
use pyo3::prelude::*;
use pyo3::types::PyString;
use statestore::{
    Condition, DelOptions, LeaseOptions, LockOptions, ObserveOptions, Overflow, Renewal, Retry,
    SetOptions,
};

type Any<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// How many observations are kept by `overflow="all"`.
const KEPT: usize = 1024;

pub(crate) fn set(
    py: Python<'_>,
    condition: &str,
    expires_in: Any<'_, '_>,
    fencing_token: Option<&Bound<'_, Hlc>>,
    persist: bool,
    timeout: Any<'_, '_>,
    retry_word: &str,
) -> PyResult<SetOptions> {
    const CONDITIONS: &[(&str, Condition)] = &[
        ("always", Condition::Always),
        ("if_absent", Condition::IfAbsent),
        ("if_absent_or_equal", Condition::IfAbsentOrEqual),
    ];
    Ok(SetOptions {
        condition: word(py, "condition", condition, CONDITIONS)?,
        expires_in: time("expires_in", expires_in)?,
        fencing_token: token(fencing_token),
        persist,
        timeout: time("timeout", timeout)?,
        retry: retry(py, retry_word)?,
    })
}

pub(crate) fn del(
    py: Python<'_>,
    fencing_token: Option<&Bound<'_, Hlc>>,
    timeout: Any<'_, '_>,
    retry_word: &str,
) -> PyResult<DelOptions> {
    Ok(DelOptions {
        fencing_token: token(fencing_token),
        timeout: time("timeout", timeout)?,
        retry: retry(py, retry_word)?,
    })
}

fn token(token: Option<&Bound<'_, Hlc>>) -> Option<statestore::Hlc> {
    token.map(|token| token.get().0.clone())
}

fn retry(py: Python<'_>, name: &str) -> PyResult<Retry> {
    const WORDS: &[(&str, Retry)] = &[
        ("safe", Retry::Safe),
        ("always", Retry::Always),
        ("never", Retry::Never),
    ];
    word(py, "retry", name, WORDS)
}

/// `None` is the default.
pub(crate) fn observe(overflow: Any<'_, '_>, timeout: Any<'_, '_>) -> PyResult<ObserveOptions> {
    const WORDS: &[(&str, Overflow)] =
        &[("latest", Overflow::Latest), ("all", Overflow::All(KEPT))];
    let overflow = match overflow {
        None => Overflow::Latest,
        Some(value) => match value.cast::<PyString>() {
            Ok(name) => word(value.py(), "overflow", name.to_str()?, WORDS)?,
            Err(_) => match number("overflow", Some(value)) {
                Ok(kept) => kept.map_or(Overflow::Latest, Overflow::All),
                Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(value.py()) => {
                    return Err(wrong_type(
                        "overflow",
                        "'latest', 'all' or the number of observations to keep",
                        value,
                    ));
                }
                Err(error) => return Err(error),
            },
        },
    };
    Ok(ObserveOptions {
        overflow,
        timeout: time("timeout", timeout)?,
    })
}

/// The options of a lease as Python gives them; `None` is the default.
pub(crate) struct Lease<'a, 'py> {
    pub(crate) duration: Any<'a, 'py>,
    pub(crate) renewal: Any<'a, 'py>,
    pub(crate) holder: Any<'a, 'py>,
    pub(crate) timeout: Any<'a, 'py>,
    pub(crate) foreign_lease_max: Any<'a, 'py>,
}

impl Lease<'_, '_> {
    pub(crate) fn read(&self, codec: &Codec) -> PyResult<LeaseOptions> {
        let default = LeaseOptions::default();
        let holder = self.holder.map(|name| codec.read("holder", name));
        let foreign_lease_max = time("foreign_lease_max", self.foreign_lease_max)?;
        Ok(LeaseOptions {
            duration: time("duration", self.duration)?.unwrap_or(default.duration),
            renewal: renewal(self.renewal)?,
            holder: holder.transpose()?,
            timeout: time("timeout", self.timeout)?,
            foreign_lease_max: foreign_lease_max.unwrap_or(default.foreign_lease_max),
        })
    }

    pub(crate) fn read_lock(&self, codec: &Codec, wait: Any<'_, '_>) -> PyResult<LockOptions> {
        Ok(LockOptions {
            lease: self.read(codec)?,
            wait: time("wait", wait)?,
        })
    }
}

fn renewal(value: Any<'_, '_>) -> PyResult<Renewal> {
    const WORDS: &[(&str, Renewal)] = &[("third", Renewal::Third), ("manual", Renewal::Manual)];
    let Some(value) = value else {
        return Ok(Renewal::Third);
    };
    match value.cast::<PyString>() {
        Ok(name) => word(value.py(), "renewal", name.to_str()?, WORDS),
        Err(_) => Ok(time("renewal", Some(value))?.map_or(Renewal::Third, Renewal::Every)),
    }
}
