//! Scans that return values.
use crate::error::Error;
use crate::process::ProcessBound;
use bytes::Bytes;
use statestore::Entry;
use std::sync::Arc;
use tokio::sync::Mutex as AsyncMutex;

/// The entries whose keys match a pattern, page by page; see [`statestore::EntryScan`].
#[derive(Debug)]
pub struct EntryScan {
    core: ProcessBound<Arc<AsyncMutex<statestore::EntryScan>>>,
}

impl EntryScan {
    pub(crate) fn new(core: statestore::EntryScan) -> Self {
        Self {
            core: ProcessBound::new(Arc::new(AsyncMutex::new(core))),
        }
    }

    /// Calls [`statestore::EntryScan::next_page`]. Concurrent calls get their pages one after the other.
    pub fn next_page(
        &self,
    ) -> impl Future<Output = Result<Option<Vec<(Bytes, Entry)>>, Error>> + Send + 'static + use<>
    {
        let core = self.core.get().cloned();
        async move {
            let core = core?;
            let page = core.lock().await.next_page().await?;
            Ok(page)
        }
    }
}
