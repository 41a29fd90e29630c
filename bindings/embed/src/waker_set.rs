//! Wakers of tasks that wait for the same event. All are woken when it may have happened.
use crate::mutex::lock;
use slab::Slab;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

pub(crate) type ReadyHook = Arc<dyn Fn() + Send + Sync>;

/// A waker that wakes all waiting tasks each time that it is woken itself.
#[derive(Default)]
pub(crate) struct WakerSet {
    state: Mutex<WakerSetState>,
    /// Called each time.
    pub(crate) hook: Mutex<Option<ReadyHook>>,
}

#[derive(Default)]
struct WakerSetState {
    wakers: Slab<Waker>,
    /// How often all of them were woken, and so forgotten.
    generation: u64,
}

/// A registered waker.
pub(crate) struct WakerKey {
    index: usize,
    generation: u64,
}

impl WakerSet {
    /// Registers a waker, until it is woken or [leaves](Self::unregister).
    pub(crate) fn register(&self, waker: Waker) -> WakerKey {
        let mut waiting = lock(&self.state);
        WakerKey {
            index: waiting.wakers.insert(waker),
            generation: waiting.generation,
        }
    }

    /// Waits no longer.
    pub(crate) fn unregister(&self, key: &WakerKey) {
        let mut waiting = lock(&self.state);
        let is_registered = waiting.generation == key.generation;
        let waker = is_registered.then(|| waiting.wakers.try_remove(key.index));
        drop(waiting);
        drop(waker);
    }
}

impl Wake for WakerSet {
    fn wake(self: Arc<Self>) {
        let woken = {
            let mut waiting = lock(&self.state);
            waiting.generation += 1;
            mem::take(&mut waiting.wakers)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
        let hook = lock(&self.hook).clone();
        if let Some(hook) = hook {
            hook();
        }
    }
}
