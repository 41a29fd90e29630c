//! Scans.
use crate::error::Error;
use crate::mutex::lock;
use crate::process::ProcessBound;
use bytes::Bytes;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::Mutex as AsyncMutex;

/// The keys that match a pattern, page by page; see [`statestore::Scan`]. Clones share it.
#[derive(Debug)]
pub struct Scan {
    inner: ProcessBound<Arc<Inner>>,
}

#[derive(Debug)]
struct Inner {
    core: AsyncMutex<statestore::Scan>,
    fetched: Mutex<ScanBuffer>,
}

/// Keys from the store that were not taken yet.
#[derive(Debug, Default)]
struct ScanBuffer {
    /// Keys of offers that were dropped.
    returned: VecDeque<Bytes>,
    /// Keys of each offer; `None` after the last page, and when another consumer took them.
    offered: Slab<Option<VecDeque<Bytes>>>,
}

impl ScanBuffer {
    /// Takes the keys of an offer. After the last page, takes keys that other offers returned or still hold. So no consumer
    /// sees the end while keys may be left.
    fn take(&mut self, offer: usize) -> Option<VecDeque<Bytes>> {
        let own = self.offered.try_remove(offer).flatten();
        own.or_else(|| self.take_returned()).or_else(|| {
            let mut others = self.offered.iter_mut();
            others.find_map(|(_, other)| other.take_if(|keys| !keys.is_empty()))
        })
    }

    fn take_returned(&mut self) -> Option<VecDeque<Bytes>> {
        (!self.returned.is_empty()).then(|| std::mem::take(&mut self.returned))
    }
}

/// Keys of a scan that wait to be taken. Dropping this value leaves them to other consumers.
#[derive(Debug)]
pub struct OfferedKeys {
    inner: Arc<Inner>,
    /// Present until it is taken.
    offer: Option<usize>,
}

impl OfferedKeys {
    /// Takes the page; `None` after the last one.
    pub fn page(mut self) -> Option<Vec<Bytes>> {
        let offer = self.offer.take()?;
        let keys = lock(&self.inner.fetched).take(offer);
        keys.map(Vec::from)
    }

    /// Takes the key; `None` after the last one.
    pub fn key(mut self) -> Option<Bytes> {
        let offer = self.offer.take()?;
        let mut fetched = lock(&self.inner.fetched);
        let mut keys = fetched.take(offer)?;
        let key = keys.pop_front();
        fetched.returned.extend(keys);
        key
    }
}

impl Drop for OfferedKeys {
    fn drop(&mut self) {
        let Some(offer) = self.offer else { return };
        let mut fetched = lock(&self.inner.fetched);
        if let Some(Some(keys)) = fetched.offered.try_remove(offer) {
            fetched.returned.extend(keys);
        }
    }
}

impl Scan {
    pub(crate) fn new(core: statestore::Scan) -> Self {
        Self {
            inner: ProcessBound::new(Arc::new(Inner {
                core: AsyncMutex::new(core),
                fetched: Mutex::default(),
            })),
        }
    }

    /// Calls [`statestore::Scan::next_page`]. Concurrent calls get their pages one after the other.
    pub fn next_page(
        &self,
    ) -> impl Future<Output = Result<Option<Vec<Bytes>>, Error>> + Send + 'static + use<> {
        let page = self.fetch_page();
        async move { Ok(page.await?.page()) }
    }

    /// Calls [`statestore::Scan::next`]: the next key.
    pub fn next(
        &self,
    ) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send + 'static + use<> {
        let key = self.fetch();
        async move { Ok(key.await?.key()) }
    }

    /// Waits like [`next_page`](Self::next_page), for a consumer that may learn too late that the page is no longer wanted.
    pub fn fetch_page(
        &self,
    ) -> impl Future<Output = Result<OfferedKeys, Error>> + Send + 'static + use<> {
        let inner = self.inner.get().cloned();
        async move {
            let inner = inner?;
            let mut core = inner.core.lock().await;
            let returned = lock(&inner.fetched).take_returned();
            let keys = match returned {
                Some(keys) => Some(keys),
                None => core.next_page().await?.map(VecDeque::from),
            };
            drop(core);
            Ok(inner.offer(keys))
        }
    }

    /// Waits like [`next`](Self::next), for a consumer that may learn too late that the key is no longer wanted.
    pub fn fetch(
        &self,
    ) -> impl Future<Output = Result<OfferedKeys, Error>> + Send + 'static + use<> {
        let inner = self.inner.get().cloned();
        async move {
            let inner = inner?;
            let mut core = inner.core.lock().await;
            let returned = lock(&inner.fetched).returned.pop_front();
            let key = match returned {
                Some(key) => Some(key),
                None => core.next().await?,
            };
            drop(core);
            Ok(inner.offer(key.map(|key| [key].into())))
        }
    }
}

impl Inner {
    fn offer(self: Arc<Self>, keys: Option<VecDeque<Bytes>>) -> OfferedKeys {
        let offer = lock(&self.fetched).offered.insert(keys);
        OfferedKeys {
            inner: self,
            offer: Some(offer),
        }
    }
}

impl Clone for Scan {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.share(),
        }
    }
}
