//! Hand-over of the runtime between its own thread and threads that wait for a result.
//!
//! A waiting thread that drives the runtime sends its request and reads the response itself. A single blocking call therefore
//! avoids the switch to another thread and back, which would be most of its cost. While several threads wait, the runtime's own
//! thread serves them all.
//!
//! This file only knows that the runtime can be [driven](Drive), so that `tests/baton` can try every order in which threads
//! hand it over.
use crate::executor::{Dependent, Executor, Leave, Poller};
use crate::sync::{self, Condvar, Mutex, MutexGuard};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Pause after a caller has driven the runtime, before its own thread takes over: the caller may come back at once. Network
/// input waits for this time.
const REST: Duration = Duration::from_millis(1);
/// How long callers leave the runtime to its own thread after several of them have waited at a time.
const CROWDED: Duration = Duration::from_millis(20);

/// A runtime, as far as handing it over is concerned.
pub(crate) trait Drive: Send + 'static {
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
pub(crate) struct Baton<R> {
    hands: Mutex<Hands<R>>,
    changed: Condvar,
    executor: Arc<Executor>,
}

/// Owner of the runtime, and the threads that want it.
#[derive(Debug)]
struct Hands<R> {
    place: Place<R>,
    /// A caller waits for the runtime's own thread to lay it down.
    is_wanted: bool,
    /// The runtime's own thread is to take it as soon as it can.
    is_due: bool,
    /// The runtime's own thread sleeps until a caller lays it down.
    is_asleep: bool,
    /// Number of callers that wait without driving.
    waiting: usize,
    /// How often a caller took it or laid it down.
    moves: u64,
    crowded_until: Option<Instant>,
}

/// Where the runtime is.
#[derive(Debug)]
enum Place<R> {
    /// No thread drives the runtime.
    Free(R),
    /// The runtime's own thread drives it.
    Thread,
    /// A caller does.
    Caller,
    /// The runtime has ended, and no thread drives it any more.
    Gone,
}

impl<R: Drive> Baton<R> {
    pub(crate) fn new(runtime: R, executor: Arc<Executor>) -> Self {
        Self {
            hands: Mutex::new(Hands {
                place: Place::Free(runtime),
                is_wanted: false,
                is_due: true,
                is_asleep: false,
                waiting: 0,
                moves: 0,
                crowded_until: None,
            }),
            changed: Condvar::new(),
            executor,
        }
    }

