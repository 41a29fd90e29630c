//! Delivery of events to a callback.
use crate::admission::Permit;
use crate::client::Client;
use crate::dispatcher::Job;
use crate::error::Error;
use crate::feed::Feed;
use crate::mailbox::Mailbox;
use crate::thread;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// Calls in a row, before other callbacks have their turn.
const ROW: usize = 64;

/// A callback that gets each item, and `None` after the last one.
type Callback<T> = Box<dyn FnMut(Option<T>) + Send>;

/// A callback that receives the items of a [`Feed`] on the client's callback thread. Dropping this value does not end the
/// subscription.
///
/// After the last call, the callback is dropped on that thread. The last call has `None`, unless the subscription was cancelled
/// before.
#[derive(Debug)]
pub struct Subscription {
    teller: Arc<dyn Cancel>,
}

impl Client {
    /// Calls a callback with the items of a feed, on the callback thread.
    ///
    /// # Errors
    /// The errors of [`submit`](Self::submit); the callback is dropped on this thread then.
    pub fn subscribe<T: Send + 'static>(
        &self,
        feed: &Feed<T>,
        callback: impl FnMut(Option<T>) + Send + 'static,
    ) -> Result<Subscription, Error> {
        let mailbox = self.callbacks()?;
        let permit = self.permit("subscribing")?;
        Subscription::begin(feed, Box::new(callback), mailbox, permit)
    }
}

impl Subscription {
    fn begin<T: Send + 'static>(
        feed: &Feed<T>,
        callback: Callback<T>,
        mailbox: Arc<Mailbox<Job>>,
        permit: Permit,
    ) -> Result<Self, Error> {
        let teller = Arc::new(Teller {
            feed: feed.clone(),
            callback: Mutex::new(Place::Here(callback, permit)),
            returned: Condvar::new(),
            mailbox,
            is_posted: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        });
        let hooked = Arc::clone(&teller);
        feed.on_ready(move || Arc::clone(&hooked).post())?;
        Ok(Self { teller })
    }

    /// Ends the subscription: a running call is the last one. Does not wait for that call.
    pub fn cancel(&self) {
        Arc::clone(&self.teller).cancel();
    }

    /// Ends the subscription, and waits for a call that runs on another thread. The callback was dropped when this returns,
    /// except if the callback itself calls it.
    pub fn close(&self) {
        self.teller.close();
    }
}

trait Cancel: fmt::Debug + Send + Sync {
    fn cancel(self: Arc<Self>);
    fn close(&self);
}

struct Teller<T> {
    feed: Feed<T>,
    callback: Mutex<Place<T>>,
    /// Notified when the callback no longer runs.
    returned: Condvar,
    mailbox: Arc<Mailbox<Job>>,
    /// A job for it waits in the mailbox, so that there is never more than one.
    is_posted: AtomicBool,
    is_cancelled: AtomicBool,
}

/// Where the callback is.
enum Place<T> {
    Here(Callback<T>, Permit),
    /// On the thread with this number.
    Running(usize),
    Dropped,
}

impl<T: Send + 'static> Teller<T> {
    fn post(self: Arc<Self>) {
        if !self.is_posted.swap(true, Ordering::AcqRel) {
            let mailbox = Arc::clone(&self.mailbox);
            // The mailbox accepts jobs while a callback has its permit.
            let _ = mailbox.post(Box::new(move || self.tell()));
        }
    }

    fn tell(self: Arc<Self>) {
        // A swap and not a store: a thread that found the flag set wrote a value for this call, such as a cancellation. Only a
        // read of the flag makes that write visible here.
        self.is_posted.swap(false, Ordering::AcqRel);
        let Some((mut callback, permit)) = self.take() else {
            return;
        };
        // Even if the callback panics, no thread waits for it forever.
        let _lost = Lost(&self);
        for _ in 0..ROW {
            if self.is_cancelled.load(Ordering::Acquire) {
                return self.end(callback, permit);
            }
            match self.feed.try_next() {
                Ok(Poll::Ready(Some(item))) => callback(Some(item)),
                Ok(Poll::Ready(None)) => {
                    callback(None);
                    return self.end(callback, permit);
                }
                Ok(Poll::Pending) => {
                    self.put_back(callback, permit);
                    return;
                }
                Err(_) => return self.end(callback, permit),
            }
        }
        self.put_back(callback, permit);
        Arc::clone(&self).post();
    }

    /// Takes the callback, to call it without a lock.
    fn take(&self) -> Option<(Callback<T>, Permit)> {
        let mut place = self.place();
        match std::mem::replace(&mut *place, Place::Running(thread::number())) {
            Place::Here(callback, permit) => Some((callback, permit)),
            elsewhere => {
                *place = elsewhere;
                None
            }
        }
    }

    fn put_back(&self, callback: Callback<T>, permit: Permit) {
        *self.place() = Place::Here(callback, permit);
        self.returned.notify_all();
    }

    fn end(&self, callback: Callback<T>, permit: Permit) {
        // A feed that cannot be reached after a fork is not dropped either.
        let _ = self.feed.clear_hook();
        let _ = self.feed.stop();
        drop(callback);
        *self.place() = Place::Dropped;
        self.returned.notify_all();
        drop(permit);
    }
}

impl<T> Teller<T> {
    fn place(&self) -> MutexGuard<'_, Place<T>> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the callback as dropped if it was not put back.
struct Lost<'a, T>(&'a Teller<T>);

impl<T> Drop for Lost<'_, T> {
    fn drop(&mut self) {
        let mut place = self.0.place();
        if matches!(*place, Place::Running(_)) {
            *place = Place::Dropped;
            self.0.returned.notify_all();
        }
    }
}

impl<T: Send + 'static> Cancel for Teller<T> {
    fn cancel(self: Arc<Self>) {
        self.is_cancelled.store(true, Ordering::Release);
        self.post();
    }

    fn close(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        let mut place = self.place();
        loop {
            match *place {
                Place::Here(..) => {
                    drop(place);
                    if let Some((callback, permit)) = self.take() {
                        return self.end(callback, permit);
                    }
                    place = self.place();
                }
                Place::Running(thread) if thread != thread::number() => {
                    let waited = self.returned.wait(place);
                    place = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Place::Running(_) | Place::Dropped => return,
            }
        }
    }
}

impl<T> fmt::Debug for Teller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller")
            .field("is_posted", &self.is_posted)
            .field("is_cancelled", &self.is_cancelled)
            .finish_non_exhaustive()
    }
}
