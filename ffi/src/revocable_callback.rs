//! Callbacks that can be revoked.
use crate::callback::{Callback, Closure};
use statestore_embed::thread_number;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A callback that is called now and then, by one thread at a time, until it is revoked.
pub(crate) struct RevocableCallback<C: Closure> {
    state: Mutex<CallbackState<C>>,
    /// Notified when a call has ended.
    returned: Condvar,
}

/// The place of the callback.
enum CallbackState<C: Closure> {
    Idle(Callback<C>),
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

impl<C: Closure> RevocableCallback<C> {
    pub(crate) fn new(callback: Callback<C>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(CallbackState::Idle(callback)),
            returned: Condvar::new(),
        })
    }

    /// Calls the callback without a lock, unless it was revoked.
    pub(crate) fn call<R>(&self, call: impl FnOnce(&Callback<C>) -> R) -> Option<R> {
        let running = RunningCall {
            owner: self,
            callback: self.take(),
        };
        running.callback.as_ref().map(call)
    }

    fn take(&self) -> Option<Callback<C>> {
        let mut place = self.lock_state();
        match mem::replace(&mut *place, CallbackState::Running(thread_number())) {
            CallbackState::Idle(callback) => Some(callback),
            elsewhere => {
                *place = elsewhere;
                None
            }
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, CallbackState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Closure + 'static> Revoke for RevocableCallback<C>
where
    C::Call: 'static,
{
    fn revoke(&self) {
        let mut place = self.lock_state();
        loop {
            match *place {
                CallbackState::Idle(_) => {
                    // Until the context was dropped, others wait as for a call.
                    let callback =
                        mem::replace(&mut *place, CallbackState::Revoked(thread_number()));
                    drop(place);
                    drop(callback);
                    *self.lock_state() = CallbackState::Dropped;
                    self.returned.notify_all();
                    return;
                }
                CallbackState::Running(thread) | CallbackState::Revoked(thread) => {
                    *place = CallbackState::Revoked(thread);
                    if thread == thread_number() {
                        return;
                    }
                    let waited = self.returned.wait(place);
                    place = waited.unwrap_or_else(PoisonError::into_inner);
                }
                CallbackState::Dropped => return,
            }
        }
    }
}

/// A callback that runs. At the end, also by a panic, it is put back, or dropped if it was revoked.
struct RunningCall<'a, C: Closure> {
    owner: &'a RevocableCallback<C>,
    /// The callback; `None` if it was not in its place.
    callback: Option<Callback<C>>,
}

impl<C: Closure> Drop for RunningCall<'_, C> {
    fn drop(&mut self) {
        let Some(callback) = self.callback.take() else {
            return;
        };
        let mut place = self.owner.lock_state();
        if matches!(*place, CallbackState::Running(_)) {
            *place = CallbackState::Idle(callback);
        } else {
            drop(place);
            drop(callback);
            *self.owner.lock_state() = CallbackState::Dropped;
        }
        self.owner.returned.notify_all();
    }
}
