//! Scans.
use crate::error::Error;
use crate::mutex::lock;
use crate::process::ProcessBound;
use bytes::Bytes;
use slab::Slab;
use statestore::Entry;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::sync::Mutex as AsyncMutex;

/// A scan of the client, which returns items page by page.
pub trait PagedScan: Send + 'static {
    /// A key, or a key with its entry.
    type Item: Send + 'static;

    /// Returns the next page; `None` after the last one. Dropping the future loses no items.
    fn next_page(
        &mut self,
    ) -> impl Future<Output = Result<Option<Vec<Self::Item>>, statestore::Error>> + Send;

    /// Returns the next item; `None` after the last one. Dropping the future loses no items.
    fn next(
        &mut self,
    ) -> impl Future<Output = Result<Option<Self::Item>, statestore::Error>> + Send;
}

impl PagedScan for statestore::Scan {
    type Item = Bytes;

    async fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, statestore::Error> {
        statestore::Scan::next_page(self).await
    }

    async fn next(&mut self) -> Result<Option<Bytes>, statestore::Error> {
        statestore::Scan::next(self).await
    }
}

impl PagedScan for statestore::EntryScan {
    type Item = (Bytes, Entry);

    async fn next_page(&mut self) -> Result<Option<Vec<(Bytes, Entry)>>, statestore::Error> {
        statestore::EntryScan::next_page(self).await
    }

    async fn next(&mut self) -> Result<Option<(Bytes, Entry)>, statestore::Error> {
        statestore::EntryScan::next(self).await
    }
}

/// The keys that match a pattern, page by page; see [`statestore::Scan`]. Clones share it.
pub struct Scan<S: PagedScan = statestore::Scan> {
    inner: ProcessBound<Arc<Inner<S>>>,
}

/// The entries whose keys match a pattern, page by page; see [`statestore::EntryScan`]. Clones share it.
pub type EntryScan = Scan<statestore::EntryScan>;

struct Inner<S: PagedScan> {
    core: AsyncMutex<S>,
    fetched: Mutex<ScanBuffer<S::Item>>,
}

/// Items from the store that were not taken yet.
struct ScanBuffer<T> {
    /// Items of offers that were dropped.
    returned: VecDeque<T>,
    /// Items of each offer; `None` after the last page, and when another consumer took them.
    offered: Slab<Option<VecDeque<T>>>,
}

impl<T> ScanBuffer<T> {
    fn new() -> Self {
        Self {
            returned: VecDeque::new(),
            offered: Slab::new(),
        }
    }

    /// Takes the items of an offer. After the last page, takes items that other offers returned or still hold. So no consumer
    /// sees the end while items may be left.
    fn take(&mut self, offer: usize) -> Option<VecDeque<T>> {
        let own = self.offered.try_remove(offer).flatten();
        own.or_else(|| self.take_returned()).or_else(|| {
            let mut others = self.offered.iter_mut();
            others.find_map(|(_, other)| other.take_if(|items| !items.is_empty()))
        })
    }

    fn take_returned(&mut self) -> Option<VecDeque<T>> {
        (!self.returned.is_empty()).then(|| std::mem::take(&mut self.returned))
    }
}

/// Items of a scan that wait to be taken. Dropping this value leaves them to other consumers.
pub struct OfferedPage<S: PagedScan> {
    inner: Arc<Inner<S>>,
    /// Present until it is taken.
    offer: Option<usize>,
}

impl<S: PagedScan> OfferedPage<S> {
    /// Takes the page; `None` after the last one.
    pub fn page(mut self) -> Option<Vec<S::Item>> {
        let offer = self.offer.take()?;
        let items = lock(&self.inner.fetched).take(offer);
        items.map(Vec::from)
    }

    /// Takes the first item; `None` after the last page.
    pub fn item(mut self) -> Option<S::Item> {
        let offer = self.offer.take()?;
        let mut fetched = lock(&self.inner.fetched);
        let mut items = fetched.take(offer)?;
        let item = items.pop_front();
        fetched.returned.extend(items);
        item
    }
}

impl<S: PagedScan> Drop for OfferedPage<S> {
    fn drop(&mut self) {
        let Some(offer) = self.offer else { return };
        let mut fetched = lock(&self.inner.fetched);
        if let Some(Some(items)) = fetched.offered.try_remove(offer) {
            fetched.returned.extend(items);
        }
    }
}

impl<S: PagedScan> fmt::Debug for OfferedPage<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfferedPage").finish_non_exhaustive()
    }
}

impl<S: PagedScan> Scan<S> {
    pub(crate) fn new(core: S) -> Self {
        Self {
            inner: ProcessBound::new(Arc::new(Inner {
                core: AsyncMutex::new(core),
                fetched: Mutex::new(ScanBuffer::new()),
            })),
        }
    }

    /// Returns the next page. Concurrent calls get their pages one after the other.
    pub fn next_page(
        &self,
    ) -> impl Future<Output = Result<Option<Vec<S::Item>>, Error>> + Send + 'static + use<S> {
        let page = self.fetch_page();
        async move { Ok(page.await?.page()) }
    }

    /// Returns the next item.
    pub fn next(
        &self,
    ) -> impl Future<Output = Result<Option<S::Item>, Error>> + Send + 'static + use<S> {
        let item = self.fetch();
        async move { Ok(item.await?.item()) }
    }

    /// Waits like [`next_page`](Self::next_page), for a consumer that may learn too late that the page is no longer wanted.
    pub fn fetch_page(
        &self,
    ) -> impl Future<Output = Result<OfferedPage<S>, Error>> + Send + 'static + use<S> {
        let inner = self.inner.get().cloned();
        async move {
            let inner = inner?;
            let mut core = inner.core.lock().await;
            let returned = lock(&inner.fetched).take_returned();
            let items = match returned {
                Some(items) => Some(items),
                None => core.next_page().await?.map(VecDeque::from),
            };
            drop(core);
            Ok(inner.offer(items))
        }
    }

    /// Waits like [`next`](Self::next), for a consumer that may learn too late that the item is no longer wanted.
    pub fn fetch(
        &self,
    ) -> impl Future<Output = Result<OfferedPage<S>, Error>> + Send + 'static + use<S> {
        let inner = self.inner.get().cloned();
        async move {
            let inner = inner?;
            let mut core = inner.core.lock().await;
            let returned = lock(&inner.fetched).returned.pop_front();
            let item = match returned {
                Some(item) => Some(item),
                None => core.next().await?,
            };
            drop(core);
            Ok(inner.offer(item.map(|item| [item].into())))
        }
    }
}

impl<S: PagedScan> Inner<S> {
    fn offer(self: Arc<Self>, items: Option<VecDeque<S::Item>>) -> OfferedPage<S> {
        let offer = lock(&self.fetched).offered.insert(items);
        OfferedPage {
            inner: self,
            offer: Some(offer),
        }
    }
}

impl<S: PagedScan> Clone for Scan<S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.share(),
        }
    }
}

impl<S: PagedScan> fmt::Debug for Scan<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}
