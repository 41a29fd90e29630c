//! Runs operations on the thread that drives the runtime, many at a time.
use crate::batch;
use crate::sync::{Mutex, MutexGuard};
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// A task that can make progress. It is [scheduled](Executor::schedule) again each time that it can.
pub(crate) trait Resume: fmt::Debug + Send + Sync {
    /// Makes progress, on the thread that drives the runtime.
    fn resume(self: Arc<Self>);

    /// Ends the task without progress, because the runtime has ended.
    fn abandon(self: Arc<Self>);
}

/// Part of a client that depends on the runtime.
pub(crate) trait Dependent: Send + Sync {
    /// Ends without the runtime, which no thread can drive any more.
    fn runtime_failed(&self);
}

/// Number of dependents from which on the list is searched for those that are gone.
const FEW_DEPENDENTS: usize = 64;

/// A future that stores its output itself, so that the waiting code is compiled only once for all types.
pub(crate) type Poller<'a> = dyn FnMut(&mut Context<'_>) -> Poll<()> + 'a;

/// The operations that can make progress. One task of the runtime runs them all in a batch, which is cheaper than a task for
/// each.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    ready: Mutex<ReadyQueue>,
}

/// State of the runtime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Lifecycle {
    #[default]
    Running,
    /// The runtime was stopped, and no thread drives it any more.
    Ended,
    /// No thread can drive the runtime or wake it any more.
    Failed,
}

#[derive(Default)]
struct ReadyQueue {
    tasks: Vec<Arc<dyn Resume>>,
    /// Present while the executor sleeps.
    waker: Option<Waker>,
    /// Whether the running thread is to leave the runtime to another one.
    is_handoff_requested: bool,
    is_stopping: bool,
    lifecycle: Lifecycle,
    dependents: Vec<Weak<dyn Dependent>>,
    /// Length of the list at which it is searched next.
    most_dependents: usize,
}

impl fmt::Debug for ReadyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyQueue")
            .field("tasks", &self.tasks)
            .field("is_asked", &self.is_handoff_requested)
            .field("is_stopping", &self.is_stopping)
            .field("lifecycle", &self.lifecycle)
            .finish_non_exhaustive()
    }
}

/// Why the executor runs no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// Another thread asked to continue.
    HandoffRequested,
    /// The executor was stopped.
    Stopped,
    /// The runtime failed.
    Failed,
}

impl Executor {
    /// Schedules a task to make progress. After the end of the runtime, the task is abandoned instead.
    pub(crate) fn schedule(&self, task: Arc<dyn Resume>) {
        let waker = {
            let mut ready = self.ready();
            if ready.lifecycle != Lifecycle::Running {
                drop(ready);
                task.abandon();
                return;
            }
            ready.tasks.push(task);
            ready.waker.take()
        };
        self.wake(waker);
    }

    /// Lets [`run`](Self::run) return.
    pub(crate) fn stop(&self) {
        let waker = {
            let mut ready = self.ready();
            ready.is_stopping = true;
            ready.waker.take()
        };
        self.wake(waker);
    }

    /// Wakes the thread that drives the runtime. The runtime fails if it cannot be woken.
    fn wake(&self, waker: Option<Waker>) {
        if let Some(waker) = waker
            && catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err()
        {
            self.fail();
        }
    }

    /// Returns whether the executor was stopped, or its runtime failed.
    pub(crate) fn is_stopping(&self) -> bool {
        let ready = self.ready();
        ready.is_stopping || ready.lifecycle == Lifecycle::Failed
    }

    /// Returns whether the runtime failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.ready().lifecycle == Lifecycle::Failed
    }

    /// Notifies a dependent if the runtime fails, or at once if it did.
    pub(crate) fn notify_of_failure(&self, dependent: Weak<dyn Dependent>) {
        let mut ready = self.ready();
        if ready.lifecycle != Lifecycle::Failed {
            if ready.dependents.len() >= ready.most_dependents.max(FEW_DEPENDENTS) {
                ready.dependents.retain(|other| other.strong_count() > 0);
                ready.most_dependents = 2 * ready.dependents.len();
            }
            ready.dependents.push(dependent);
            return;
        }
        drop(ready);
        notify(&[dependent]);
    }

    /// Ends all tasks and dependents, because the runtime cannot be driven or woken any more.
    pub(crate) fn fail(&self) {
        let (tasks, dependents, waker) = {
            let mut ready = self.ready();
            if ready.lifecycle != Lifecycle::Running {
                return;
            }
            ready.lifecycle = Lifecycle::Failed;
            (
                std::mem::take(&mut ready.tasks),
                std::mem::take(&mut ready.dependents),
                ready.waker.take(),
            )
        };
        // If the thread that drives awakes by itself, it finds that it was woken, and leaves the runtime.
        self.wake(waker);
        notify(&dependents);
        tasks.into_iter().for_each(Resume::abandon);
    }

    /// Returns whether the executor has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ready().lifecycle != Lifecycle::Running
    }

    /// Lets [`run`](Self::run) return, so that another thread can continue.
    pub(crate) fn request_handoff(&self) {
        let waker = {
            let mut ready = self.ready();
            ready.is_handoff_requested = true;
            ready.waker.take()
        };
        self.wake(waker);
    }

    /// Sets the waker for the time in which no thread runs the executor. Returns whether it has work already.
    pub(crate) fn park(&self, waker: Waker) -> bool {
        let mut ready = self.ready();
        let is_busy = ready.is_stopping || !ready.tasks.is_empty();
        ready.waker = (!is_busy).then_some(waker);
        is_busy
    }

    /// Runs tasks until it is stopped, or asked to leave that to another thread.
    pub(crate) async fn run(&self) -> ExitReason {
        let mut tasks = Vec::new();
        let mut is_last = false;
        poll_fn(|context| {
            {
                let mut ready = self.ready();
                if ready.lifecycle == Lifecycle::Failed {
                    return Poll::Ready(ExitReason::Failed);
                }
                // Tasks that were ready at the stop run before it ends.
                if ready.is_stopping && (is_last || ready.tasks.is_empty()) {
                    return Poll::Ready(ExitReason::Stopped);
                }
                is_last = ready.is_stopping;
                if std::mem::take(&mut ready.is_handoff_requested) {
                    return Poll::Ready(ExitReason::HandoffRequested);
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
    pub(crate) fn abandon_remaining(&self) {
        let tasks = {
            let mut ready = self.ready();
            if ready.lifecycle == Lifecycle::Running {
                ready.lifecycle = Lifecycle::Ended;
            }
            std::mem::take(&mut ready.tasks)
        };
        tasks.into_iter().for_each(Resume::abandon);
    }

    fn ready(&self) -> MutexGuard<'_, ReadyQueue> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn notify(dependents: &[Weak<dyn Dependent>]) {
    for dependent in dependents.iter().filter_map(Weak::upgrade) {
        // A dependent drops objects of the runtime, which may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| dependent.runtime_failed()));
    }
}
