//! Delivery of results of operations to their callbacks.
use crate::callback::{Callback, Closure};
use crate::revocable::{Revocable, Revoke};
use statestore_embed::{Error, Job};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The callback of an operation, which is called once.
pub(crate) enum Told<C: Closure, T> {
    Always(Callback<C>),
    Revocable(Arc<Untold<C, T>>),
}

/// A callback that can be revoked, together with the result that it would receive.
pub(crate) struct Untold<C: Closure, T> {
    callback: Arc<Revocable<C>>,
    result: Mutex<Waiting<T>>,
}

/// The result of an operation.
enum Waiting<T> {
    NotYet,
    ToBeTold(Result<T, Error>),
    /// The result was delivered, or is not wanted any more.
    Gone,
}

impl<C: Closure + 'static, T: Send + 'static> Told<C, T> {
    /// Wraps a callback; the second value revokes it, if that is possible.
    pub(crate) fn of(
        callback: Callback<C>,
        can_be_revoked: bool,
    ) -> (Self, Option<Arc<dyn Revoke>>) {
        if !can_be_revoked {
            return (Self::Always(callback), None);
        }
        let untold = Arc::new(Untold {
            callback: Revocable::new(callback),
            result: Mutex::new(Waiting::NotYet),
        });
        (Self::Revocable(Arc::clone(&untold)), Some(untold as _))
    }

    /// Returns the job that delivers a result to the callback.
    pub(crate) fn job(
        self,
        complete: impl FnOnce(&Callback<C>, Result<T, Error>) + Send + 'static,
        result: Result<T, Error>,
    ) -> Job {
        match self {
            Self::Always(callback) => Box::new(move || complete(&callback, result)),
            Self::Revocable(untold) => {
                untold.put(result);
                Box::new(move || untold.tell(complete))
            }
        }
    }
}

impl<C: Closure + 'static, T> Untold<C, T> {
    /// Stores the result until its delivery, unless the callback was revoked.
    fn put(&self, result: Result<T, Error>) {
        let mut waiting = self.result();
        if matches!(*waiting, Waiting::NotYet) {
            *waiting = Waiting::ToBeTold(result);
        } else {
            drop(waiting);
            drop(result);
        }
    }

    fn tell(&self, complete: impl FnOnce(&Callback<C>, Result<T, Error>)) {
        if let Waiting::ToBeTold(result) = self.take() {
            self.callback.call(|callback| complete(callback, result));
            self.callback.revoke();
        }
    }

    fn take(&self) -> Waiting<T> {
        mem::replace(&mut *self.result(), Waiting::Gone)
    }

    fn result(&self) -> MutexGuard<'_, Waiting<T>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Closure + 'static, T: Send> Revoke for Untold<C, T> {
    fn revoke(&self) {
        self.callback.revoke();
        // The result is dropped here and not by the job: the thread that would run the job may be the next to wait for
        // what the result holds.
        drop(self.take());
    }
}
