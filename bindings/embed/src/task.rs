//! An operation as the executor sees it.
use crate::cause::Cause;
use crate::executor::Resume;
use crate::home::Home;
use crate::registry::Underway;
use crate::thread;
use statestore::Abandoned;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The future of a task, without an output: it delivers its result itself, even when it is dropped early.
pub(crate) type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that the executor polls.
pub(crate) struct Task {
    progress: Mutex<Progress>,
    /// Whether its result is on its way, or was taken already, while the executor may not have put it away yet.
    is_told: AtomicBool,
    home: Arc<Home>,
    place: usize,
}

/// The progress of a task.
struct Progress {
    stage: Stage,
    body: Option<Body>,
    cause: Option<Cause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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
        home: Arc<Home>,
        place: usize,
        body: impl FnOnce(Reason) -> Option<Body>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            progress: Mutex::new(Progress {
                stage: Stage::Scheduled,
                body: body(Reason(this.clone())),
                cause: None,
            }),
            is_told: AtomicBool::new(false),
            home,
            place,
        })
    }

    fn begin(&self) -> Option<Body> {
        let mut progress = self.progress();
        if progress.stage != Stage::Scheduled {
            return None;
        }
        progress.stage = Stage::Running;
        progress.body.take()
    }

    /// Ends the task before its future ends; returns whether it was still under way. A task that is being polled right now may
    /// still end with its result.
    pub(crate) fn end(self: &Arc<Self>, cause: Cause) -> bool {
        let mut progress = self.progress();
        if progress.stage == Stage::Ended {
            return false;
        }
        progress.cause.get_or_insert(cause);
        if thread::is_ending() && !self.home.executor.has_ended() {
            // The cleanup of the future needs a thread that is not exiting.
            drop(progress);
            Arc::clone(self).wake();
            return true;
        }
        let Some(body) = progress.body.take() else {
            // The polling thread drops it.
            return true;
        };
        progress.stage = Stage::Ended;
        drop(progress);
        self.drop_body(body);
        true
    }

    /// Returns whether its future is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_told.load(Ordering::Acquire) || self.progress().stage == Stage::Ended
    }

    fn drop_body(&self, body: Body) {
        // The dropped work reports the outcome of its requests.
        let _abandoned = Abandoned::begin();
        let guard = self.home.enter();
        if catch_unwind(AssertUnwindSafe(|| drop(body))).is_err() {
            self.home.panicked();
        }
        drop(guard);
        self.home.registry.remove(self.place);
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resume for Task {
    /// Polls it, if it is its turn.
    fn resume(self: Arc<Self>) {
        let Some(mut body) = self.begin() else { return };
        if self.progress().cause == Some(Cause::Cancelled) {
            self.progress().stage = Stage::Ended;
            self.drop_body(body);
            return;
        }
        let waker = Waker::from(Arc::clone(&self));
        let guard = self.home.enter();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            body.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        drop(guard);
        let is_over = match polled {
            Ok(Poll::Ready(())) => true,
            Ok(Poll::Pending) => false,
            Err(_) => {
                let cause = self.home.panicked();
                self.progress().cause = Some(cause);
                true
            }
        };
        let mut progress = self.progress();
        if is_over || progress.cause.is_some() {
            progress.stage = Stage::Ended;
            drop(progress);
            self.drop_body(body);
            return;
        }
        progress.body = Some(body);
        let is_woken = progress.stage == Stage::Woken;
        progress.stage = if is_woken {
            Stage::Scheduled
        } else {
            Stage::Idle
        };
        drop(progress);
        if is_woken {
            let home = Arc::clone(&self.home);
            home.executor.schedule(self);
        }
    }

    fn abandon(self: Arc<Self>) {
        let cause = self.home.end_cause();
        self.end(cause);
    }
}

impl Underway for Task {
    /// Wakes the task for a last poll before it ends, since the future knows best the outcome of its requests.
    fn close(self: Arc<Self>) {
        let cause = self.home.end_cause();
        self.progress().cause.get_or_insert(cause);
        self.wake();
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let is_due = {
            let mut progress = self.progress();
            match progress.stage {
                Stage::Idle => {
                    progress.stage = Stage::Scheduled;
                    true
                }
                Stage::Running => {
                    progress.stage = Stage::Woken;
                    false
                }
                Stage::Scheduled | Stage::Woken | Stage::Ended => false,
            }
        };
        if is_due {
            let home = Arc::clone(&self.home);
            home.executor.schedule(self);
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = self.progress();
        f.debug_struct("Task")
            .field("stage", &progress.stage)
            .field("cause", &progress.cause)
            .finish_non_exhaustive()
    }
}

/// Why a task ended early, for its future.
#[derive(Debug)]
pub(crate) struct Reason(std::sync::Weak<Task>);

impl Reason {
    /// Marks the task as ended: its result is posted next.
    pub(crate) fn told(&self) {
        if let Some(task) = self.0.upgrade() {
            task.is_told.store(true, Ordering::Release);
        }
    }

    /// Returns why the task ended. A task that no longer exists counts as closed, as when its client is closed.
    pub(crate) fn cause(&self) -> Cause {
        let task = self.0.upgrade();
        let cause = task.and_then(|task| task.progress().cause);
        cause.unwrap_or(Cause::Closed)
    }
}
