//! Callbacks that can be revoked.
use crate::callback::{Callback, Closure};
use statestore_embed::thread_number;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A callback that is called now and then, by one thread at a time, until it is revoked.
pub(crate) struct Revocable<C: Closure> {
    place: Mutex<Place<C>>,
    /// Notified when a call has ended.
    returned: Condvar,
}

/// The place of the callback.
enum Place<C: Closure> {
    Here(Callback<C>),
    /// Running on the thread with this number.
    Running(usize),
    /// Running on the thread with this number, and revoked meanwhile.
    Revoked(usize),
    Dropped,
}

/// A callback of any type that can be revoked.
pub(crate) trait Revoke: Send + Sync {
    /// Prevents further calls and waits for a call that runs on another thread. The context was dropped when this
    /// returns. In the call itself the context is dropped when the call has returned.
    fn revoke(&self);
}

impl<C: Closure> Revocable<C> {
    pub(crate) fn new(callback: Callback<C>) -> Arc<Self> {
        Arc::new(Self {
            place: Mutex::new(Place::Here(callback)),
            returned: Condvar::new(),
        })
    }

    /// Calls the callback without a lock, unless it was revoked.
    pub(crate) fn call<R>(&self, call: impl FnOnce(&Callback<C>) -> R) -> Option<R> {
        let running = Running {
            of: self,
            callback: self.take(),
        };
        running.callback.as_ref().map(call)
    }

    fn take(&self) -> Option<Callback<C>> {
        let mut place = self.place();
        match mem::replace(&mut *place, Place::Running(thread_number())) {
            Place::Here(callback) => Some(callback),
            elsewhere => {
                *place = elsewhere;
                None
            }
        }
    }

    fn place(&self) -> MutexGuard<'_, Place<C>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Closure + 'static> Revoke for Revocable<C>
where
    C::Call: 'static,
{
    fn revoke(&self) {
        let mut place = self.place();
        loop {
            match *place {
                Place::Here(_) => {
                    // Until the context was dropped, others wait as for a call.
                    let callback = mem::replace(&mut *place, Place::Revoked(thread_number()));
                    drop(place);
                    drop(callback);
                    *self.place() = Place::Dropped;
                    self.returned.notify_all();
                    return;
                }
                Place::Running(thread) | Place::Revoked(thread) => {
                    *place = Place::Revoked(thread);
                    if thread == thread_number() {
                        return;
                    }
                    let waited = self.returned.wait(place);
                    place = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Place::Dropped => return,
            }
        }
    }
}

/// A callback that runs. At the end, also by a panic, it is put back, or dropped if it was revoked.
struct Running<'a, C: Closure> {
    of: &'a Revocable<C>,
    /// The callback; `None` if it was not in its place.
    callback: Option<Callback<C>>,
}

impl<C: Closure> Drop for Running<'_, C> {
    fn drop(&mut self) {
        let Some(callback) = self.callback.take() else {
            return;
        };
        let mut place = self.of.place();
        if matches!(*place, Place::Running(_)) {
            *place = Place::Here(callback);
        } else {
            drop(place);
            drop(callback);
            *self.of.place() = Place::Dropped;
        }
        self.of.returned.notify_all();
    }
}
