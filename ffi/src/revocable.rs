//! Callbacks that can be taken back.
use crate::callback::{Callback, Closure};
use statestore_embed::thread_number;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A callback that is called now and then, by one thread at a time, until somebody takes it back.
pub(crate) struct Revocable<C: Closure> {
    place: Mutex<Place<C>>,
    /// It does not run any more.
    returned: Condvar,
}

/// Where the callback is.
enum Place<C: Closure> {
    Here(Callback<C>),
    /// On the thread with this number.
    Running(usize),
    /// The same, and it was taken back meanwhile.
    Revoked(usize),
    Dropped,
}

/// A callback of any type that can be taken back.
pub(crate) trait Revoke: Send + Sync {
    /// Waits for a call that runs on another thread, and lets no other follow: the context was dropped when this returns. In the
    /// call itself it is dropped when that has returned.
    fn revoke(&self);
}

impl<C: Closure> Revocable<C> {
    pub(crate) fn new(callback: Callback<C>) -> Arc<Self> {
        Arc::new(Self {
            place: Mutex::new(Place::Here(callback)),
            returned: Condvar::new(),
        })
    }

    /// Has it called under no lock, unless it was taken back.
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
                    // Until its context was dropped, others wait as for a call.
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

/// A callback that runs. In the end, also by a panic, it is put back, or dropped if it was taken back.
struct Running<'a, C: Closure> {
    of: &'a Revocable<C>,
    /// None if it was not there.
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
