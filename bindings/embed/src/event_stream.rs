//! A stream of events that can be awaited, polled, or delivered to a callback.
use crate::cause;
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::executor::Dependent;
use crate::mailbox::Mailbox;
use crate::mutex::lock;
use crate::operation::Operation;
use crate::process::ProcessBound;
use crate::waker_set::{ReadyHook, WakerKey, WakerSet};
use statestore::{LostReason, Outcome};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::mpsc;

/// The source of the items of a stream. It may be polled on any thread, and does no work between polls.
pub(crate) trait Source<T>: Send {
    /// Takes the next item.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>>;

    /// Polls like `poll_next`, but takes nothing.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

/// A function that polls the next item of a source.
pub(crate) type PollNextFn<T> = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<T>> + Send>;

/// A source that offers only taking: an item that was checked for is kept.
struct PeekableSource<T> {
    poll: PollNextFn<T>,
    /// Ready if an item, or the end, was checked for and not taken yet.
    peeked: Poll<Option<T>>,
}

impl<T: Send> Source<T> for PeekableSource<T> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        match std::mem::replace(&mut self.peeked, Poll::Pending) {
            Poll::Pending => (self.poll)(context),
            ready @ Poll::Ready(_) => ready,
        }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.peeked.is_pending() {
            self.peeked = (self.poll)(context);
        }
        match self.peeked {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A bounded stream of events: observations of a key, states of a connection, holders of a lease.
///
/// Clones share it, and each item goes to one of them. Dropping the last ends it at its origin.
pub struct EventStream<T> {
    inner: ProcessBound<Arc<Inner<T>>>,
    client: Client,
}

struct Inner<T> {
    items: Mutex<StreamState<T>>,
    wakers: Arc<WakerSet>,
    end: StreamEnd,
}

struct StreamState<T> {
    /// `None` once it was stopped.
    source: Option<Box<dyn Source<T>>>,
    /// Items from the source that were not taken yet, oldest first. Taking always removes the oldest. So no item is lost or
    /// delivered after a newer one, whichever offers are dropped.
    buffered: VecDeque<T>,
    /// Offers under way, each with a right to one item.
    offers: usize,
}

impl<T> StreamState<T> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_buffered(context).map(|is_there| {
            let item = is_there.then(|| self.buffered.pop_front());
            item.flatten()
        })
    }

    /// Promises an item; whether there is one.
    fn poll_offer(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let polled = self.poll_buffered(context);
        self.offers += usize::from(polled == Poll::Ready(true));
        polled
    }

    /// Gets an item beyond those that are promised, or at the end one of those; whether there is one.
    fn poll_buffered(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let Some(source) = &mut self.source else {
            return Poll::Ready(false);
        };
        if self.buffered.len() <= self.offers {
            match source.poll_next(context) {
                Poll::Ready(item) => self.buffered.extend(item),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(!self.buffered.is_empty())
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            Some(source) if self.buffered.len() <= self.offers => source.poll_ready(context),
            _ => Poll::Ready(()),
        }
    }
}

/// An item of a stream that waits to be taken. Dropping it without [taking](Self::take) the item leaves the item to other
/// consumers.
pub struct OfferedItem<T> {
    inner: Arc<Inner<T>>,
    is_taken: bool,
}

impl<T> OfferedItem<T> {
    /// Returns the oldest untaken item; `None` if the stream has ended and other consumers were faster.
    pub fn take(mut self) -> Option<T> {
        self.is_taken = true;
        let item = {
            let mut items = lock(&self.inner.items);
            items.offers -= 1;
            items.buffered.pop_front()
        };
        if item.is_none() {
            self.inner.end.set(None, None);
        }
        item
    }
}

impl<T> Drop for OfferedItem<T> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let left = {
            let mut items = lock(&self.inner.items);
            items.offers -= 1;
            if items.source.is_some() {
                None
            } else {
                // After a stop, only promised items are left.
                let kept = items.offers.min(items.buffered.len());
                Some(items.buffered.split_off(kept))
            }
        };
        drop(left);
        Arc::clone(&self.inner.wakers).wake();
    }
}

impl<T> fmt::Debug for OfferedItem<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfferedItem").finish_non_exhaustive()
    }
}

/// The end of an [`EventStream`], once it has ended. Clones share it, and keep neither the stream nor its client alive.
#[derive(Debug, Clone, Default)]
pub struct StreamEnd(Arc<OnceLock<(LostReason, Option<Error>)>>);

