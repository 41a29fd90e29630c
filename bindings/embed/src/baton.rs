//! Who drives the runtime: its own thread, or for a while a thread that waits for a result.
//!
//! A thread that waits and drives the runtime meanwhile sends its request and reads the response itself. So a single
//! blocking call needs no way to another thread and back, which would be most of its cost. While several threads wait, the
//! runtime's own thread serves them all.
use crate::executor::{Executor, Leave};
use crate::runtime;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::unconstrained;

/// How long the runtime rests after a caller, who may come back at once, before its own thread goes on. What comes from the
/// network meanwhile waits for so long.
const REST: Duration = Duration::from_millis(1);
/// How long callers leave the runtime to its own thread after several of them have waited at a time.
const CROWDED: Duration = Duration::from_millis(20);

/// The runtime, which belongs to whoever drives it.
#[derive(Debug)]
pub(crate) struct Baton {
    state: Mutex<State>,
    changed: Condvar,
    executor: Arc<Executor>,
}

#[derive(Debug)]
struct State {
    place: Place,
    /// A caller waits for the runtime's own thread to lay it down.
    is_wanted: bool,
    /// The runtime's own thread is to take it as soon as it can.
    is_due: bool,
    /// The runtime's own thread sleeps until a caller lays it down.
    is_asleep: bool,
    /// Callers who wait and do not drive.
    waiting: usize,
    /// How often a caller took it or laid it down.
    moves: u64,
    crowded_until: Option<Instant>,
}

/// Where the runtime is.
#[derive(Debug)]
enum Place {
    /// Nobody drives it.
    Free(Runtime),
    /// Its own thread does.
    Thread,
    /// A caller does.
    Caller,
    /// Nobody does any more.
    Gone,
}

