//! Things that happen one after the other, to be waited for, looked for, or told.
use crate::client::Client;
use crate::held::Held;
use crate::mailbox::Mailbox;
use crate::operation::Operation;
use statestore::{Error, ErrorKind, Outcome};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::mpsc;

/// Where a feed gets its items from. It may be polled on any thread, and has no work to do in between.
pub(crate) type Source<T> = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<T>> + Send>;

/// A bounded stream of what happened: observations of a key, states of a connection, holders of a lease.
///
/// Clones share it, and each item goes to one of them. Dropping the last ends it at its origin.
pub struct Feed<T> {
    inner: Held<Arc<Inner<T>>>,
    client: Client,
}

struct Inner<T> {
    /// `None` once it was stopped.
    source: Mutex<Option<Source<T>>>,
    alarm: Arc<Alarm>,
    reason: Reason,
}

/// Why a feed ended, if it was not closed.
pub(crate) type Reason = Arc<OnceLock<Error>>;

/// How a [`Feed`] ends. It keeps neither the feed nor the client.
#[derive(Debug)]
pub struct End(Result<Reason, Box<Error>>);

impl End {
    /// As [`Feed::error`], with its error as the reason.
    pub fn error(&self) -> Option<Error> {
        match &self.0 {
            Ok(reason) => reason.get().cloned(),
            Err(error) => Some((**error).clone()),
        }
    }
}

/// Wakes all who wait for the same source.
#[derive(Default)]
struct Alarm {
    waiting: Mutex<Vec<Waker>>,
    hook: Mutex<Option<ReadyHook>>,
}

type ReadyHook = Arc<dyn Fn() + Send + Sync>;

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().for_each(Waker::wake);
        let hook = lock(&self.hook).clone();
        if let Some(hook) = hook {
            hook();
        }
    }
}

impl<T> Inner<T> {
    fn poll(&self) -> Poll<Option<T>> {
        let waker = Waker::from(Arc::clone(&self.alarm));
        let mut source = lock(&self.source);
        match &mut *source {
            Some(poll) => poll(&mut Context::from_waker(&waker)),
            None => Poll::Ready(None),
        }
    }
}

/// Waits for the next item.
struct Next<T> {
    inner: Arc<Inner<T>>,
    /// Present while it is in the list of those who wait.
    waker: Option<Waker>,
}

impl<T> Next<T> {
    fn forget(&mut self) {
        if let Some(mine) = self.waker.take() {
            lock(&self.inner.alarm.waiting).retain(|waker| !waker.will_wake(&mine));
        }
    }
}

impl<T> Future for Next<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.forget();
        self.waker = Some(context.waker().clone());
        lock(&self.inner.alarm.waiting).push(context.waker().clone());
        let polled = self.inner.poll();
        if polled.is_ready() {
            self.forget();
        }
        polled
    }
}

impl<T> Drop for Next<T> {
    fn drop(&mut self) {
        self.forget();
    }
}

impl<T: Send + 'static> Feed<T> {
    /// A feed of what an operation of its own sends, two items ahead at most.
    pub(crate) fn pumped<P>(
        client: &Client,
        action: &'static str,
        pump: impl FnOnce(mpsc::Sender<T>) -> P,
    ) -> Result<Self, Error>
    where
        P: Future<Output = ()> + Send + 'static,
    {
        Ok(Self::new(client.clone(), Self::pump(client, action, pump)?))
    }

    /// The source of such a feed. It ends with the operation, which ends with the client.
    pub(crate) fn pump<P>(
        client: &Client,
        action: &'static str,
        pump: impl FnOnce(mpsc::Sender<T>) -> P,
    ) -> Result<Source<T>, Error>
    where
        P: Future<Output = ()> + Send + 'static,
    {
        let (sender, mut receiver) = mpsc::channel(1);
        let pump = pump(sender);
        let nobody = Mailbox::new(|| {});
        nobody.close();
        let operation = client.submit(
            action,
            async move {
                pump.await;
                Ok(())
            },
            &nobody,
            drop,
        )?;
        let guard = EndsWithIt(operation);
        Ok(Box::new(move |context| {
            let _ = &guard;
            receiver.poll_recv(context)
        }))
    }

    pub(crate) fn new(client: Client, source: Source<T>) -> Self {
        Self::with_reason(client, source, Reason::default())
    }

    /// A feed whose source sets the reason before it ends.
    pub(crate) fn with_reason(client: Client, source: Source<T>, reason: Reason) -> Self {
        Self {
            inner: Held::new(Arc::new(Inner {
                source: Mutex::new(Some(source)),
                alarm: Arc::default(),
                reason,
            })),
            client,
        }
    }

    /// The next item; `None` when there will be none any more. Any number of threads may wait.
    pub fn next(&self) -> impl Future<Output = Result<Option<T>, Error>> + Send + 'static + use<T> {
        let inner = self.inner.get().cloned();
        async move {
            let next = Next {
                inner: inner?,
                waker: None,
            };
            Ok(next.await)
        }
    }

    /// The next item if there is one now: ready with `None` at the end, pending if nothing happened yet.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn try_next(&self) -> Result<Poll<Option<T>>, Error> {
        Ok(self.inner.get()?.poll())
    }

    /// Has a hook called, on the runtime's thread, whenever something may have happened since [`try_next`](Self::try_next)
    /// found nothing, and at the end. It must be quick. It is called once right away.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; [`ErrorKind::InvalidArgument`] while there is another hook, as that of a
    /// [subscription](Client::subscribe).
    pub fn on_ready(&self, hook: impl Fn() + Send + Sync + 'static) -> Result<(), Error> {
        let hook: ReadyHook = Arc::new(hook);
        match &mut *lock(&self.inner.get()?.alarm.hook) {
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

    /// Calls no hook any more.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn clear_hook(&self) -> Result<(), Error> {
        let before = lock(&self.inner.get()?.alarm.hook).take();
        drop(before);
        Ok(())
    }

    /// Ends it for everybody: there is no further item, also for those who wait already.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn stop(&self) -> Result<(), Error> {
        let inner = self.inner.get()?;
        let source = lock(&inner.source).take();
        drop(source);
        Arc::clone(&inner.alarm).wake();
        Ok(())
    }

    /// Why there will be no further item, once there was none; `None` if the client was closed or this was stopped.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn error(&self) -> Result<Option<Error>, Error> {
        Ok(self.inner.get()?.reason.get().cloned())
    }

    /// The same, to be asked when this is not there any more.
    pub fn end(&self) -> End {
        let reason = self.inner.get().map(|inner| Arc::clone(&inner.reason));
        End(reason.map_err(Box::new))
    }

    /// The client it belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// Ends an operation when it is dropped.
struct EndsWithIt(Operation);

impl Drop for EndsWithIt {
    fn drop(&mut self) {
        // In a forked child there is nothing to end.
        let _ = self.0.cancel();
    }
}

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.share(),
            client: self.client.clone(),
        }
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