impl StreamEnd {
    /// Returns why there will be no further item; `None` while there may be one.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.get().map(|(lost_reason, _)| *lost_reason)
    }

    /// Returns the error that ended the stream. `None` while it continues, and if the client was closed or the stream was stopped.
    pub fn error(&self) -> Option<Error> {
        self.0.get()?.1.clone()
    }

    /// Records the end of the stream, unless an end was recorded before.
    pub(crate) fn set(&self, lost_reason: Option<LostReason>, error: Option<Error>) {
        let lost_reason = lost_reason.unwrap_or(LostReason::Closed);
        self.0.get_or_init(|| (lost_reason, error));
    }
}

impl<T> Inner<T> {
    /// Takes the next item.
    fn next(&self) -> Poll<Option<T>> {
        let waker = Waker::from(Arc::clone(&self.wakers));
        let next = lock(&self.items).poll_next(&mut Context::from_waker(&waker));
        if let Poll::Ready(None) = next {
            self.end.set(None, None);
        }
        next
    }

    /// Polls the next item, and keeps it until the offer is taken or dropped.
    fn offer(self: &Arc<Self>) -> Poll<Option<OfferedItem<T>>> {
        let waker = Waker::from(Arc::clone(&self.wakers));
        let offered = lock(&self.items).poll_offer(&mut Context::from_waker(&waker));
        offered.map(|is_there| {
            if !is_there {
                self.end.set(None, None);
            }
            is_there.then(|| OfferedItem {
                inner: Arc::clone(self),
                is_taken: false,
            })
        })
    }

    /// Returns whether an item is ready.
    fn ready(&self) -> Poll<()> {
        let waker = Waker::from(Arc::clone(&self.wakers));
        lock(&self.items).poll_ready(&mut Context::from_waker(&waker))
    }
}

impl<T: Send> Dependent for Inner<T> {
    /// Ends the stream.
    fn runtime_failed(&self) {
        let error = cause::runtime_failed("the client", Outcome::NotDone);
        self.end.set(None, Some(error));
        let source = lock(&self.items).source.take();
        Arc::clone(&self.wakers).wake();
        // It may panic without the runtime.
        drop(source);
    }
}

/// A look at the source.
type PollMethod<T, L> = fn(&Arc<Inner<T>>) -> Poll<L>;

/// Waits until a look at the source is ready.
struct WaitFuture<T, L> {
    inner: Arc<Inner<T>>,
    poll_method: PollMethod<T, L>,
    /// Present from when it waits, also when it was woken.
    waker_key: Option<WakerKey>,
}

impl<T, L> WaitFuture<T, L> {
    fn new(inner: Arc<Inner<T>>, poll_method: PollMethod<T, L>) -> Self {
        Self {
            inner,
            poll_method,
            waker_key: None,
        }
    }

    fn unregister(&mut self) {
        if let Some(key) = self.waker_key.take() {
            self.inner.wakers.unregister(&key);
        }
    }
}

impl<T, L> Future for WaitFuture<T, L> {
    type Output = L;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<L> {
        self.unregister();
        self.waker_key = Some(self.inner.wakers.register(context.waker().clone()));
        let polled = (self.poll_method)(&self.inner);
        if polled.is_ready() {
            self.unregister();
        }
        polled
    }
}

impl<T, L> Drop for WaitFuture<T, L> {
    fn drop(&mut self) {
        self.unregister();
    }
}

