//! A queue of callbacks that the program runs on a thread of its own choice, out of its event loop.
use crate::blocking::{self, WaitOptions};
use crate::callback_queue::{CallbackQueue, CallbackQueueSet, ReleasedHook};
use crate::cause::{resource_unavailable, wrong_thread};
use crate::client::{Client, WeakClient};
use crate::error::{Error, ErrorKind};
use crate::process::ProcessBound;
use statestore::{Outcome, Settings};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A queue of callbacks of its clients, which wait until the program [runs](Self::run) them. Without a queue, a thread of each
/// client calls them. A [descriptor](Self::raw_fd) signals waiting callbacks.
///
/// One thread at a time runs a queue, so that callbacks come one after the other, whichever of its clients they belong to.
#[derive(Debug)]
pub struct Queue {
    inner: ProcessBound<Arc<Inner>>,
}

#[derive(Debug)]
struct Inner {
    queues: Arc<CallbackQueueSet>,
    members: Mutex<QueueMembers>,
}

#[derive(Debug, Default)]
struct QueueMembers {
    is_closed: bool,
    all: Vec<(WeakClient, Weak<CallbackQueue>)>,
}

impl Queue {
    /// Creates a queue without clients.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`]: the system gives no descriptor that an event loop could wait for.
    pub fn new() -> Result<Self, Error> {
        let queues = CallbackQueueSet::new()
            .map_err(|error| resource_unavailable("making a queue", error.to_string()))?;
        Ok(Self {
            inner: ProcessBound::new(Arc::new(Inner {
                queues: Arc::new(queues),
                members: Mutex::default(),
            })),
        })
    }

    /// Creates a client like [`Client::new`], with this queue for its callbacks.
    ///
    /// # Errors
    /// The errors of that function; [`ErrorKind::Forked`]; [`ErrorKind::Closed`] if the queue was closed.
    pub fn client(&self, settings: Settings) -> Result<Client, Error> {
        let inner = self.inner.get()?;
        let mut members = inner.members();
        if members.is_closed {
            let reason = "its queue was freed";
            return Err(Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                "making a client",
                reason,
            ));
        }
        let (client, callback_queue) = Client::with_callback_queue(settings, &inner.queues)?;
        members
            .all
            .retain(|(_, callback_queue)| callback_queue.strong_count() > 0);
        members
            .all
            .push((client.downgrade(), Arc::downgrade(&callback_queue)));
        Ok(client)
    }

    /// Returns a descriptor that is readable while callbacks wait; it may be readable now and then without one. The queue owns
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn raw_fd(&self) -> Result<i32, Error> {
        Ok(self.inner.get()?.queues.raw_fd())
    }

    /// Runs at most `max` of the waiting callbacks on this thread; returns how many ran. If callbacks are left, or arrive
    /// meanwhile, the descriptor stays readable.
    ///
    /// # Errors
    /// [`ErrorKind::WrongThread`] in a callback of the queue, and while another thread runs it: no callback runs then.
    /// [`ErrorKind::Forked`], also in the child if a callback forked: it has nothing to run.
    pub fn run(&self, max: usize) -> Result<usize, Error> {
        const ACTION: &str = "running a queue";
        let inner = self.inner.get()?;
        let Some(runner) = inner.queues.try_acquire_runner() else {
            let reason = if inner.queues.is_running_here() {
                "a callback that it runs cannot run others"
            } else {
                "another thread runs it"
            };
            return Err(wrong_thread(ACTION, reason));
        };
        runner.run(max)
    }

    /// Closes its clients, and runs their remaining callbacks on this thread. If a thread runs the queue already, that thread
    /// does both before its run returns. The queue can be run afterwards, and has nothing to run.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn close(&self) -> Result<(), Error> {
        let inner = self.inner.get()?;
        inner.members().is_closed = true;
        inner.queues.notify_when_released(Arc::clone(inner) as _);
        Ok(())
    }
}

impl ReleasedHook for Inner {
    fn on_released(&self) {
        self.close_members();
    }
}

impl Inner {
    fn close_members(&self) {
        let all = std::mem::take(&mut self.members().all);
        for (client, callback_queue) in all {
            if let Ok(client) = client.upgrade()
                && client.close(WaitOptions::default()).is_err()
            {
                // The client closes by itself.
                continue;
            }
            if let Some(callback_queue) = callback_queue.upgrade() {
                drain_closing(&callback_queue);
            }
        }
    }

    fn members(&self) -> MutexGuard<'_, QueueMembers> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the remaining callbacks of a client that is being closed in the background.
fn drain_closing(callback_queue: &CallbackQueue) {
    while !callback_queue.is_finished() {
        let Some(runner) = callback_queue.queues().acquire_runner(None) else {
            return;
        };
        if runner.drain(callback_queue).is_err() || callback_queue.is_finished() {
            return;
        }
        // The runtime's thread closes it without help from this one.
        let wait = WaitOptions {
            for_event: true,
            ..WaitOptions::default()
        };
        let waited = blocking::wait_for_output(callback_queue.changed(), |changed| {
            blocking::wait(
                callback_queue.context(),
                "freeing a queue",
                changed,
                wait,
                false,
            )
        });
        if waited.is_err() {
            return;
        }
    }
}
