//! A queue from the runtime to a thread of the foreign side.
use crate::batch::{self, WakeHook};
use crate::operation_limiter::Permit;
use crate::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, PoisonError};

/// A queue from the runtime to one consumer, which is woken only when the queue stops being empty.
///
/// The hook is called on the runtime's thread, or on the posting thread. It must be quick and must not block: it sets a flag,
/// writes to a file descriptor, or asks an event loop to call the consumer. The consumer then [drains](Self::drain) the queue.
/// While it leaves items behind, the hook is not called again.
///
/// Its producers bound the queue: each operation under way posts one item, and so does each subscription, however many events
/// it has. See [`Client::submit`](crate::Client::submit).
pub struct Mailbox<T> {
    items: Mutex<MailboxState<T>>,
    hook: WakeHook,
}

struct MailboxState<T> {
    queue: VecDeque<(T, Option<Permit>)>,
    is_closed: bool,
}

impl<T> Mailbox<T> {
    /// Creates an empty queue.
    pub fn new(hook: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            items: Mutex::new(MailboxState {
                queue: VecDeque::new(),
                is_closed: false,
            }),
            hook: Arc::new(hook),
        })
    }

    /// Adds an item; returns it if the queue is closed.
    pub fn post(&self, item: T) -> Result<(), T> {
        self.post_with(item, None)
    }

    pub(crate) fn post_with(&self, item: T, permit: Option<Permit>) -> Result<(), T> {
        let was_empty = {
            let mut items = self.items();
            if items.is_closed {
                return Err(item);
            }
            items.queue.push_back((item, permit));
            items.queue.len() == 1
        };
        if was_empty {
            batch::call(&self.hook);
        }
        Ok(())
    }

    /// Hands up to `max` items to `each`, in their order; whether some are left.
    pub fn drain(&self, max: usize, mut each: impl FnMut(T)) -> bool {
        self.drain_while(max, |item| {
            each(item);
            true
        })
    }

    /// [Drains](Self::drain) the queue until `each` detects a forked child, which leaves everything unchanged.
    pub(crate) fn drain_while(&self, max: usize, mut each: impl FnMut(T) -> bool) -> bool {
        let taken: Vec<_> = {
            let mut items = self.items();
            let count = max.min(items.queue.len());
            items.queue.drain(..count).collect()
        };
        let mut taken = taken.into_iter();
        while let Some((item, permit)) = taken.next() {
            if !each(item) {
                mem::forget((permit, taken));
                return false;
            }
            drop(permit);
        }
        !self.items().queue.is_empty()
    }

    /// Returns the number of items that wait.
    pub fn len(&self) -> usize {
        self.items().queue.len()
    }

    /// Returns whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.items().queue.is_empty()
    }

    /// Rejects further items, and drops the waiting ones. An operation whose item is dropped reports no result.
    pub fn close(&self) {
        let dropped = {
            let mut items = self.items();
            items.is_closed = true;
            mem::take(&mut items.queue)
        };
        drop(dropped);
    }

    /// Refuses further items if none waits; whether that is so.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut items = self.items();
        if items.queue.is_empty() {
            items.is_closed = true;
        }
        items.is_closed
    }

    /// Returns whether no item waits and none can arrive.
    pub(crate) fn is_finished(&self) -> bool {
        let items = self.items();
        items.is_closed && items.queue.is_empty()
    }

    fn items(&self) -> MutexGuard<'_, MailboxState<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = self.items();
        f.debug_struct("Mailbox")
            .field("len", &items.queue.len())
            .field("is_closed", &items.is_closed)
            .finish_non_exhaustive()
    }
}
