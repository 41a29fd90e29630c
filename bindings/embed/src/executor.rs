//! Runs operations on the thread that drives the runtime, many at a time.
use crate::batch;
use crate::sync::{Mutex, MutexGuard};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

/// A task that can make progress. It is [scheduled](Executor::schedule) again each time that it can.
pub(crate) trait Resume: fmt::Debug + Send + Sync {
    /// Makes progress, on the thread that drives the runtime.
    fn resume(self: Arc<Self>);

    /// Ends the task without progress, because the runtime has ended.
    fn abandon(self: Arc<Self>);
}

/// A future that stores its output itself, so that the waiting code is compiled only once for all types.
pub(crate) type Poller<'a> = dyn FnMut(&mut Context<'_>) -> Poll<()> + 'a;

/// The operations that can make progress. One task of the runtime runs them all in a batch, which is cheaper than a task for
/// each.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    ready: Mutex<Ready>,
}

#[derive(Debug, Default)]
struct Ready {
    tasks: Vec<Arc<dyn Resume>>,
    /// Present while the executor sleeps.
    waker: Option<Waker>,
    /// Whether the running thread is to leave the runtime to another one.
    is_asked: bool,
    is_stopping: bool,
    has_ended: bool,
}

/// Why the executor runs no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Another thread asked to continue.
    Asked,
    /// The executor was stopped.
    Stopped,
}

impl Executor {
    /// Schedules a task to make progress. After the end of the runtime, the task is abandoned instead.
    pub(crate) fn schedule(&self, task: Arc<dyn Resume>) {
        let waker = {
            let mut ready = self.ready();
            if ready.has_ended {
                drop(ready);
                task.abandon();
                return;
            }
            ready.tasks.push(task);
            ready.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Lets [`run`](Self::run) return.
    pub(crate) fn stop(&self) {
        let waker = {
            let mut ready = self.ready();
            ready.is_stopping = true;
            ready.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns whether the executor was stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        self.ready().is_stopping
    }

    /// Returns whether the executor has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ready().has_ended
    }

    /// Lets [`run`](Self::run) return, so that another thread can continue.
    pub(crate) fn ask(&self) {
        let waker = {
            let mut ready = self.ready();
            ready.is_asked = true;
            ready.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Sets the waker for the time in which no thread runs the executor. Returns whether it has work already.
    pub(crate) fn rest(&self, waker: Waker) -> bool {
        let mut ready = self.ready();
        let is_busy = ready.is_stopping || !ready.tasks.is_empty();
        ready.waker = (!is_busy).then_some(waker);
        is_busy
    }

    /// Runs tasks until it is stopped, or asked to leave that to another thread.
    pub(crate) async fn run(&self) -> Leave {
        let mut tasks = Vec::new();
        let mut is_last = false;
        poll_fn(|context| {
            {
                let mut ready = self.ready();
                // Tasks that were ready at the stop run before it ends.
                if ready.is_stopping && (is_last || ready.tasks.is_empty()) {
                    return Poll::Ready(Leave::Stopped);
                }
                is_last = ready.is_stopping;
                if std::mem::take(&mut ready.is_asked) {
                    return Poll::Ready(Leave::Asked);
                }
                if ready.tasks.is_empty() {
                    match &mut ready.waker {
                        Some(waker) => waker.clone_from(context.waker()),
                        none => *none = Some(context.waker().clone()),
                    }
                    return Poll::Pending;
                }
                std::mem::swap(&mut ready.tasks, &mut tasks);
            }
            batch::run(|| tasks.drain(..).for_each(Resume::resume));
            // Other tasks first: tasks that became ready meanwhile are the next batch.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Runs tasks until `poll` is ready, whose result it returns, or until another thread is to continue.
    pub(crate) async fn run_until(&self, poll: &mut Poller<'_>) -> Poll<()> {
        let mut leave = pin!(self.run());
        poll_fn(|context| {
            if poll(context).is_ready() {
                return Poll::Ready(Poll::Ready(()));
            }
            leave.as_mut().poll(context).map(|_| Poll::Pending)
        })
        .await
    }

    /// Abandons the remaining tasks, after the runtime has ended.
    pub(crate) fn end(&self) {
        let tasks = {
            let mut ready = self.ready();
            ready.has_ended = true;
            std::mem::take(&mut ready.tasks)
        };
        tasks.into_iter().for_each(Resume::abandon);
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