impl<T: Send + 'static> EventStream<T> {
    /// Creates a stream of the items that a dedicated operation sends, at most two items ahead.
    pub(crate) fn from_task<P>(
        client: &Client,
        action: &'static str,
        produce: impl FnOnce(mpsc::Sender<T>, StreamEnd) -> P,
    ) -> Result<Self, Error>
    where
        P: Future<Output = ()> + Send + 'static,
    {
        let end = StreamEnd::default();
        let source = Self::task_source(client, action, |sender| produce(sender, end.clone()))?;
        Ok(Self::new(client.clone(), Self::peekable(source), end))
    }

    /// Returns the source of a stream with a dedicated operation. It ends with the operation, which ends with the client.
    pub(crate) fn task_source<P>(
        client: &Client,
        action: &'static str,
        produce: impl FnOnce(mpsc::Sender<T>) -> P,
    ) -> Result<PollNextFn<T>, Error>
    where
        P: Future<Output = ()> + Send + 'static,
    {
        let (sender, mut receiver) = mpsc::channel(1);
        let produce = produce(sender);
        let discarded = Mailbox::new(|| {});
        discarded.close();
        let operation = client.submit_event(
            action,
            async move {
                produce.await;
                Ok(())
            },
            &discarded,
            drop,
        )?;
        let guard = CancelOnDrop(operation);
        Ok(Box::new(move |context| {
            let _ = &guard;
            receiver.poll_recv(context)
        }))
    }

    /// Returns the source of items that `poll` takes.
    pub(crate) fn peekable(poll: PollNextFn<T>) -> Box<dyn Source<T>> {
        Box::new(PeekableSource {
            poll,
            peeked: Poll::Pending,
        })
    }

    /// Creates a stream. Its source sets `end` before it ends, unless the client was closed.
    pub(crate) fn new(client: Client, source: Box<dyn Source<T>>, end: StreamEnd) -> Self {
        let inner = Arc::new(Inner {
            items: Mutex::new(StreamState {
                source: Some(source),
                buffered: VecDeque::new(),
                offers: 0,
            }),
            wakers: Arc::default(),
            end,
        });
        if let Ok(client) = client.inner() {
            let dependent = Arc::downgrade(&inner);
            client.context.executor.notify_of_failure(dependent);
        }
        Self {
            inner: ProcessBound::new(inner),
            client,
        }
    }

    /// Waits for the next item; returns `None` at the end. Any number of threads may wait.
    pub fn next(&self) -> impl Future<Output = Result<Option<T>, Error>> + Send + 'static + use<T> {
        let inner = self.inner.get().cloned();
        async move { Ok(WaitFuture::new(inner?, |inner| inner.next()).await) }
    }

    /// Waits like [`next`](Self::next), for a consumer that may learn too late that the item is no longer wanted.
    pub fn next_offered(
        &self,
    ) -> impl Future<Output = Result<Option<OfferedItem<T>>, Error>> + Send + 'static + use<T> {
        let inner = self.inner.get().cloned();
        async move { Ok(WaitFuture::new(inner?, Inner::offer).await) }
    }

    /// Waits until [`try_next`](Self::try_next) has an item, and takes none. A consumer that wakes up and takes the items in
    /// one step loses nothing by giving up; another consumer may have been faster.
    pub fn ready(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<T> {
        let inner = self.inner.get().cloned();
        async move {
            WaitFuture::new(inner?, |inner| inner.ready()).await;
            Ok(())
        }
    }

    /// Returns the next item without waiting: ready with `None` at the end, pending if there is no item yet.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn try_next(&self) -> Result<Poll<Option<T>>, Error> {
        Ok(self.inner.get()?.next())
    }

    /// Sets a hook that is called on the runtime's thread. It is called whenever an item may have arrived since
    /// [`try_next`](Self::try_next) found none, and at the end. It must be quick. It is also called once right away.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; [`ErrorKind::InvalidArgument`] while there is another hook, as that of a
    /// [subscription](Client::subscribe).
    pub fn on_ready(&self, hook: impl Fn() + Send + Sync + 'static) -> Result<(), Error> {
        let hook: ReadyHook = Arc::new(hook);
        match &mut *lock(&self.inner.get()?.wakers.hook) {
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    Outcome::NotDone,
                    "following what happens",
                    "a callback or a descriptor follows it already",
                ));
            }
            none => *none = Some(Arc::clone(&hook)),
        }
        hook();
        Ok(())
    }

    /// Removes the hook.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn clear_hook(&self) -> Result<(), Error> {
        let before = lock(&self.inner.get()?.wakers.hook).take();
        drop(before);
        Ok(())
    }

    /// Stops the stream for all consumers: no further item comes, even for those that wait already.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn stop(&self) -> Result<(), Error> {
        let inner = self.inner.get()?;
        let left = {
            let mut items = lock(&inner.items);
            // Promised items are still delivered.
            let kept = items.offers.min(items.buffered.len());
            (items.source.take(), items.buffered.split_off(kept))
        };
        inner.end.set(None, None);
        drop(left);
        Arc::clone(&inner.wakers).wake();
        Ok(())
    }

    /// Returns why there will be no further item, once there was none.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn lost_reason(&self) -> Result<Option<LostReason>, Error> {
        Ok(self.end()?.lost_reason())
    }

    /// Returns the error that ended the stream, once there is no further item. `None` if the client was closed or the stream was
    /// stopped.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn error(&self) -> Result<Option<Error>, Error> {
        Ok(self.end()?.error())
    }

    /// Returns the handle of the end, for use when this stream may be gone.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn end(&self) -> Result<&StreamEnd, Error> {
        Ok(&self.inner.get()?.end)
    }

    /// Returns the client of the stream.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// Ends an operation when it is dropped.
struct CancelOnDrop(Operation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // In a forked child there is nothing to end.
        let _ = self.0.cancel();
    }
}

impl<T> Clone for EventStream<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.share(),
            client: self.client.clone(),
        }
    }
}

impl<T> fmt::Debug for EventStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}
