//! Hand-over of the runtime between its own thread and threads that wait for a result.
//!
//! A waiting thread that drives the runtime sends its request and reads the response itself. A single blocking call therefore
//! avoids the switch to another thread and back, which would be most of its cost. While several threads wait, the runtime's own
//! thread serves them all.
//!
//! This file only knows that the runtime can be [driven](DriveRuntime), so that `tests/baton` can try every order in which threads
//! hand it over.
use crate::executor::{Dependent, Executor, ExitReason, Poller};
use crate::sync::{self, Condvar, Mutex, MutexGuard};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Pause after a caller has driven the runtime, before its own thread takes over: the caller may come back at once. Network
/// input waits for this time.
const HANDBACK_DELAY: Duration = Duration::from_millis(1);
/// How long callers leave the runtime to its own thread after several of them have waited at a time.
const CONTENTION_PERIOD: Duration = Duration::from_millis(20);

/// A runtime, as far as handing it over is concerned.
pub(crate) trait DriveRuntime: Send + 'static {
    /// Runs a future and everything else that the runtime has to do on this thread, until the future is ready; `None` if that
    /// takes until `until`.
    fn drive<T>(
        &self,
        future: impl Future<Output = T>,
        until: Option<Instant>,
    ) -> Result<Option<T>, Failed>;
}

/// The runtime cannot be driven any more.
#[derive(Debug)]
pub(crate) struct Failed;

/// The runtime, owned by the thread that drives it.
#[derive(Debug)]
pub(crate) struct DriverHandoff<R> {
    state: Mutex<HandoffState<R>>,
    changed: Condvar,
    executor: Arc<Executor>,
}

/// Owner of the runtime, and the threads that want it.
#[derive(Debug)]
struct HandoffState<R> {
    owner: RuntimeOwner<R>,
    /// A caller waits for the runtime's own thread to lay it down.
    is_requested: bool,
    /// The runtime's own thread is to take it as soon as it can.
    is_thread_due: bool,
    /// The runtime's own thread sleeps until a caller lays it down.
    is_thread_parked: bool,
    /// Number of callers that wait without driving.
    passive_waiters: usize,
    /// How often a caller took it or laid it down.
    handoffs: u64,
    contended_until: Option<Instant>,
}

/// Where the runtime is.
#[derive(Debug)]
enum RuntimeOwner<R> {
    /// No thread drives the runtime.
    Free(R),
    /// The runtime's own thread drives it.
    Thread,
    /// A caller does.
    Caller,
    /// The runtime has ended, and no thread drives it any more.
    Ended,
}

impl<R: DriveRuntime> DriverHandoff<R> {
    pub(crate) fn new(runtime: R, executor: Arc<Executor>) -> Self {
        Self {
            state: Mutex::new(HandoffState {
                owner: RuntimeOwner::Free(runtime),
                is_requested: false,
                is_thread_due: true,
                is_thread_parked: false,
                passive_waiters: 0,
                handoffs: 0,
                contended_until: None,
            }),
            changed: Condvar::new(),
            executor,
        }
    }

