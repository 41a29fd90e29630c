//! Keyword arguments that a call does not have, with a hint for those of other libraries.
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Page of the book for programs that come from other libraries.
const PAGE: &str = "docs/migration.md";

/// Arguments that other libraries have for storing a value, and what replaces them.
const SET: &[(&[&str], &str)] = &[
    (&["ex", "ttl", "expire"], "expires_in=… in seconds"),
    (&["px"], "expires_in=… in seconds, not milliseconds"),
    (&["exat", "pxat"], "expires_in=…, the seconds from now on"),
    (&["nx"], "condition=\"if_absent\""),
    (
        &["xx", "get", "keepttl"],
        "a function to update(key, change)",
    ),
];

/// Arguments that other libraries have for taking a lock, and what replaces them.
const LOCK: &[(&[&str], &str)] = &[
    (&["blocking_timeout"], "wait=… in seconds"),
    (&["blocking"], "wait=0 for one attempt"),
    (&["expire", "ttl", "lease"], "duration=… in seconds"),
];

/// Rejects arguments that the method of a class that stores a value does not have.
///
/// # Errors
/// `TypeError`, which names the argument, and what replaces it.
pub(crate) fn reject_in_set(method: &str, unknown: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    reject(method, unknown, SET)
}

/// Rejects arguments that `Client.lock` does not have, and a time-out whose meaning is not clear.
///
/// A `timeout` is the limit of each request here, that of the wait in other libraries, and the duration of the lease in others
/// again. It has to come with `wait`.
///
/// # Errors
/// `TypeError`, which names the argument, and what replaces it.
pub(crate) fn reject_in_lock(
    unknown: Option<&Bound<'_, PyDict>>,
    has_timeout: bool,
    has_wait: bool,
) -> PyResult<()> {
    let method = "Client.lock()";
    reject(method, unknown, LOCK)?;
    if has_timeout && !has_wait {
        return Err(PyTypeError::new_err(format!(
            "{method} got timeout, the limit of each request, without wait; pass wait=… for the longest wait for the lock \
             (math.inf for no limit), or duration=… for the lease; see {PAGE}"
        )));
    }
    Ok(())
}

fn reject(
    method: &str,
    unknown: Option<&Bound<'_, PyDict>>,
    known: &[(&[&str], &str)],
) -> PyResult<()> {
    let Some((name, _)) = unknown.and_then(|unknown| unknown.iter().next()) else {
        return Ok(());
    };
    let name: String = name.extract()?;
    let replaced = known.iter().find(|(names, _)| names.contains(&&*name));
    let hint = replaced.map_or_else(String::new, |(_, other)| {
        format!("; pass {other}; see {PAGE}")
    });
    Err(PyTypeError::new_err(format!(
        "{method} got an unexpected keyword argument '{name}'{hint}"
    )))
}
