//! Arguments that accept more than one Python type.
use crate::error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDelta, PyString};
use std::path::PathBuf;
use std::time::Duration;

/// An argument that may be omitted.
pub(crate) type OptionalArgument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Returns a `TypeError`: `name must be WANTED, not TYPE`.
pub(crate) fn wrong_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    match value.get_type().qualname() {
        Ok(found) => PyTypeError::new_err(format!("{name} must be {expected}, not {found}")),
        Err(error) => error,
    }
}

/// Returns the exception `name must be WANTED, not VALUE`.
pub(crate) fn wrong_value(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    match value.repr() {
        Ok(found) => error::invalid(
            value.py(),
            &format!("{name} must be {expected}, not {found}"),
        ),
        Err(error) => error,
    }
}

/// Arguments for which a call may wait, and so may be `math.inf`.
const UNBOUNDED_ARGUMENTS: [&str; 2] = ["timeout", "wait"];

/// Reads a time: seconds, or a `datetime.timedelta`.
pub(crate) fn time(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    if UNBOUNDED_ARGUMENTS.contains(&name) {
        return limit(name, value);
    }
    let Some(value) = value else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds(name, value)?) {
        Ok(time) => Ok(Some(time)),
        Err(_) => Err(wrong_value(
            name,
            "a time that is neither negative nor endless",
            value,
        )),
    }
}

/// Reads a time, or `math.inf` for never.
pub(crate) fn limit(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    let Some(value) = value else { return Ok(None) };
    let seconds = seconds(name, value)?;
    if seconds == f64::INFINITY {
        return Ok(Some(Duration::MAX));
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => Ok(Some(time)),
        Err(_) => Err(wrong_value(
            name,
            "a time that is not negative, or math.inf",
            value,
        )),
    }
}

fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    const WANTED: &str = "a number of seconds or a timedelta";
    if value.is_instance_of::<PyDelta>() {
        value.call_method0("total_seconds")?.extract()
    } else if value.is_instance_of::<PyBool>() {
        Err(wrong_type(name, WANTED, value))
    } else {
        value.extract().map_err(|_| wrong_type(name, WANTED, value))
    }
}

/// Reads a text.
pub(crate) fn text(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(value) = value else { return Ok(None) };
    match value.cast::<PyString>() {
        Ok(text) => Ok(Some(text.to_str()?.to_owned())),
        Err(_) => Err(wrong_type(name, "str", value)),
    }
}

/// Yes or no.
pub(crate) fn flag(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<bool>> {
    let Some(value) = value else { return Ok(None) };
    match value.cast::<PyBool>() {
        Ok(flag) => Ok(Some(flag.is_true())),
        Err(_) => Err(wrong_type(name, "bool", value)),
    }
}

/// Reads the path of a file.
pub(crate) fn path(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<PathBuf>> {
    let Some(value) = value else { return Ok(None) };
    match value.extract() {
        Ok(path) => Ok(Some(path)),
        Err(_) => Err(wrong_type(name, "str or a path", value)),
    }
}

/// Reads a count or a size.
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

/// Reads an integer of 64 bits with a sign.
pub(crate) fn integer(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
    let Some(value) = value else { return Ok(None) };
    if value.is_instance_of::<PyBool>() || !value.hasattr("__index__")? {
        return Err(wrong_type(name, "an integer", value));
    }
    match value.extract() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(wrong_value(name, "an integer of 64 bits", value)),
    }
}

/// Reads text or bytes, as bytes.
pub(crate) fn bytes(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<u8>>> {
    let Some(value) = value else { return Ok(None) };
    if let Ok(text) = value.cast::<PyString>() {
        Ok(Some(text.to_str()?.as_bytes().to_vec()))
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Ok(Some(bytes.as_bytes().to_vec()))
    } else {
        Err(wrong_type(name, "str or bytes", value))
    }
}

/// Returns the value of a word argument; the first word is the default.
pub(crate) fn word<T: Copy>(
    name: &str,
    value: Option<&Bound<'_, PyAny>>,
    words: &[(&str, T)],
) -> PyResult<T> {
    let Some(value) = value else {
        return Ok(words[0].1);
    };
    let text = text(name, Some(value))?;
    let found = words
        .iter()
        .find(|(word, _)| text.as_deref() == Some(*word));
    if let Some((_, meaning)) = found {
        return Ok(*meaning);
    }
    let known: Vec<_> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
    let wanted = format!("one of {}", known.join(", "));
    Err(wrong_value(name, &wanted, value))
}
