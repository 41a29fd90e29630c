//! Delivery of events to a callback.
use crate::client::Client;
use crate::dispatcher::Job;
use crate::error::Error;
use crate::event_stream::EventStream;
use crate::mailbox::Mailbox;
use crate::operation_limiter::Permit;
use crate::thread;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// Calls in a row, before other callbacks have their turn.
const CALLS_PER_JOB: usize = 64;

/// A callback that gets each item, and `None` after the last one.
type Callback<T> = Box<dyn FnMut(Option<T>) + Send>;

/// A callback that receives the items of a [`EventStream`] on the client's callback thread. Dropping this value does not end the
/// subscription.
///
/// After the last call, the callback is dropped on that thread. The last call has `None`, unless the subscription was cancelled
/// before.
#[derive(Debug)]
pub struct Subscription {
    delivery: Arc<dyn CancelDelivery>,
}

impl Client {
    /// Calls a callback with the items of a stream, on the callback thread.
    ///
    /// # Errors
    /// The errors of [`submit`](Self::submit); the callback is dropped on this thread then.
    pub fn subscribe<T: Send + 'static>(
        &self,
        stream: &EventStream<T>,
        callback: impl FnMut(Option<T>) + Send + 'static,
    ) -> Result<Subscription, Error> {
        let mailbox = self.callbacks()?;
        let permit = self.permit("subscribing")?;
        Subscription::begin(stream, Box::new(callback), mailbox, permit)
    }
}

impl Subscription {
    fn begin<T: Send + 'static>(
        stream: &EventStream<T>,
        callback: Callback<T>,
        mailbox: Arc<Mailbox<Job>>,
        permit: Permit,
    ) -> Result<Self, Error> {
        let delivery = Arc::new(CallbackDelivery {
            stream: stream.clone(),
            callback: Mutex::new(CallbackState::Idle(callback, permit)),
            returned: Condvar::new(),
            mailbox,
            is_posted: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        });
        let hooked = Arc::clone(&delivery);
        stream.on_ready(move || Arc::clone(&hooked).post())?;
        Ok(Self { delivery })
    }

    /// Ends the subscription: a running call is the last one. Does not wait for that call.
    pub fn cancel(&self) {
        Arc::clone(&self.delivery).cancel();
    }

    /// Ends the subscription, and waits for a call that runs on another thread. The callback was dropped when this returns,
    /// except if the callback itself calls it.
    pub fn close(&self) {
        self.delivery.close();
    }
}

trait CancelDelivery: fmt::Debug + Send + Sync {
    fn cancel(self: Arc<Self>);
    fn close(&self);
}

struct CallbackDelivery<T> {
    stream: EventStream<T>,
    callback: Mutex<CallbackState<T>>,
    /// Notified when the callback no longer runs.
    returned: Condvar,
    mailbox: Arc<Mailbox<Job>>,
    /// A job for it waits in the mailbox, so that there is never more than one.
    is_posted: AtomicBool,
    is_cancelled: AtomicBool,
}

/// Where the callback is.
enum CallbackState<T> {
    Idle(Callback<T>, Permit),
    /// On the thread with this number.
    Running(usize),
    Dropped,
}

impl<T: Send + 'static> CallbackDelivery<T> {
    fn post(self: Arc<Self>) {
        if !self.is_posted.swap(true, Ordering::AcqRel) {
            let mailbox = Arc::clone(&self.mailbox);
            // The mailbox accepts jobs while a callback has its permit.
            let _ = mailbox.post(Box::new(move || self.deliver()));
        }
    }

    fn deliver(self: Arc<Self>) {
        // A swap and not a store: a thread that found the flag set wrote a value for this call, such as a cancellation. Only a
        // read of the flag makes that write visible here.
        self.is_posted.swap(false, Ordering::AcqRel);
        let Some((mut callback, permit)) = self.take() else {
            return;
        };
        // Even if the callback panics, no thread waits for it forever.
        let _lost = DroppedOnPanic(&self);
        for _ in 0..CALLS_PER_JOB {
            if self.is_cancelled.load(Ordering::Acquire) {
                return self.end(callback, permit);
            }
            match self.stream.try_next() {
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
        let mut state = self.lock_state();
        match std::mem::replace(&mut *state, CallbackState::Running(thread::number())) {
            CallbackState::Idle(callback, permit) => Some((callback, permit)),
            other => {
                *state = other;
                None
            }
        }
    }

    fn put_back(&self, callback: Callback<T>, permit: Permit) {
        *self.lock_state() = CallbackState::Idle(callback, permit);
        self.returned.notify_all();
    }

    fn end(&self, callback: Callback<T>, permit: Permit) {
        // A stream that cannot be reached after a fork is not dropped either.
        let _ = self.stream.clear_hook();
        let _ = self.stream.stop();
        drop(callback);
        *self.lock_state() = CallbackState::Dropped;
        self.returned.notify_all();
        drop(permit);
    }
}

impl<T> CallbackDelivery<T> {
    fn lock_state(&self) -> MutexGuard<'_, CallbackState<T>> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the callback as dropped if it was not put back.
struct DroppedOnPanic<'a, T>(&'a CallbackDelivery<T>);

impl<T> Drop for DroppedOnPanic<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock_state();
        if matches!(*state, CallbackState::Running(_)) {
            *state = CallbackState::Dropped;
            self.0.returned.notify_all();
        }
    }
}

impl<T: Send + 'static> CancelDelivery for CallbackDelivery<T> {
    fn cancel(self: Arc<Self>) {
        self.is_cancelled.store(true, Ordering::Release);
        self.post();
    }

    fn close(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        let mut state = self.lock_state();
        loop {
            match *state {
                CallbackState::Idle(..) => {
                    drop(state);
                    if let Some((callback, permit)) = self.take() {
                        return self.end(callback, permit);
                    }
                    state = self.lock_state();
                }
                CallbackState::Running(thread) if thread != thread::number() => {
                    let waited = self.returned.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
                CallbackState::Running(_) | CallbackState::Dropped => return,
            }
        }
    }
}

impl<T> fmt::Debug for CallbackDelivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackDelivery")
            .field("is_posted", &self.is_posted)
            .field("is_cancelled", &self.is_cancelled)
            .finish_non_exhaustive()
    }
}
