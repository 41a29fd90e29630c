//! What the operations of one client share.
use crate::baton::Baton;
use crate::executor::Executor;
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::task::Cause;
use crate::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::{EnterGuard, Handle};

#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) executor: Arc<Executor>,
    pub(crate) baton: Arc<Baton>,
    pub(crate) runtime: Handle,
    pub(crate) registry: Registry,
    is_closed: AtomicBool,
    is_poisoned: AtomicBool,
}

impl Home {
    pub(crate) fn new(runtime: &Runtime) -> Self {
        Self {
            executor: Arc::clone(&runtime.executor),
            baton: Arc::clone(&runtime.baton),
            runtime: runtime.handle.clone(),
            registry: Registry::default(),
            is_closed: AtomicBool::new(false),
            is_poisoned: AtomicBool::new(false),
        }
    }

    /// Makes timers and tasks those of the runtime, unless this thread is within it anyway, or about to end.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        (!Runtime::is_current() && !thread::is_ending()).then(|| self.runtime.enter())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Refuses what comes from now on; whether that is new.
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Acquire)
    }

    /// Something panicked, and nobody knows in what state it left the client. A closed client has lost its runtime, which
    /// timers take amiss.
    pub(crate) fn panicked(&self) -> Cause {
        if self.is_closed() {
            return Cause::Closed;
        }
        if !self.is_poisoned.swap(true, Ordering::AcqRel) {
            tracing::error!("a bug in the library made a client unusable");
        }
        Cause::Panicked
    }
}
