//! One operation as the executor sees it.
use crate::home::Home;
use crate::thread;
use statestore::Abandoned;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Why an operation ended before its future did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Cancelled,
    Closed,
    Panicked,
}

/// A future with nothing to give: what it brings, it hands over itself, even when it is dropped too early.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that the executor polls.
pub(crate) struct Task {
    state: Mutex<State>,
    /// Its result is on its way, or was taken already, while the executor may not have put it away yet.
    is_told: AtomicBool,
    home: Arc<Home>,
    place: usize,
}

struct State {
    stage: Stage,
    work: Option<Work>,
    cause: Option<Cause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It waits for a wake-up.
    Idle,
    /// The executor will run it.
    Scheduled,
    /// It is being polled.
    Running,
    /// It is being polled, and was woken meanwhile.
    Woken,
    /// Its future is gone.
    Ended,
}

impl Task {
    /// A task that is to be [scheduled](crate::executor::Executor::schedule). `work` gets the task, to learn why it ended.
    pub(crate) fn new(
        home: Arc<Home>,
        place: usize,
        work: impl FnOnce(Reason) -> Work,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            state: Mutex::new(State {
                stage: Stage::Scheduled,
                work: Some(work(Reason(this.clone()))),
                cause: None,
            }),
            is_told: AtomicBool::new(false),
            home,
            place,
        })
    }

    /// Polls it, if it is its turn.
    pub(crate) fn run(self: Arc<Self>) {
        let Some(mut work) = self.begin() else { return };
        if self.state().cause == Some(Cause::Cancelled) {
            self.state().stage = Stage::Ended;
            self.drop_work(work);
            return;
        }
        let waker = Waker::from(Arc::clone(&self));
        let guard = self.home.enter();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            work.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        drop(guard);
        let is_over = match polled {
            Ok(Poll::Ready(())) => true,
            Ok(Poll::Pending) => false,
            Err(_) => {
                let cause = self.home.panicked();
                self.state().cause = Some(cause);
                true
            }
        };
        let mut state = self.state();
        if is_over || state.cause.is_some() {
            state.stage = Stage::Ended;
            drop(state);
            self.drop_work(work);
            return;
        }
        state.work = Some(work);
        let is_woken = state.stage == Stage::Woken;
        state.stage = if is_woken {
            Stage::Scheduled
        } else {
            Stage::Idle
        };
        drop(state);
        if is_woken {
            let home = Arc::clone(&self.home);
            home.executor.schedule(self);
        }
    }

    fn begin(&self) -> Option<Work> {
        let mut state = self.state();
        if state.stage != Stage::Scheduled {
            return None;
        }
        state.stage = Stage::Running;
        state.work.take()
    }

    /// Ends it before its future does. Whether it was still under way; if it is being polled right now, it may end with
    /// its result nevertheless.
    pub(crate) fn end(self: &Arc<Self>, cause: Cause) -> bool {
        let mut state = self.state();
        if state.stage == Stage::Ended {
            return false;
        }
        state.cause.get_or_insert(cause);
        if thread::is_ending() && !self.home.executor.has_ended() {
            // What the future has to do in its end needs a thread that is whole.
            drop(state);
            Arc::clone(self).wake();
            return true;
        }
        let Some(work) = state.work.take() else {
            // Who polls it drops it.
            return true;
        };
        state.stage = Stage::Ended;
        drop(state);
        self.drop_work(work);
        true
    }

    /// Ends it because its client was closed. It is polled once more before, since it knows best what became of what it sent.
    pub(crate) fn close(self: &Arc<Self>) {
        self.state().cause.get_or_insert(Cause::Closed);
        Arc::clone(self).wake();
    }

    /// Whether its future is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_told.load(Ordering::Acquire) || self.state().stage == Stage::Ended
    }

    fn drop_work(&self, work: Work) {
        // The work tells what becomes of its requests.
        let _abandoned = Abandoned::begin();
        let guard = self.home.enter();
        if catch_unwind(AssertUnwindSafe(|| drop(work))).is_err() {
            self.home.panicked();
        }
        drop(guard);
        self.home.registry.remove(self.place);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let is_due = {
            let mut state = self.state();
            match state.stage {
                Stage::Idle => {
                    state.stage = Stage::Scheduled;
                    true
                }
                Stage::Running => {
                    state.stage = Stage::Woken;
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
        let state = self.state();
        f.debug_struct("Task")
            .field("stage", &state.stage)
            .field("cause", &state.cause)
            .finish_non_exhaustive()
    }
}

/// Why a task ended early, for its future.
#[derive(Debug)]
pub(crate) struct Reason(std::sync::Weak<Task>);

impl Reason {
    /// The task has ended, for whoever asks: its result is posted next.
    pub(crate) fn told(&self) {
        if let Some(task) = self.0.upgrade() {
            task.is_told.store(true, Ordering::Release);
        }
    }

    /// A task that nobody holds any more can never go on, as when its client is closed.
    pub(crate) fn cause(&self) -> Cause {
        let task = self.0.upgrade();
        let cause = task.and_then(|task| task.state().cause);
        cause.unwrap_or(Cause::Closed)
    }
}
