//! Callbacks of clients that the program runs itself, instead of a thread of their client.
use crate::client_context::ClientContext;
use crate::dispatcher::Job;
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::operation_limiter::IdleHook;
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

/// The callback queues of the clients of one [`Queue`](crate::Queue). One thread at a time runs their callbacks.
#[derive(Debug)]
pub(crate) struct CallbackQueueSet {
    state: Mutex<State>,
    /// Set while a queue is listed.
    signal: Signal,
    /// Notified when no thread runs the queues any more.
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Lanes in which something may wait, each once.
    ready: VecDeque<Arc<CallbackQueue>>,
    /// The thread that runs them.
    runner: Option<usize>,
    /// Receiver of the notification that the runner has stopped.
    released_hook: Option<Arc<dyn ReleasedHook>>,
}

/// Receiver of the notification that no thread runs the queues any more.
pub(crate) trait ReleasedHook: fmt::Debug + Send + Sync {
    /// Called on the thread that ran them.
    fn on_released(&self);
}

impl CallbackQueueSet {
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

    /// Notifies `waiting` when no thread runs the queues: at once, or as soon as the current runner has stopped.
    pub(crate) fn notify_when_released(&self, waiting: Arc<dyn ReleasedHook>) {
        {
            let mut state = self.state();
            if state.runner.is_some() {
                state.released_hook = Some(waiting);
                return;
            }
        }
        waiting.on_released();
    }

    /// Returns whether this thread runs the queues now, and so is in one of their callbacks.
    pub(crate) fn is_running_here(&self) -> bool {
        self.state().runner == Some(thread::number())
    }

    /// Takes the right to run the queues; `None` while a thread, this one or another, has it.
    pub(crate) fn try_acquire_runner(&self) -> Option<RunnerGuard<'_>> {
        self.take_runner(&mut self.state())
    }

    /// Takes the right to run the queues, as soon as no other thread has it; `None` if one still has it at the deadline.
    pub(crate) fn acquire_runner(&self, deadline: Option<Instant>) -> Option<RunnerGuard<'_>> {
        let mut state = self.state();
        loop {
            if let Some(runner) = self.take_runner(&mut state) {
                return Some(runner);
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

    fn take_runner(&self, state: &mut State) -> Option<RunnerGuard<'_>> {
        if state.runner.is_some() {
            return None;
        }
        state.runner = Some(thread::number());
        Some(RunnerGuard {
            queues: self,
            process: Process::current(),
        })
    }

    /// Lists queues in which callbacks wait.
    fn enqueue(&self, queues: impl IntoIterator<Item = Arc<CallbackQueue>>) {
        let mut state = self.state();
        for queue in queues {
            // The last job may have run before its sender comes here. If a queue that is over were listed, it would keep itself
            // and its list forever.
            if !queue.mailbox.is_finished() && !queue.is_enqueued.swap(true, Ordering::AcqRel) {
                state.ready.push_back(queue);
                self.signal.set();
            }
        }
    }

    /// Takes a queue off the list if nothing waits in it.
    fn dequeue(&self, queue: &CallbackQueue) {
        let mut state = self.state();
        // A later post lists it again.
        if queue.mailbox.is_empty() && queue.is_enqueued.swap(false, Ordering::AcqRel) {
            state
                .ready
                .retain(|listed| !std::ptr::eq(&raw const **listed, queue));
            if state.ready.is_empty() {
                self.signal.clear();
            }
        }
    }

    /// Takes the list.
    fn take_ready(&self) -> VecDeque<Arc<CallbackQueue>> {
        let mut state = self.state();
        self.signal.clear();
        let ready = mem::take(&mut state.ready);
        for queue in &ready {
            queue.is_enqueued.store(false, Ordering::Release);
        }
        ready
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of this thread to run waiting callbacks, one after the other.
#[derive(Debug)]
pub(crate) struct RunnerGuard<'a> {
    queues: &'a CallbackQueueSet,
    process: Process,
}

impl RunnerGuard<'_> {
    /// Runs at most `max` of the waiting callbacks; returns how many ran. Later ones wait for another turn.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Forked`]: a callback forked, and this is the child, which has nothing to run.
    pub(crate) fn run(self, max: usize) -> Result<usize, Error> {
        let (mut ran, mut unfinished) = (0, Vec::new());
        let mut ready = self.queues.take_ready();
        while ran < max
            && let Some(queue) = ready.pop_front()
        {
            let has_more = self.drain_counting(&queue, max, &mut ran);
            if !self.process.is_current() {
                mem::forget((self, queue, ready, unfinished));
                return Err(forked());
            }
            if has_more {
                unfinished.push(queue);
            }
        }
        // Lanes that did not run yet come first.
        self.queues.enqueue(ready.into_iter().chain(unfinished));
        Ok(ran)
    }

    /// Runs all that waits in one queue.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub(crate) fn drain(self, queue: &CallbackQueue) -> Result<(), Error> {
        self.drain_counting(queue, usize::MAX, &mut 0);
        if self.process.is_current() {
            self.queues.dequeue(queue);
            return Ok(());
        }
        mem::forget(self);
        Err(forked())
    }

    /// Runs callbacks of a queue and counts them in `ran`; returns whether some are left.
    fn drain_counting(&self, queue: &CallbackQueue, max: usize, ran: &mut usize) -> bool {
        let has_more = queue.mailbox.drain_while(max - *ran, |job| {
            *ran += 1;
            let is_good = catch_unwind(AssertUnwindSafe(job)).is_ok();
            // A child has the memory of its parent, with the locks of all its threads as they were.
            let is_same_process = self.process.is_current();
            if is_same_process && !is_good {
                queue.context.record_panic();
            }
            is_same_process
        });
        if self.process.is_current() {
            queue.is_finished();
        }
        has_more
    }
}

