//! Wakers of tasks that wait for the same event. All are woken when it may have happened.
use crate::locking::lock;
use slab::Slab;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

pub(crate) type ReadyHook = Arc<dyn Fn() + Send + Sync>;

/// A waker that wakes all waiting tasks each time that it is woken itself.
#[derive(Default)]
pub(crate) struct Alarm {
    waiting: Mutex<Waiting>,
    /// Called each time.
    pub(crate) hook: Mutex<Option<ReadyHook>>,
}

#[derive(Default)]
struct Waiting {
    wakers: Slab<Waker>,
    /// How often all of them were woken, and so forgotten.
    rings: u64,
}

/// A registered waker.
pub(crate) struct Place {
    number: usize,
    rings: u64,
}

impl Alarm {
    /// Registers a waker, until it is woken or [leaves](Self::leave).
    pub(crate) fn enter(&self, waker: Waker) -> Place {
        let mut waiting = lock(&self.waiting);
        Place {
            number: waiting.wakers.insert(waker),
            rings: waiting.rings,
        }
    }

    /// Waits no longer.
    pub(crate) fn leave(&self, place: &Place) {
        let mut waiting = lock(&self.waiting);
        let is_there = waiting.rings == place.rings;
        let waker = is_there.then(|| waiting.wakers.try_remove(place.number));
        drop(waiting);
        drop(waker);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let woken = {
            let mut waiting = lock(&self.waiting);
            waiting.rings += 1;
            mem::take(&mut waiting.wakers)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
        let hook = lock(&self.hook).clone();
        if let Some(hook) = hook {
            hook();
        }
    }
}
