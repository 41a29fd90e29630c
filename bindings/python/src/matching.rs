//! Calls of a client about the keys that match a pattern.
use crate::argument::{OptionalArgument, flag, time};
use crate::error;
use crate::observer::{check_callback, observer_with};
use crate::options;
use crate::outcome;
use crate::scan::{Scan, ScanSource};
use crate::shared::Shared;
use pyo3::prelude::*;
use statestore::{ObserveMatchingOptions, ScanOptions};
use std::sync::Arc;
use std::time::Duration;

/// The part of a client that finds and observes the keys that match a pattern.
#[pyclass(name = "Client", frozen, subclass, module = "statestore._native")]
#[derive(Debug)]
pub(crate) struct Matching {
    shared: Arc<Shared>,
}

impl Matching {
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
        }
    }

    fn observe<'py>(
        &self,
        py: Python<'py>,
        pattern: &Bound<'py, PyAny>,
        callback: Option<Py<PyAny>>,
        options: ObserveMatchingOptions,
        reports_end: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pattern = self.shared.codec.read("pattern", pattern)?;
        let shared = Arc::clone(&self.shared);
        let observe = self
            .shared
            .client
            .observe_matching(pattern.clone(), options);
        self.shared
            .run(py, "KEYNOTIFY", observe, move |py, _, feed| {
                observer_with(
                    py,
                    &shared,
                    Some(&pattern),
                    feed,
                    callback,
                    outcome::match_observation,
                    reports_end,
                )
            })
    }
}

#[pymethods]
impl Matching {
    /// Iterates over the keys that match a pattern. The pattern is a glob: ``*``, ``?``, ``[ab]``, ``[0-9]``,
    /// ``[!x]``. ``timeout`` is that of each page.
    ///
    ///     >>> _ = client.set("room/1", "x"), client.set("room/2", "x")
    ///     >>> sorted(client.scan("room/*"))
    ///     [b'room/1', b'room/2']
    #[pyo3(signature = (pattern, *, timeout=None))]
    fn scan(
        &self,
        py: Python<'_>,
        pattern: &Bound<'_, PyAny>,
        timeout: OptionalArgument<'_, '_>,
    ) -> PyResult<Py<PyAny>> {
        let pattern = self.shared.codec.read("pattern", pattern)?;
        let options = ScanOptions::new().timeout(time("timeout", timeout)?);
        let scan = self.shared.client.scan(&pattern, options);
        let scan = scan.map_err(|error| error::to_python(py, &error))?;
        let scan = Scan::of(&self.shared, ScanSource::Keys(scan), &pattern);
        self.shared.wrap(py, "Scan", scan)
    }

    /// Iterates over the keys that match a pattern, each with its `Entry`, whose ``expires_in`` is known. The pattern is that of
    /// `scan`. ``timeout`` is that of each page.
    ///
    /// A store without `Capabilities.scan_values` raises `UnsupportedError`. With ``fallback``, the client reads the entries with
    /// `get_many` there, and their ``expires_in`` is unknown.
    ///
    ///     >>> _ = client.set("room/1", "warm"), client.set("room/2", "cold")
    ///     >>> sorted([(key, entry.value) for key, entry in client.scan_entries("room/*")])
    ///     [(b'room/1', b'warm'), (b'room/2', b'cold')]
    #[pyo3(
        signature = (pattern, *, fallback=None, timeout=None),
        text_signature = "($self, pattern, *, fallback=False, timeout=None)"
    )]
    fn scan_entries(
        &self,
        py: Python<'_>,
        pattern: &Bound<'_, PyAny>,
        fallback: OptionalArgument<'_, '_>,
        timeout: OptionalArgument<'_, '_>,
    ) -> PyResult<Py<PyAny>> {
        let pattern = self.shared.codec.read("pattern", pattern)?;
        let options = ScanOptions::new()
            .fallback(flag("fallback", fallback)?.unwrap_or_default())
            .timeout(time("timeout", timeout)?);
        let scan = self.shared.client.scan_entries(&pattern, options);
        let scan = scan.map_err(|error| error::to_python(py, &error))?;
        let scan = Scan::of(&self.shared, ScanSource::Entries(Arc::new(scan)), &pattern);
        self.shared.wrap(py, "Scan", scan)
    }

    /// Observes all keys that match a pattern: an `Observer`. It reports a `MatchSet` for each key that exists, then `Complete`, also if
    /// no key matches, and from then on a `MatchSet` or `MatchDeleted` for each change. The pattern is that of `scan`.
    ///
    /// `Resync` means that changes may have been missed. The differences follow, and then `Resynced`, or `Complete` if that was not
    /// reported before. A slow reader gets only the newest state of each key. If more than ``max_keys`` keys match, the observer ends
    /// with `TooLargeError`. A ``callback`` is called as that of `observe`.
    ///
    /// On a store without `Capabilities.observe_matching`, the client watches each key, and scans for new ones once per ``refresh``
    /// interval. With ``refresh=None``, such a store raises `UnsupportedError`.
    ///
    ///     >>> _ = client.set("line/1", "fast")
    ///     >>> with client.observe_matching("line/*") as changes:
    ///     ...     next(changes), next(changes)  # doctest: +ELLIPSIS
    ///     (MatchSet(key=b'line/1', value=b'fast', version=Hlc('...')), Complete())
    #[pyo3(
        signature = (
            pattern, callback=None, *, refresh=ObserveMatchingOptions::default().refresh, max_keys=None, timeout=None,
        ),
        text_signature = "($self, pattern, callback=None, *, refresh=10.0, max_keys=1000000, timeout=None)"
    )]
    fn observe_matching<'py>(
        &self,
        py: Python<'py>,
        pattern: &Bound<'py, PyAny>,
        callback: OptionalArgument<'_, 'py>,
        #[pyo3(from_py_with = options::refresh)] refresh: Option<Duration>,
        max_keys: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let callback = check_callback(callback)?;
        let options = options::observe_matching(refresh, max_keys, timeout)?;
        self.observe(py, pattern, callback, options, false)
    }

    /// Observes all keys that match a pattern for a mirror. The callback also gets each exception, and ``None`` after the last observation.
    #[pyo3(name = "_mirror", signature = (pattern, callback, refresh, max_keys, timeout))]
    fn mirror<'py>(
        &self,
        py: Python<'py>,
        pattern: &Bound<'py, PyAny>,
        callback: Py<PyAny>,
        #[pyo3(from_py_with = options::refresh)] refresh: Option<Duration>,
        max_keys: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = options::observe_matching(refresh, max_keys, timeout)?;
        self.observe(py, pattern, Some(callback), options, true)
    }

    /// Returns a key in the form in which this client returns keys.
    #[pyo3(name = "_stored_key")]
    fn stored_key<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.shared.codec.read("key", key)?;
        self.shared.codec.write(py, &key)
    }
}
