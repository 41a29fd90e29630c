//! Callbacks of clients that the program runs itself, instead of a thread of their client.
use crate::admission::Idle;
use crate::dispatcher::Job;
use crate::error::Error;
use crate::home::Home;
use crate::mailbox::Mailbox;
use crate::process::{Process, forked};
use crate::signal::Signal;
use crate::thread;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use tokio::sync::Notify;

/// The lanes of clients that share a queue. One thread at a time runs their callbacks.
#[derive(Debug)]
pub(crate) struct Lanes {
    state: Mutex<State>,
    /// Set while a lane is listed.
    signal: Signal,
    /// Notified when no thread runs the lanes any more.
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Lanes in which something may wait, each once.
    ready: VecDeque<Arc<Lane>>,
    /// The thread that runs them.
    runner: Option<usize>,
    /// Receiver of the notification that the runner has stopped.
    waiting: Option<Arc<dyn Released>>,
}

/// Receiver of the notification that no thread runs the lanes any more.
pub(crate) trait Released: fmt::Debug + Send + Sync {
    /// Called on the thread that ran them.
    fn released(&self);
}

impl Lanes {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::default(),
            signal: Signal::new()?,
            released: Condvar::new(),
        })
    }

    /// Returns a descriptor that is readable while callbacks wait.
    pub(crate) fn raw_fd(&self) -> i32 {
        self.signal.raw_fd()
    }

    /// Notifies `waiting` when no thread runs the lanes: at once, or as soon as the current runner has stopped.
    pub(crate) fn when_released(&self, waiting: Arc<dyn Released>) {
        {
            let mut state = self.state();
            if state.runner.is_some() {
                state.waiting = Some(waiting);
                return;
            }
        }
        waiting.released();
    }

    /// Returns whether this thread runs the lanes now, and so is in one of their callbacks.
    pub(crate) fn is_running_here(&self) -> bool {
        self.state().runner == Some(thread::number())
    }

    /// Takes the right to run the lanes; `None` while a thread, this one or another, has it.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        self.take(&mut self.state())
    }

    /// Takes the right to run the lanes, as soon as no other thread has it; `None` if one still has it at the deadline.
    pub(crate) fn turn(&self, deadline: Option<Instant>) -> Option<Turn<'_>> {
        let mut state = self.state();
        loop {
            if let Some(turn) = self.take(&mut state) {
                return Some(turn);
            }
            state = match deadline {
                None => self
                    .released
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let time = deadline.checked_duration_since(Instant::now())?;
                    let waited = self.released.wait_timeout(state, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn take(&self, state: &mut State) -> Option<Turn<'_>> {
        if state.runner.is_some() {
            return None;
        }
        state.runner = Some(thread::number());
        Some(Turn {
            lanes: self,
            process: Process::current(),
        })
    }

    /// Lists lanes in which callbacks wait.
    fn list(&self, lanes: impl IntoIterator<Item = Arc<Lane>>) {
        let mut state = self.state();
        for lane in lanes {
            // The last job may have run before its sender comes here. If a lane that is over were listed, it would keep itself
            // and its list forever.
            if !lane.mailbox.is_over() && !lane.is_listed.swap(true, Ordering::AcqRel) {
                state.ready.push_back(lane);
                self.signal.set();
            }
        }
    }

    /// Takes a lane off the list if nothing waits in it.
    fn unlist(&self, lane: &Lane) {
        let mut state = self.state();
        // A later post lists it again.
        if lane.mailbox.is_empty() && lane.is_listed.swap(false, Ordering::AcqRel) {
            state
                .ready
                .retain(|listed| !std::ptr::eq(&raw const **listed, lane));
            if state.ready.is_empty() {
                self.signal.clear();
            }
        }
    }

    /// Takes the list.
    fn listed(&self) -> VecDeque<Arc<Lane>> {
        let mut state = self.state();
        self.signal.clear();
        let ready = mem::take(&mut state.ready);
        for lane in &ready {
            lane.is_listed.store(false, Ordering::Release);
        }
        ready
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of this thread to run waiting callbacks, one after the other.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    lanes: &'a Lanes,
    process: Process,
}

impl Turn<'_> {
    /// Runs at most `most` of the waiting callbacks; returns how many ran. Later ones wait for another turn.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Forked`]: a callback forked, and this is the child, which has nothing to run.
    pub(crate) fn run(self, most: usize) -> Result<usize, Error> {
        let (mut ran, mut again) = (0, Vec::new());
        let mut ready = self.lanes.listed();
        while ran < most
            && let Some(lane) = ready.pop_front()
        {
            let has_more = self.drain_counting(&lane, most, &mut ran);
            if !self.process.is_here() {
                mem::forget((self, lane, ready, again));
                return Err(forked());
            }
            if has_more {
                again.push(lane);
            }
        }
        // Lanes that did not run yet come first.
        self.lanes.list(ready.into_iter().chain(again));
        Ok(ran)
    }

    /// Runs all that waits in one lane.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub(crate) fn drain(self, lane: &Lane) -> Result<(), Error> {
        self.drain_counting(lane, usize::MAX, &mut 0);
        if self.process.is_here() {
            self.lanes.unlist(lane);
            return Ok(());
        }
        mem::forget(self);
        Err(forked())
    }

    /// Runs callbacks of a lane and counts them in `ran`; returns whether some are left.
    fn drain_counting(&self, lane: &Lane, most: usize, ran: &mut usize) -> bool {
        let has_more = lane.mailbox.drain_while(most - *ran, |job| {
            *ran += 1;
            let is_good = catch_unwind(AssertUnwindSafe(job)).is_ok();
            // A child has the memory of its parent, with the locks of all its threads as they were.
            let goes_on = self.process.is_here();
            if goes_on && !is_good {
                lane.home.panicked();
            }
            goes_on
        });
        if self.process.is_here() {
            lane.is_over();
        }
        has_more
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.lanes.state();
            state.runner = None;
            state.waiting.take()
        };
        self.lanes.released.notify_all();
        if let Some(waiting) = waiting {
            waiting.released();
        }
    }
}

