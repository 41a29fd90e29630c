//! State that the operations of one client share.
use crate::cause::Cause;
use crate::executor::{Dependent, Executor};
use crate::operation_limiter::OperationLimiter;
use crate::registry::Registry;
use crate::runtime::{self, DriverHandoff, Runtime};
use crate::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::{EnterGuard, Handle};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) executor: Arc<Executor>,
    pub(crate) handoff: Arc<DriverHandoff>,
    pub(crate) runtime: Handle,
    pub(crate) limiter: Arc<OperationLimiter>,
    pub(crate) registry: Registry,
    /// Notified to interrupt all waiting threads.
    pub(crate) interrupted: Notify,
    is_poisoned: AtomicBool,
    /// Whether new operations are refused while those under way finish.
    is_closing: AtomicBool,
    /// Whether the runtime failed.
    has_failed: AtomicBool,
}

impl ClientContext {
    pub(crate) fn new(runtime: &Runtime) -> Arc<Self> {
        let context = Arc::new(Self {
            executor: Arc::clone(&runtime.executor),
            handoff: Arc::clone(&runtime.handoff),
            runtime: runtime.handle.clone(),
            limiter: Arc::default(),
            registry: Registry::default(),
            interrupted: Notify::new(),
            is_poisoned: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        });
        let dependent = Arc::downgrade(&context);
        runtime.executor.notify_of_failure(dependent);
        context
    }

    /// Enters the runtime, for its timers and tasks, unless this thread is within it already, or about to end.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        (!thread::is_runtime_thread() && !thread::is_exiting()).then(|| self.runtime.enter())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.limiter.is_closed()
    }

    /// Refuses new operations.
    pub(crate) fn begin_closing(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    /// Returns whether new operations are refused.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst) || self.is_closed()
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Acquire)
    }

    /// Returns whether the runtime failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    /// Returns why operations of a closed client end.
    pub(crate) fn end_cause(&self) -> Cause {
        if self.has_failed() {
            Cause::RuntimeFailed
        } else {
            Cause::Closed
        }
    }

    /// Runs a future in the background. Returns `false` if the runtime failed.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> bool {
        if self.has_failed() {
            return false;
        }
        let spawned = catch_unwind(AssertUnwindSafe(|| drop(self.runtime.spawn(future))));
        if spawned.is_err() {
            self.executor.fail();
        }
        spawned.is_ok()
    }

    /// Records a panic, which leaves the client in an unknown state. A closed client has lost its runtime, in which case timers
    /// panic. A failed runtime panics as well.
    pub(crate) fn record_panic(&self) -> Cause {
        if self.is_closed() || runtime::has_failed(&self.runtime, &self.executor) {
            return self.end_cause();
        }
        if !self.is_poisoned.swap(true, Ordering::AcqRel) {
            tracing::error!("a bug in the library made a client unusable");
        }
        Cause::Panicked
    }
}

impl Dependent for ClientContext {
    /// Ends everything that is under way.
    fn runtime_failed(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
        tracing::error!(
            "the program closed the file descriptors of the library, which ends the client"
        );
        self.registry.close_tasks();
        self.interrupted.notify_waiters();
    }
}
