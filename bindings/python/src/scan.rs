//! Scans.
use crate::call_mode::CallMode;
use crate::shared::Shared;
use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The keys that match a pattern, page by page.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    shared: Arc<Shared>,
    inner: statestore_embed::Scan,
    pattern: Arc<[u8]>,
    fetched: Arc<Mutex<ScanBuffer>>,
}

/// Keys from the store that were not taken yet. A cancelled call leaves its page here.
#[derive(Debug, Default)]
struct ScanBuffer {
    keys: VecDeque<Bytes>,
    /// There is no further page.
    is_last: bool,
}

impl Scan {
    pub(crate) fn of(shared: &Arc<Shared>, scan: statestore_embed::Scan, pattern: &[u8]) -> Self {
        Self {
            shared: Arc::clone(shared),
            inner: scan,
            pattern: pattern.into(),
            fetched: Arc::default(),
        }
    }

    /// Takes the keys up to the first one that is not text. Raises the error of that key if it comes first.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut keys = {
            let mut fetched = lock(&self.fetched);
            if fetched.keys.is_empty() && fetched.is_last {
                return Ok(py.None().into_bound(py));
            }
            std::mem::take(&mut fetched.keys)
        };
        let mut page = Vec::with_capacity(keys.len());
        let mut error = None;
        while let Some(key) = keys.front() {
            match self.shared.codec.write(py, key) {
                Ok(key) => page.push(key),
                Err(_) if !page.is_empty() => break,
                Err(found) => error = Some(found),
            }
            keys.pop_front();
            if error.is_some() {
                break;
            }
        }
        if !keys.is_empty() {
            let mut fetched = lock(&self.fetched);
            keys.append(&mut fetched.keys);
            fetched.keys = keys;
        }
        error.map_or_else(|| page.into_bound_py_any(py), Err)
    }
}

#[pymethods]
impl Scan {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    fn __repr__(&self) -> String {
        format!("<Scan b\"{}\">", self.pattern.escape_ascii())
    }

    /// The next page, which may be empty although others follow; ``None`` after the last one. After an error the same
    /// page can be asked for again.
    ///
    /// A key that is not text of the client's ``encoding`` is a `UnicodeDecodeError`, whose ``object`` has its bytes. The
    /// page ends before it, the next call raises, and the one after that goes on behind it.
    fn next_page<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let has_keys = {
            let fetched = lock(&self.fetched);
            !fetched.keys.is_empty() || fetched.is_last
        };
        if has_keys {
            return self.take(py);
        }
        let (next, fetched) = (self.inner.next_page(), Arc::clone(&self.fetched));
        let fetch = async move {
            let page = next.await?;
            let mut fetched = lock(&fetched);
            match page {
                Some(page) => fetched.keys.extend(page),
                None => fetched.is_last = true,
            }
            Ok(())
        };
        let fetching = self
            .shared
            .run(py, "scanning", fetch, |py, _, ()| Ok(py.None()))?;
        match self.shared.mode {
            CallMode::Blocking => self.take(py),
            // The caller that awaits this calls again for the page.
            CallMode::Asyncio(_) => Ok(fetching),
        }
    }
}

fn lock(buffer: &Mutex<ScanBuffer>) -> MutexGuard<'_, ScanBuffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}
