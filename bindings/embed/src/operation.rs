//! Operations under way.
use crate::cause::Cause;
use crate::client_context::ClientContext;
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::operation_limiter::Permit;
use crate::process::ProcessBound;
use crate::registry::OperationKind;
use crate::task::{Task, TaskEndReason, TaskFuture};
use statestore::{CancellationRecorder, Outcome};
use std::sync::Arc;

/// An operation that was [submitted](crate::Client::submit). Dropping this does not end it.
#[derive(Debug)]
pub struct Operation {
    task: ProcessBound<Arc<Task>>,
}

impl Operation {
    /// Begins an operation; `body` is called once to create its future.
    pub(crate) fn begin(
        context: &Arc<ClientContext>,
        kind: OperationKind,
        body: impl FnOnce(TaskEndReason) -> Option<TaskFuture>,
    ) -> Self {
        let task = context
            .registry
            .register(kind, |index| Task::new(Arc::clone(context), index, body));
        context.executor.schedule(Arc::clone(&task) as _);
        if context.registry.has_ended() {
            task.end(Cause::Closed);
        }
        Self {
            task: ProcessBound::new(task),
        }
    }

    /// Cancels the operation; returns whether it was still under way. It then ends with [`crate::ErrorKind::Cancelled`], or
    /// with a result that arrives at the same moment. A sent request is not taken back; the outcome in the error says whether
    /// the store may carry it out.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Forked`].
    pub fn cancel(&self) -> Result<bool, Error> {
        Ok(self.task.get()?.end(Cause::Cancelled))
    }

    /// Returns whether it has ended, and its result is or was in its mailbox.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Forked`].
    pub fn has_ended(&self) -> Result<bool, Error> {
        Ok(self.task.get()?.has_ended())
    }
}

/// Returns the body of an operation. It posts the converted result of `future` exactly once, even if it is dropped early.
pub(crate) fn task_future<T, M>(
    action: &'static str,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    mailbox: Arc<Mailbox<M>>,
    complete: impl FnOnce(Result<T, Error>) -> M + Send + 'static,
    permit: Permit,
    reason: TaskEndReason,
) -> TaskFuture
where
    T: Send + 'static,
    M: Send + 'static,
{
    let end = CompletionGuard::new(action, mailbox, complete, permit, reason, false);
    end.into_future(future)
}

/// Creates the task of a future that releases or closes an object, and continues in the background if it is dropped.
pub(crate) fn release_future<T, M>(
    action: &'static str,
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    mailbox: Arc<Mailbox<M>>,
    complete: impl FnOnce(Result<T, Error>) -> M + Send + 'static,
    permit: Permit,
    reason: TaskEndReason,
) -> TaskFuture
where
    T: Send + 'static,
    M: Send + 'static,
{
    let end = CompletionGuard::new(action, mailbox, complete, permit, reason, true);
    end.into_future(future)
}

struct CompletionGuard<T, M, C: FnOnce(Result<T, Error>) -> M> {
    action: &'static str,
    /// Present until it is completed.
    completion: Option<(Arc<Mailbox<M>>, C, Permit)>,
    /// Whether it was polled, or has an effect even without a poll.
    has_begun: bool,
    reason: TaskEndReason,
    result: std::marker::PhantomData<fn(T)>,
}

impl<T, M, C: FnOnce(Result<T, Error>) -> M> CompletionGuard<T, M, C> {
    fn new(
        action: &'static str,
        mailbox: Arc<Mailbox<M>>,
        complete: C,
        permit: Permit,
        reason: TaskEndReason,
        has_begun: bool,
    ) -> Self {
        Self {
            action,
            completion: Some((mailbox, complete, permit)),
            has_begun,
            reason,
            result: std::marker::PhantomData,
        }
    }

    fn into_future(
        mut self,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> TaskFuture
    where
        T: Send + 'static,
        M: Send + 'static,
        C: Send + 'static,
    {
        Box::pin(async move {
            self.has_begun = true;
            let result = future.await;
            self.complete(result);
        })
    }

    fn complete(&mut self, result: Result<T, Error>) {
        if let Some((mailbox, complete, permit)) = self.completion.take() {
            self.reason.mark_completed();
            // A closed mailbox accepts no results.
            let _ = mailbox.post_with(complete(result), Some(permit));
        }
    }
}

impl<T, M, C: FnOnce(Result<T, Error>) -> M> Drop for CompletionGuard<T, M, C> {
    fn drop(&mut self) {
        if self.completion.is_some() {
            // A future that panics is dropped before the cause can be recorded.
            let cause = if std::thread::panicking() {
                Cause::Panicked
            } else {
                self.reason.cause()
            };
            // The future was dropped before, and recorded the outcome of its requests.
            let outcome = match CancellationRecorder::recorded() {
                Some(outcome) => outcome,
                None if self.has_begun => Outcome::Unknown,
                None => Outcome::NotDone,
            };
            let error = cause.error(self.action, outcome);
            self.complete(Err(error));
        }
    }
}
