//! Scans.
use crate::error::Error;
use crate::process::OfProcess;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The keys that match a pattern, page by page; see [`statestore::Scan`]. Clones share it.
#[derive(Debug)]
pub struct Scan {
    core: OfProcess<Arc<Mutex<statestore::Scan>>>,
}

impl Scan {
    pub(crate) fn new(core: statestore::Scan) -> Self {
        Self {
            core: OfProcess::new(Arc::new(Mutex::new(core))),
        }
    }

    /// As [`statestore::Scan::next_page`]. Pages that are asked for at the same time come one after the other.
    pub fn next_page(
        &self,
    ) -> impl Future<Output = Result<Option<Vec<Bytes>>, Error>> + Send + 'static + use<> {
        let core = self.core.get().cloned();
        async move { Ok(core?.lock_owned().await.next_page().await?) }
    }

    /// As [`statestore::Scan::next`]: the next key.
    pub fn next(
        &self,
    ) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send + 'static + use<> {
        let core = self.core.get().cloned();
        async move { Ok(core?.lock_owned().await.next().await?) }
    }
}

impl Clone for Scan {
    fn clone(&self) -> Self {
        Self {
            core: self.core.share(),
        }
    }
}