impl Drop for RunnerGuard<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.queues.state();
            state.runner = None;
            state.released_hook.take()
        };
        self.queues.released.notify_all();
        if let Some(waiting) = waiting {
            waiting.on_released();
        }
    }
}

/// Callbacks of one client that wait to be run.
pub(crate) struct CallbackQueue {
    queues: Arc<CallbackQueueSet>,
    mailbox: Arc<Mailbox<Job>>,
    context: Arc<ClientContext>,
    /// Whether it is in the list of the queues; changed under the lock of that list.
    is_enqueued: AtomicBool,
    is_stopping: AtomicBool,
    /// Something was posted, or the last result was taken.
    changed: Notify,
}

impl CallbackQueue {
    pub(crate) fn new(queues: &Arc<CallbackQueueSet>, context: &Arc<ClientContext>) -> Arc<Self> {
        let queue = Arc::new_cyclic(|queue: &Weak<Self>| {
            let hooked = queue.clone();
            Self {
                queues: Arc::clone(queues),
                mailbox: Mailbox::new(move || {
                    if let Some(queue) = hooked.upgrade() {
                        queue.on_post();
                    }
                }),
                context: Arc::clone(context),
                is_enqueued: AtomicBool::new(false),
                is_stopping: AtomicBool::new(false),
                changed: Notify::new(),
            }
        });
        let idle: Arc<dyn IdleHook> = Arc::new(CloseWaker(Arc::downgrade(&queue)));
        context.limiter.set_idle_hook(Some(idle));
        queue
    }

    pub(crate) fn queues(&self) -> &CallbackQueueSet {
        &self.queues
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<Job>> {
        &self.mailbox
    }

    pub(crate) fn context(&self) -> &ClientContext {
        &self.context
    }

    fn on_post(self: Arc<Self>) {
        self.changed.notify_waiters();
        let queues = Arc::clone(&self.queues);
        queues.enqueue([self]);
    }

    /// Lets it be over once every operation has ended and its callback has returned.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Returns whether no callback will run here any more.
    pub(crate) fn is_finished(&self) -> bool {
        let is_over = self.is_stopping.load(Ordering::SeqCst)
            && self.context.limiter.is_idle()
            && self.mailbox.close_if_empty();
        if is_over {
            self.queues.dequeue(self);
        }
        is_over
    }

    /// Waits until there are callbacks to run, or the queue is over.
    pub(crate) async fn changed(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on it is noticed.
            changed.as_mut().enable();
            if !self.mailbox.is_empty() || self.is_finished() {
                return;
            }
            changed.await;
        }
    }
}

/// A waker for a task that closes the client and waits until nothing is under way.
#[derive(Debug)]
struct CloseWaker(Weak<CallbackQueue>);

impl IdleHook for CloseWaker {
    fn on_idle(&self) {
        if let Some(queue) = self.0.upgrade() {
            queue.changed.notify_waiters();
        }
    }
}

impl fmt::Debug for CallbackQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackQueue")
            .field("mailbox", &self.mailbox)
            .field("is_stopping", &self.is_stopping)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::RuntimeShare;

    fn callback_queue(queues: &Arc<CallbackQueueSet>) -> Arc<CallbackQueue> {
        let share = RuntimeShare::acquire().unwrap();
        CallbackQueue::new(queues, &ClientContext::new(&share.runtime))
    }

    #[test]
    fn a_finished_queue_is_not_kept_alive_by_the_ready_list() {
        let queues = Arc::new(CallbackQueueSet::new().unwrap());
        for is_listed_before in [true, false] {
            let queue = callback_queue(&queues);
            if is_listed_before {
                Arc::clone(&queue).on_post();
                assert!(queue.is_enqueued.load(Ordering::Acquire));
            }
            queue.stop();
            assert!(queue.is_finished());
            // The sender of a job that has already run lists the queue only now.
            Arc::clone(&queue).on_post();
            let kept = Arc::downgrade(&queue);
            drop(queue);
            assert!(kept.upgrade().is_none());
        }
        assert!(queues.take_ready().is_empty());
    }
}