    /// Runs the loop of the runtime's own thread; returns the runtime once it is to end, or `None` if it failed.
    pub(crate) fn run_thread(&self) -> Option<R> {
        loop {
            let runtime = self.acquire_for_thread()?;
            match runtime.drive(self.executor.run(), None) {
                Ok(Some(ExitReason::Failed)) | Err(Failed) => {
                    leak(runtime);
                    self.executor.fail();
                    return None;
                }
                Ok(Some(ExitReason::Stopped)) => {
                    // A caller that asked for the runtime a moment before stops waiting.
                    self.lock_state().owner = RuntimeOwner::Ended;
                    self.changed.notify_all();
                    return Some(runtime);
                }
                Ok(Some(ExitReason::HandoffRequested) | None) => {
                    self.lay_down(runtime);
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Leaves the runtime to the next thread, unless it failed.
    fn lay_down(&self, runtime: R) {
        let mut state = self.lock_state();
        if let RuntimeOwner::Ended = state.owner {
            drop(state);
            leak(runtime);
        } else {
            state.owner = RuntimeOwner::Free(runtime);
        }
    }

    /// Waits until no caller wants to drive, or until a waiting caller did not come within the pause: its priority may be too
    /// low. Returns `None` if the runtime failed.
    fn acquire_for_thread(&self) -> Option<R> {
        let handback_at = sync::now() + HANDBACK_DELAY;
        let mut state = self.lock_state();
        loop {
            if let RuntimeOwner::Ended = state.owner {
                return None;
            }
            if state.is_thread_due
                && (!state.is_requested || sync::now() >= handback_at)
                && let Some(runtime) = state.take_runtime(RuntimeOwner::Thread)
            {
                state.is_thread_due = false;
                state.is_requested = false;
                return Some(runtime);
            }
            let before = state.handoffs;
            let (guard, timeout) = self
                .changed
                .wait_timeout(state, HANDBACK_DELAY)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if !timeout.timed_out() || state.handoffs != before {
                continue;
            }
            if let RuntimeOwner::Caller = state.owner {
                state.is_thread_parked = true;
                state = self
                    .changed
                    .wait_while(state, |state| state.is_thread_parked)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                state.is_thread_due = true;
            }
        }
    }

    /// Lets the runtime's own thread take over if no thread drives.
    pub(crate) fn wake_thread(&self) {
        self.wake_thread_with(self.lock_state());
    }

    fn wake_thread_with(&self, mut state: MutexGuard<'_, HandoffState<R>>) {
        if let RuntimeOwner::Free(_) = state.owner {
            state.is_thread_due = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Takes the runtime if no thread drives it and no caller waits.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<DriveGuard<'_, R>> {
        let mut state = self.lock_state();
        if !self.may_caller_drive(&state) {
            self.wake_thread_with(state);
            return None;
        }
        self.begin_driving(&mut state)
    }

    /// Takes the runtime from its own thread. Returns `None` if another caller waits, or if the runtime is not available by
    /// `until`.
    pub(crate) fn request(self: &Arc<Self>, until: Option<Instant>) -> Option<DriveGuard<'_, R>> {
        let mut state = self.lock_state();
        if !self.may_caller_drive(&state) || state.is_requested {
            return None;
        }
        if let RuntimeOwner::Thread = state.owner {
            state.is_requested = true;
            drop(state);
            // Not under the lock, which the woken thread may need.
            self.executor.request_handoff();
            state = self.wait_until_released(until);
            state.is_requested = false;
        }
        self.begin_driving(&mut state)
    }

    /// Waits until the runtime's own thread has laid it down, at most until `until`, or until it has taken it again.
    fn wait_until_released(&self, until: Option<Instant>) -> MutexGuard<'_, HandoffState<R>> {
        let mut state = self.lock_state();
        while state.is_requested && matches!(state.owner, RuntimeOwner::Thread) {
            let Some(until) = until else {
                let changed = self.changed.wait(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let time = until.saturating_duration_since(sync::now());
            if time.is_zero() {
                break;
            }
            let changed = self.changed.wait_timeout(state, time);
            state = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    fn may_caller_drive(&self, state: &HandoffState<R>) -> bool {
        let is_crowded = state
            .contended_until
            .is_some_and(|until| sync::now() < until);
        state.passive_waiters == 0 && !is_crowded && !self.executor.is_stopping()
    }

    fn begin_driving(self: &Arc<Self>, state: &mut HandoffState<R>) -> Option<DriveGuard<'_, R>> {
        let runtime = state.take_runtime(RuntimeOwner::Caller)?;
        state.handoffs += 1;
        Some(DriveGuard {
            handoff: self,
            runtime: Some(runtime),
        })
    }

    /// Registers a caller that waits without driving, until the returned value is dropped.
    pub(crate) fn wait_passively(&self) -> PassiveWaitGuard<'_, R> {
        let mut state = self.lock_state();
        state.passive_waiters += 1;
        self.wake_thread_with(state);
        PassiveWaitGuard(self)
    }

    fn lock_state(&self) -> MutexGuard<'_, HandoffState<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> HandoffState<R> {
    /// Takes the runtime if no thread drives it.
    fn take_runtime(&mut self, owner: RuntimeOwner<R>) -> Option<R> {
        match std::mem::replace(&mut self.owner, owner) {
            RuntimeOwner::Free(runtime) => Some(runtime),
            other => {
                self.owner = other;
                None
            }
        }
    }
}

/// Keeps a failed runtime for good. Its descriptors were closed by the program, and their numbers may belong to other files
/// by now, which its end would close.
fn leak<R>(runtime: R) {
    mem::forget(runtime);
}

impl<R: DriveRuntime> Dependent for DriverHandoff<R> {
    /// Ends the waits for the runtime.
    fn runtime_failed(&self) {
        let owner = {
            let mut state = self.lock_state();
            state.is_requested = false;
            state.is_thread_parked = false;
            mem::replace(&mut state.owner, RuntimeOwner::Ended)
        };
        self.changed.notify_all();
        if let RuntimeOwner::Free(runtime) = owner {
            leak(runtime);
        }
    }
}

/// Wakes the runtime's own thread for work that arrives while no thread drives.
impl<R: DriveRuntime> Wake for DriverHandoff<R> {
    fn wake(self: Arc<Self>) {
        self.wake_thread();
    }
}

/// The time during which a caller drives the runtime.
pub(crate) struct DriveGuard<'a, R: DriveRuntime> {
    handoff: &'a Arc<DriverHandoff<R>>,
    /// Present until the turn ends.
    runtime: Option<R>,
}

impl<R: DriveRuntime> DriveGuard<'_, R> {
    /// Drives the runtime until `poll` is ready, until `until`, or until the runtime is to end. Returns ready only in the first
    /// case.
    ///
    /// # Panics
    /// If `poll` panics. A panic of the runtime itself counts as its failure.
    pub(crate) fn drive(mut self, poll: &mut Poller<'_>, until: Option<Instant>) -> Poll<()> {
        let Some(runtime) = &self.runtime else {
            return Poll::Pending;
        };
        let mut panic = None;
        let mut polled = |context: &mut Context<'_>| {
            let polled = catch_unwind(AssertUnwindSafe(|| poll(context)));
            polled.unwrap_or_else(|payload| {
                panic = Some(payload);
                Poll::Ready(())
            })
        };
        let run = self.handoff.executor.run_until(&mut polled);
        let Ok(driven) = runtime.drive(run, until) else {
            self.runtime.take().into_iter().for_each(leak);
            self.handoff.executor.fail();
            return Poll::Pending;
        };
        if let Some(payload) = panic {
            drop(self);
            resume_unwind(payload);
        }
        driven.unwrap_or(Poll::Pending)
    }
}

impl<R: DriveRuntime> Drop for DriveGuard<'_, R> {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let handoff = self.handoff;
        let is_noticed = {
            let mut state = handoff.lock_state();
            if let RuntimeOwner::Ended = state.owner {
                drop(state);
                leak(runtime);
                return;
            }
            // Under the lock, so that later wake-ups find the runtime free.
            let is_busy = handoff.executor.park(Waker::from(Arc::clone(handoff)));
            state.owner = RuntimeOwner::Free(runtime);
            state.handoffs += 1;
            if state.passive_waiters > 0 {
                state.contended_until = Some(sync::now() + CONTENTION_PERIOD);
            }
            state.is_thread_due |= is_busy || state.passive_waiters > 0;
            std::mem::take(&mut state.is_thread_parked) || state.is_thread_due
        };
        if is_noticed {
            handoff.changed.notify_all();
        }
    }
}

/// A caller that waits without driving.
pub(crate) struct PassiveWaitGuard<'a, R: DriveRuntime>(&'a DriverHandoff<R>);

impl<R: DriveRuntime> Drop for PassiveWaitGuard<'_, R> {
    fn drop(&mut self) {
        self.0.lock_state().passive_waiters -= 1;
    }
}