    /// Runs the loop of the runtime's own thread; returns the runtime once it is to end, or `None` if it failed.
    pub(crate) fn keep(&self) -> Option<R> {
        loop {
            let runtime = self.take_back()?;
            match runtime.drive(self.executor.run(), None) {
                Ok(Some(Leave::Failed)) | Err(Failed) => {
                    leak(runtime);
                    self.executor.fail();
                    return None;
                }
                Ok(Some(Leave::Stopped)) => {
                    // A caller that asked for the runtime a moment before stops waiting.
                    self.hands().place = Place::Gone;
                    self.changed.notify_all();
                    return Some(runtime);
                }
                Ok(Some(Leave::Asked) | None) => {
                    self.lay_down(runtime);
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Leaves the runtime to the next thread, unless it failed.
    fn lay_down(&self, runtime: R) {
        let mut hands = self.hands();
        if let Place::Gone = hands.place {
            drop(hands);
            leak(runtime);
        } else {
            hands.place = Place::Free(runtime);
        }
    }

    /// Waits until no caller wants to drive, or until a waiting caller did not come within the pause: its priority may be too
    /// low. Returns `None` if the runtime failed.
    fn take_back(&self) -> Option<R> {
        let patience = sync::now() + REST;
        let mut hands = self.hands();
        loop {
            if let Place::Gone = hands.place {
                return None;
            }
            if hands.is_due
                && (!hands.is_wanted || sync::now() >= patience)
                && let Some(runtime) = hands.take(Place::Thread)
            {
                hands.is_due = false;
                hands.is_wanted = false;
                return Some(runtime);
            }
            let before = hands.moves;
            let (guard, timeout) = self
                .changed
                .wait_timeout(hands, REST)
                .unwrap_or_else(PoisonError::into_inner);
            hands = guard;
            if !timeout.timed_out() || hands.moves != before {
                continue;
            }
            if let Place::Caller = hands.place {
                hands.is_asleep = true;
                hands = self
                    .changed
                    .wait_while(hands, |hands| hands.is_asleep)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                hands.is_due = true;
            }
        }
    }

    /// Lets the runtime's own thread take over if no thread drives.
    pub(crate) fn call(&self) {
        self.call_with(self.hands());
    }

    fn call_with(&self, mut hands: MutexGuard<'_, Hands<R>>) {
        if let Place::Free(_) = hands.place {
            hands.is_due = true;
            drop(hands);
            self.changed.notify_all();
        }
    }

    /// Takes the runtime if no thread drives it and no caller waits.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Turn<'_, R>> {
        let mut hands = self.hands();
        if !self.is_for_callers(&hands) {
            self.call_with(hands);
            return None;
        }
        self.begin(&mut hands)
    }

    /// Takes the runtime from its own thread. Returns `None` if another caller waits, or if the runtime is not available by
    /// `until`.
    pub(crate) fn ask(self: &Arc<Self>, until: Option<Instant>) -> Option<Turn<'_, R>> {
        let mut hands = self.hands();
        if !self.is_for_callers(&hands) || hands.is_wanted {
            return None;
        }
        if let Place::Thread = hands.place {
            hands.is_wanted = true;
            drop(hands);
            // Not under the lock, which the woken thread may need.
            self.executor.ask();
            hands = self.laid_down(until);
            hands.is_wanted = false;
        }
        self.begin(&mut hands)
    }

    /// Waits until the runtime's own thread has laid it down, at most until `until`, or until it has taken it again.
    fn laid_down(&self, until: Option<Instant>) -> MutexGuard<'_, Hands<R>> {
        let mut hands = self.hands();
        while hands.is_wanted && matches!(hands.place, Place::Thread) {
            let Some(until) = until else {
                let changed = self.changed.wait(hands);
                hands = changed.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let time = until.saturating_duration_since(sync::now());
            if time.is_zero() {
                break;
            }
            let changed = self.changed.wait_timeout(hands, time);
            hands = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
        hands
    }

    fn is_for_callers(&self, hands: &Hands<R>) -> bool {
        let is_crowded = hands.crowded_until.is_some_and(|until| sync::now() < until);
        hands.waiting == 0 && !is_crowded && !self.executor.is_stopping()
    }

    fn begin(self: &Arc<Self>, hands: &mut Hands<R>) -> Option<Turn<'_, R>> {
        let runtime = hands.take(Place::Caller)?;
        hands.moves += 1;
        Some(Turn {
            baton: self,
            runtime: Some(runtime),
        })
    }

    /// Registers a caller that waits without driving, until the returned value is dropped.
    pub(crate) fn wait_beside(&self) -> Beside<'_, R> {
        let mut hands = self.hands();
        hands.waiting += 1;
        self.call_with(hands);
        Beside(self)
    }

    fn hands(&self) -> MutexGuard<'_, Hands<R>> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Hands<R> {
    /// Takes the runtime if no thread drives it.
    fn take(&mut self, place: Place<R>) -> Option<R> {
        match std::mem::replace(&mut self.place, place) {
            Place::Free(runtime) => Some(runtime),
            other => {
                self.place = other;
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

impl<R: Drive> Dependent for Baton<R> {
    /// Ends the waits for the runtime.
    fn runtime_failed(&self) {
        let place = {
            let mut hands = self.hands();
            hands.is_wanted = false;
            hands.is_asleep = false;
            mem::replace(&mut hands.place, Place::Gone)
        };
        self.changed.notify_all();
        if let Place::Free(runtime) = place {
            leak(runtime);
        }
    }
}

/// Wakes the runtime's own thread for work that arrives while no thread drives.
impl<R: Drive> Wake for Baton<R> {
    fn wake(self: Arc<Self>) {
        self.call();
    }
}

/// The time during which a caller drives the runtime.
pub(crate) struct Turn<'a, R: Drive> {
    baton: &'a Arc<Baton<R>>,
    /// Present until the turn ends.
    runtime: Option<R>,
}

impl<R: Drive> Turn<'_, R> {
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
        let run = self.baton.executor.run_until(&mut polled);
        let Ok(driven) = runtime.drive(run, until) else {
            self.runtime.take().into_iter().for_each(leak);
            self.baton.executor.fail();
            return Poll::Pending;
        };
        if let Some(payload) = panic {
            drop(self);
            resume_unwind(payload);
        }
        driven.unwrap_or(Poll::Pending)
    }
}

impl<R: Drive> Drop for Turn<'_, R> {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let baton = self.baton;
        let is_noticed = {
            let mut hands = baton.hands();
            if let Place::Gone = hands.place {
                drop(hands);
                leak(runtime);
                return;
            }
            // Under the lock, so that later wake-ups find the runtime free.
            let is_busy = baton.executor.rest(Waker::from(Arc::clone(baton)));
            hands.place = Place::Free(runtime);
            hands.moves += 1;
            if hands.waiting > 0 {
                hands.crowded_until = Some(sync::now() + CROWDED);
            }
            hands.is_due |= is_busy || hands.waiting > 0;
            std::mem::take(&mut hands.is_asleep) || hands.is_due
        };
        if is_noticed {
            baton.changed.notify_all();
        }
    }
}

/// A caller that waits without driving.
pub(crate) struct Beside<'a, R: Drive>(&'a Baton<R>);

impl<R: Drive> Drop for Beside<'_, R> {
    fn drop(&mut self) {
        self.0.hands().waiting -= 1;
    }
}
