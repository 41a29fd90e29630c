//! Delivery of results of operations to their callbacks.
use crate::callback::{Callback, Closure};
use crate::revocable_callback::{RevocableCallback, Revoke};
use statestore_embed::{Error, Job};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The callback of an operation, which is called once.
pub(crate) enum CompletionCallback<C: Closure, T> {
    Plain(Callback<C>),
    Revocable(Arc<RevocableCompletion<C, T>>),
}

/// A callback that can be revoked, together with the result that it would receive.
pub(crate) struct RevocableCompletion<C: Closure, T> {
    callback: Arc<RevocableCallback<C>>,
    result: Mutex<PendingResult<T>>,
}

/// The result of an operation.
enum PendingResult<T> {
    Pending,
    Ready(Result<T, Error>),
    /// The result was delivered, or is not wanted any more.
    Taken,
}

impl<C: Closure + 'static, T: Send + 'static> CompletionCallback<C, T> {
    /// Wraps a callback; the second value revokes it, if that is possible.
    pub(crate) fn wrap(
        callback: Callback<C>,
        can_be_revoked: bool,
    ) -> (Self, Option<Arc<dyn Revoke>>) {
        if !can_be_revoked {
            return (Self::Plain(callback), None);
        }
        let revocable = Arc::new(RevocableCompletion {
            callback: RevocableCallback::new(callback),
            result: Mutex::new(PendingResult::Pending),
        });
        (
            Self::Revocable(Arc::clone(&revocable)),
            Some(revocable as _),
        )
    }

    /// Returns the job that delivers a result to the callback.
    pub(crate) fn into_job(
        self,
        complete: impl FnOnce(&Callback<C>, Result<T, Error>) + Send + 'static,
        result: Result<T, Error>,
    ) -> Job {
        match self {
            Self::Plain(callback) => Box::new(move || complete(&callback, result)),
            Self::Revocable(revocable) => {
                revocable.set_result(result);
                Box::new(move || revocable.deliver(complete))
            }
        }
    }
}

impl<C: Closure + 'static, T> RevocableCompletion<C, T> {
    /// Stores the result until its delivery, unless the callback was revoked.
    fn set_result(&self, result: Result<T, Error>) {
        let mut waiting = self.result();
        if matches!(*waiting, PendingResult::Pending) {
            *waiting = PendingResult::Ready(result);
        } else {
            drop(waiting);
            drop(result);
        }
    }

    fn deliver(&self, complete: impl FnOnce(&Callback<C>, Result<T, Error>)) {
        if let PendingResult::Ready(result) = self.take() {
            self.callback.call(|callback| complete(callback, result));
            self.callback.revoke();
        }
    }

    fn take(&self) -> PendingResult<T> {
        mem::replace(&mut *self.result(), PendingResult::Taken)
    }

    fn result(&self) -> MutexGuard<'_, PendingResult<T>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Closure + 'static, T: Send> Revoke for RevocableCompletion<C, T> {
    fn revoke(&self) {
        self.callback.revoke();
        // The result is dropped here and not by the job: the thread that would run the job may be the next to wait for
        // what the result holds.
        drop(self.take());
    }
}