/// Callbacks of one client that wait to be run.
pub(crate) struct Lane {
    lanes: Arc<Lanes>,
    mailbox: Arc<Mailbox<Job>>,
    home: Arc<Home>,
    /// Whether it is in the list of the lanes; changed under the lock of that list.
    is_listed: AtomicBool,
    is_stopping: AtomicBool,
    /// Something was posted, or the last result was taken.
    changed: Notify,
}

impl Lane {
    pub(crate) fn new(lanes: &Arc<Lanes>, home: &Arc<Home>) -> Arc<Self> {
        let lane = Arc::new_cyclic(|lane: &Weak<Self>| {
            let hooked = lane.clone();
            Self {
                lanes: Arc::clone(lanes),
                mailbox: Mailbox::new(move || {
                    if let Some(lane) = hooked.upgrade() {
                        lane.posted();
                    }
                }),
                home: Arc::clone(home),
                is_listed: AtomicBool::new(false),
                is_stopping: AtomicBool::new(false),
                changed: Notify::new(),
            }
        });
        let idle: Arc<dyn Idle> = Arc::new(WakesCloser(Arc::downgrade(&lane)));
        home.admission.on_idle(Some(idle));
        lane
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<Job>> {
        &self.mailbox
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    fn posted(self: Arc<Self>) {
        self.changed.notify_waiters();
        let lanes = Arc::clone(&self.lanes);
        lanes.list([self]);
    }

    /// Lets it be over once every operation has ended and its callback has returned.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Returns whether no callback will run here any more.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = self.is_stopping.load(Ordering::SeqCst)
            && self.home.admission.is_idle()
            && self.mailbox.close_if_empty();
        if is_over {
            self.lanes.unlist(self);
        }
        is_over
    }

    /// Waits until there are callbacks to run, or the lane is over.
    pub(crate) async fn changed(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on it is noticed.
            changed.as_mut().enable();
            if !self.mailbox.is_empty() || self.is_over() {
                return;
            }
            changed.await;
        }
    }
}

/// A waker for a task that closes the client and waits until nothing is under way.
#[derive(Debug)]
struct WakesCloser(Weak<Lane>);

impl Idle for WakesCloser {
    fn idle(&self) {
        if let Some(lane) = self.0.upgrade() {
            lane.changed.notify_waiters();
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("mailbox", &self.mailbox)
            .field("is_stopping", &self.is_stopping)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Share;

    fn lane(lanes: &Arc<Lanes>) -> Arc<Lane> {
        let share = Share::take().unwrap();
        Lane::new(lanes, &Home::new(&share.runtime))
    }

    #[test]
    fn a_lane_that_is_over_is_not_kept_by_its_list() {
        let lanes = Arc::new(Lanes::new().unwrap());
        for is_listed_before in [true, false] {
            let lane = lane(&lanes);
            if is_listed_before {
                Arc::clone(&lane).posted();
                assert!(lane.is_listed.load(Ordering::Acquire));
            }
            lane.stop();
            assert!(lane.is_over());
            // The sender of a job that has already run lists the lane only now.
            Arc::clone(&lane).posted();
            let kept = Arc::downgrade(&lane);
            drop(lane);
            assert!(kept.upgrade().is_none());
        }
        assert!(lanes.listed().is_empty());
    }
}