impl Baton {
    pub(crate) fn new(runtime: Runtime, executor: Arc<Executor>) -> Self {
        Self {
            state: Mutex::new(State {
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

    /// What the runtime's own thread does; the runtime, once it is to end.
    pub(crate) fn keep(&self) -> Runtime {
        loop {
            let runtime = self.take_back();
            // Each operation counts for itself: tokio's limit for one task does not fit.
            let leave = runtime.block_on(unconstrained(self.executor.run()));
            if let Leave::Stopped = leave {
                // Who asked for it a moment before waits no longer.
                self.state().place = Place::Gone;
                self.changed.notify_all();
                return runtime;
            }
            self.state().place = Place::Free(runtime);
            self.changed.notify_all();
        }
    }

    /// Waits until no caller wants to drive, or did not come for the time of a rest: it may have too low a priority to do so.
    fn take_back(&self) -> Runtime {
        let patience = Instant::now() + REST;
        let mut state = self.state();
        loop {
            if state.is_due
                && (!state.is_wanted || Instant::now() >= patience)
                && let Some(runtime) = state.take(Place::Thread)
            {
                state.is_due = false;
                state.is_wanted = false;
                return runtime;
            }
            let before = state.moves;
            let (guard, timeout) = self
                .changed
                .wait_timeout(state, REST)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if !timeout.timed_out() || state.moves != before {
                continue;
            }
            if let Place::Caller = state.place {
                state.is_asleep = true;
                state = self
                    .changed
                    .wait_while(state, |state| state.is_asleep)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                state.is_due = true;
            }
        }
    }

    /// Has the runtime's own thread take over if nobody drives.
    pub(crate) fn call(&self) {
        self.call_with(self.state());
    }

    fn call_with(&self, mut state: MutexGuard<'_, State>) {
        if let Place::Free(_) = state.place {
            state.is_due = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Takes the runtime if nobody drives it and nobody else waits.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Turn<'_>> {
        let mut state = self.state();
        if !self.is_for_callers(&state) {
            self.call_with(state);
            return None;
        }
        self.begin(&mut state)
    }

    /// Takes the runtime from its own thread, unless somebody else waits, or that takes until `until`.
    pub(crate) fn ask(self: &Arc<Self>, until: Option<Instant>) -> Option<Turn<'_>> {
        let mut state = self.state();
        if !self.is_for_callers(&state) || state.is_wanted {
            return None;
        }
        if let Place::Thread = state.place {
            state.is_wanted = true;
            drop(state);
            // Not under the lock, which what this wakes may need.
            self.executor.ask();
            state = self.laid_down(until);
            state.is_wanted = false;
        }
        self.begin(&mut state)
    }

    /// Waits until the runtime's own thread has laid it down, at most until `until`, or until it has taken it again.
    fn laid_down(&self, until: Option<Instant>) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.is_wanted && matches!(state.place, Place::Thread) {
            let Some(until) = until else {
                let changed = self.changed.wait(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                break;
            }
            let changed = self.changed.wait_timeout(state, time);
            state = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    fn is_for_callers(&self, state: &State) -> bool {
        let is_crowded = state
            .crowded_until
            .is_some_and(|until| Instant::now() < until);
        state.waiting == 0 && !is_crowded && !self.executor.is_stopping()
    }

    fn begin(self: &Arc<Self>, state: &mut State) -> Option<Turn<'_>> {
        let runtime = state.take(Place::Caller)?;
        state.moves += 1;
        Some(Turn {
            baton: self,
            runtime: Some(runtime),
        })
    }

    /// Tells that a caller waits who does not drive, for as long as what this gives.
    pub(crate) fn wait_beside(&self) -> Beside<'_> {
        let mut state = self.state();
        state.waiting += 1;
        self.call_with(state);
        Beside(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The runtime if nobody drives it.
    fn take(&mut self, place: Place) -> Option<Runtime> {
        match std::mem::replace(&mut self.place, place) {
            Place::Free(runtime) => Some(runtime),
            other => {
                self.place = other;
                None
            }
        }
    }
}

/// Work for a runtime that nobody drives.
impl Wake for Baton {
    fn wake(self: Arc<Self>) {
        self.call();
    }
}

/// The time during which a caller drives the runtime.
pub(crate) struct Turn<'a> {
    baton: &'a Arc<Baton>,
    /// Present until it is over.
    runtime: Option<Runtime>,
}

impl Turn<'_> {
    /// Drives the runtime until `poll` says that it is ready, which this gives then, or until `until`, or until the runtime is
    /// to end.
    pub(crate) fn drive(
        &self,
        poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>,
        until: Option<Instant>,
    ) -> Poll<()> {
        let Some(runtime) = &self.runtime else {
            return Poll::Pending;
        };
        let _ours = runtime::Ours::enter();
        runtime.block_on(unconstrained(async {
            let mut leave = pin!(self.baton.executor.run());
            let mut time = pin!(until.map(|until| tokio::time::sleep_until(until.into())));
            poll_fn(|context| {
                if poll(context).is_ready() {
                    return Poll::Ready(Poll::Ready(()));
                }
                let time = time.as_mut().as_pin_mut();
                let is_over = leave.as_mut().poll(context).is_ready()
                    || time.is_some_and(|time| time.poll(context).is_ready());
                if is_over {
                    Poll::Ready(Poll::Pending)
                } else {
                    Poll::Pending
                }
            })
            .await
        }))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let baton = self.baton;
        let is_busy = baton.executor.rest(Waker::from(Arc::clone(baton)));
        let is_noticed = {
            let mut state = baton.state();
            state.place = Place::Free(runtime);
            state.moves += 1;
            if state.waiting > 0 {
                state.crowded_until = Some(Instant::now() + CROWDED);
            }
            state.is_due |= is_busy || state.waiting > 0;
            std::mem::take(&mut state.is_asleep) || state.is_due
        };
        if is_noticed {
            baton.changed.notify_all();
        }
    }
}

/// A caller who waits and does not drive.
pub(crate) struct Beside<'a>(&'a Baton);

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}
