//! Scans.
use crate::call_mode::CallMode;
use crate::codec::Codec;
use crate::outcome;
use crate::shared::Shared;
use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use statestore::Entry;
use statestore_embed::{EntryScan, Error};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A key, and its entry if the scan returns entries.
type ScanItem = (Bytes, Option<Entry>);

/// A page; `None` after the last one.
type PageFuture = Pin<Box<dyn Future<Output = Result<Option<Vec<ScanItem>>, Error>> + Send>>;

/// The origin of the pages.
#[derive(Debug, Clone)]
pub(crate) enum ScanSource {
    Keys(statestore_embed::Scan),
    Entries(Arc<EntryScan>),
}

impl ScanSource {
    fn next_page(&self) -> PageFuture {
        match self {
            Self::Keys(scan) => Box::pin(read_page(scan.next_page(), |key| (key, None))),
            Self::Entries(scan) => Box::pin(read_page(scan.next_page(), |(key, entry)| {
                (key, Some(entry))
            })),
        }
    }
}

/// Reads a page, and converts its items.
async fn read_page<T>(
    page: impl Future<Output = Result<Option<Vec<T>>, Error>>,
    item: fn(T) -> ScanItem,
) -> Result<Option<Vec<ScanItem>>, Error> {
    let page = page.await?;
    Ok(page.map(|found| found.into_iter().map(item).collect()))
}

/// The keys that match a pattern, or their entries, page by page.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    shared: Arc<Shared>,
    source: ScanSource,
    pattern: Arc<[u8]>,
    fetched: Arc<Mutex<ScanBuffer>>,
}

/// Items from the store that were not taken yet. A cancelled call leaves its page here.
#[derive(Debug, Default)]
struct ScanBuffer {
    items: VecDeque<ScanItem>,
    /// There is no further page.
    is_last: bool,
}

impl Scan {
    pub(crate) fn of(shared: &Arc<Shared>, source: ScanSource, pattern: &[u8]) -> Self {
        Self {
            shared: Arc::clone(shared),
            source,
            pattern: pattern.into(),
            fetched: Arc::default(),
        }
    }

    /// Takes the items up to the first one that is not text. Raises the error of that item if it comes first.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut items = {
            let mut fetched = lock(&self.fetched);
            if fetched.items.is_empty() && fetched.is_last {
                return Ok(py.None().into_bound(py));
            }
            std::mem::take(&mut fetched.items)
        };
        let mut page = Vec::with_capacity(items.len());
        let mut error = None;
        while let Some(item) = items.front() {
            match item_to_python(py, &self.shared.codec, item) {
                Ok(object) => page.push(object),
                Err(_) if !page.is_empty() => break,
                Err(found) => error = Some(found),
            }
            items.pop_front();
            if error.is_some() {
                break;
            }
        }
        if !items.is_empty() {
            let mut fetched = lock(&self.fetched);
            items.append(&mut fetched.items);
            fetched.items = items;
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
    /// A key or value that is not text of the client's ``encoding`` is a `UnicodeDecodeError`, whose ``object`` has its bytes. The
    /// page ends before it, the next call raises, and the one after that goes on behind it.
    fn next_page<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let has_items = {
            let fetched = lock(&self.fetched);
            !fetched.items.is_empty() || fetched.is_last
        };
        if has_items {
            return self.take(py);
        }
        let (next, fetched) = (self.source.next_page(), Arc::clone(&self.fetched));
        let fetch = async move {
            let page = next.await?;
            let mut fetched = lock(&fetched);
            match page {
                Some(page) => fetched.items.extend(page),
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

/// Creates the object of an item: the key, or a tuple of the key and the entry.
fn item_to_python<'py>(
    py: Python<'py>,
    codec: &Codec,
    (key, found): &ScanItem,
) -> PyResult<Bound<'py, PyAny>> {
    let key = codec.write(py, key)?;
    match found {
        None => Ok(key),
        Some(found) => (key, outcome::entry(py, codec, found)?).into_bound_py_any(py),
    }
}

fn lock(buffer: &Mutex<ScanBuffer>) -> MutexGuard<'_, ScanBuffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}
