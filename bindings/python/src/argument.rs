//! Arguments that Python gives in more than one form.
use crate::error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta};
use std::time::Duration;

/// `name must be WANTED, not TYPE`
pub(crate) fn wrong_type(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    match value.get_type().qualname() {
        Ok(found) => PyTypeError::new_err(format!("{name} must be {wanted}, not {found}")),
        Err(error) => error,
    }
}

/// `name must be WANTED, not VALUE`
pub(crate) fn wrong_value(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    match value.repr() {
        Ok(found) => error::invalid(value.py(), &format!("{name} must be {wanted}, not {found}")),
        Err(error) => error,
    }
}

/// A time: seconds, or a `datetime.timedelta`.
pub(crate) fn time(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    const WANTED: &str = "a number of seconds or a timedelta";
    let Some(value) = value else { return Ok(None) };
    let seconds: f64 = if value.is_instance_of::<PyDelta>() {
        value.call_method0("total_seconds")?.extract()?
    } else if value.is_instance_of::<PyBool>() {
        return Err(wrong_type(name, WANTED, value));
    } else {
        value
            .extract()
            .map_err(|_| wrong_type(name, WANTED, value))?
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => Ok(Some(time)),
        Err(_) => Err(wrong_value(
            name,
            "a time that is neither negative nor endless",
            value,
        )),
    }
}

/// A count or a size.
pub(crate) fn number<T>(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<T>>
where
    T: TryFrom<u64>,
{
    let Some(value) = value else { return Ok(None) };
    if value.is_instance_of::<PyBool>() || !value.hasattr("__index__")? {
        return Err(wrong_type(name, "an integer", value));
    }
    let number = value.extract::<u64>().ok();
    number
        .and_then(|number| T::try_from(number).ok())
        .map_or_else(
            || {
                let most = u64::MAX >> (64 - 8 * size_of::<T>());
                let wanted = format!("an integer from 0 to {most}");
                Err(wrong_value(name, &wanted, value))
            },
            |number| Ok(Some(number)),
        )
}

/// One of some words.
pub(crate) fn word<T: Copy>(
    py: Python<'_>,
    name: &str,
    value: &str,
    words: &[(&str, T)],
) -> PyResult<T> {
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == value) {
        return Ok(*meaning);
    }
    let known: Vec<_> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
    let known = known.join(", ");
    Err(error::invalid(
        py,
        &format!("{name} must be one of {known}, not {value:?}"),
    ))
}
