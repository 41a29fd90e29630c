//! An operation as the executor sees it.
use crate::cause::Cause;
use crate::client_context::ClientContext;
use crate::executor::Resume;
use crate::registry::RegisteredTask;
use crate::thread;
use statestore::CancellationRecorder;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The future of a task, without an output: it delivers its result itself, even when it is dropped early.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that the executor polls.
pub(crate) struct Task {
    progress: Mutex<TaskProgress>,
    /// Whether its result is on its way, or was taken already, while the executor may not have put it away yet.
    is_completed: AtomicBool,
    context: Arc<ClientContext>,
    key: usize,
}

/// The progress of a task.
struct TaskProgress {
    state: TaskState,
    future: Option<TaskFuture>,
    cause: Option<Cause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskState {
    /// The task waits for a wake-up.
    Idle,
    /// The executor will run it.
    Scheduled,
    /// The task is being polled.
    Running,
    /// The task is being polled, and was woken meanwhile.
    Woken,
    /// The future of the task is gone.
    Ended,
}

impl Task {
    /// Creates a task for [scheduling](crate::executor::Executor::schedule). `body` receives the reason handle, which reports
    /// why the task ended.
    pub(crate) fn new(
        context: Arc<ClientContext>,
        place: usize,
        body: impl FnOnce(TaskEndReason) -> Option<TaskFuture>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            progress: Mutex::new(TaskProgress {
                state: TaskState::Scheduled,
                future: body(TaskEndReason(this.clone())),
                cause: None,
            }),
            is_completed: AtomicBool::new(false),
            context,
            key: place,
        })
    }

    fn begin(&self) -> Option<TaskFuture> {
        let mut progress = self.progress();
        if progress.state != TaskState::Scheduled {
            return None;
        }
        progress.state = TaskState::Running;
        progress.future.take()
    }

    /// Ends the task before its future ends; returns whether it was still under way. A task that is being polled right now may
    /// still end with its result.
    pub(crate) fn end(self: &Arc<Self>, cause: Cause) -> bool {
        let mut progress = self.progress();
        if progress.state == TaskState::Ended {
            return false;
        }
        progress.cause.get_or_insert(cause);
        if thread::is_exiting() && !self.context.executor.has_ended() {
            // The cleanup of the future needs a thread that is not exiting.
            drop(progress);
            Arc::clone(self).wake();
            return true;
        }
        let Some(body) = progress.future.take() else {
            // The polling thread drops it.
            return true;
        };
        progress.state = TaskState::Ended;
        drop(progress);
        self.drop_future(body);
        true
    }

    /// Returns whether its future is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_completed.load(Ordering::Acquire) || self.progress().state == TaskState::Ended
    }

    fn drop_future(&self, body: TaskFuture) {
        // The dropped work reports the outcome of its requests.
        let _abandoned = CancellationRecorder::begin();
        let guard = self.context.enter();
        if catch_unwind(AssertUnwindSafe(|| drop(body))).is_err() {
            self.context.record_panic();
        }
        drop(guard);
        self.context.registry.remove(self.key);
    }

    fn progress(&self) -> MutexGuard<'_, TaskProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resume for Task {
    /// Polls it, if it is its turn.
    fn resume(self: Arc<Self>) {
        let Some(mut body) = self.begin() else { return };
        if self.progress().cause == Some(Cause::Cancelled) {
            self.progress().state = TaskState::Ended;
            self.drop_future(body);
            return;
        }
        let waker = Waker::from(Arc::clone(&self));
        let guard = self.context.enter();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            body.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        drop(guard);
        let is_over = match polled {
            Ok(Poll::Ready(())) => true,
            Ok(Poll::Pending) => false,
            Err(_) => {
                let cause = self.context.record_panic();
                self.progress().cause = Some(cause);
                true
            }
        };
        let mut progress = self.progress();
        if is_over || progress.cause.is_some() {
            progress.state = TaskState::Ended;
            drop(progress);
            self.drop_future(body);
            return;
        }
        progress.future = Some(body);
        let is_woken = progress.state == TaskState::Woken;
        progress.state = if is_woken {
            TaskState::Scheduled
        } else {
            TaskState::Idle
        };
        drop(progress);
        if is_woken {
            let context = Arc::clone(&self.context);
            context.executor.schedule(self);
        }
    }

    fn abandon(self: Arc<Self>) {
        let cause = self.context.end_cause();
        self.end(cause);
    }
}

impl RegisteredTask for Task {
    /// Wakes the task for a last poll before it ends, since the future knows best the outcome of its requests.
    fn close(self: Arc<Self>) {
        let cause = self.context.end_cause();
        self.progress().cause.get_or_insert(cause);
        self.wake();
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let is_due = {
            let mut progress = self.progress();
            match progress.state {
                TaskState::Idle => {
                    progress.state = TaskState::Scheduled;
                    true
                }
                TaskState::Running => {
                    progress.state = TaskState::Woken;
                    false
                }
                TaskState::Scheduled | TaskState::Woken | TaskState::Ended => false,
            }
        };
        if is_due {
            let context = Arc::clone(&self.context);
            context.executor.schedule(self);
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = self.progress();
        f.debug_struct("Task")
            .field("stage", &progress.state)
            .field("cause", &progress.cause)
            .finish_non_exhaustive()
    }
}

/// Why a task ended early, for its future.
#[derive(Debug)]
pub(crate) struct TaskEndReason(std::sync::Weak<Task>);

impl TaskEndReason {
    /// Marks the task as ended: its result is posted next.
    pub(crate) fn mark_completed(&self) {
        if let Some(task) = self.0.upgrade() {
            task.is_completed.store(true, Ordering::Release);
        }
    }

    /// Returns why the task ended. A task that no longer exists counts as closed, as when its client is closed.
    pub(crate) fn cause(&self) -> Cause {
        let task = self.0.upgrade();
        let cause = task.and_then(|task| task.progress().cause);
        cause.unwrap_or(Cause::Closed)
    }
}
