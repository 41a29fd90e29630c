//! Which operations of a client may begin.
use crate::cause::closed;
use crate::error::{Error, ErrorKind};
use statestore::Outcome;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of operations of one client that are under way or have an untaken result. It exceeds what a client sends and
/// queues by default, so only a program that does not take results reaches it.
const MAX_OPERATIONS: usize = 1 << 18;

/// A counter of permits, which it issues until the client is closed.
#[derive(Debug, Default)]
pub(crate) struct OperationLimiter {
    is_closed: AtomicBool,
    /// Permits given out.
    outstanding: AtomicUsize,
    /// Called when the last permit is returned.
    idle_hook: Mutex<Option<Arc<dyn IdleHook>>>,
}

/// Receiver of the notification that nothing is under way.
pub(crate) trait IdleHook: fmt::Debug + Send + Sync {
    fn on_idle(&self);
}

/// A permit for one operation, from its beginning until its result is taken.
#[derive(Debug)]
pub(crate) struct Permit(Arc<OperationLimiter>);

impl OperationLimiter {
    /// Takes a permit for an operation.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`]: too many permits are out. [`ErrorKind::Closed`]: the consumer of the result may be gone.
    pub(crate) fn permit(self: &Arc<Self>, action: &str) -> Result<Permit, Error> {
        let (permit, out) = self.issue()?;
        if out < MAX_OPERATIONS {
            return Ok(permit);
        }
        Err(Error::new(
            ErrorKind::QueueFull,
            Outcome::NotDone,
            action,
            format!(
                "{MAX_OPERATIONS} operations are under way or wait for their results to be taken"
            ),
        ))
    }

    /// Takes a permit without the limit, for an operation that exists at most once per object, such as closing a client.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) fn unlimited_permit(self: &Arc<Self>) -> Result<Permit, Error> {
        Ok(self.issue()?.0)
    }

    /// Returns a permit, and the number of permits that were out before.
    fn issue(self: &Arc<Self>) -> Result<(Permit, usize), Error> {
        let permit = Permit(Arc::clone(self));
        let out = self.outstanding.fetch_add(1, Ordering::SeqCst);
        // The order matters. The thread of the callbacks ends when the client is closed and no permit is out. It either sees
        // this permit, or was stopped before, which the check below then sees.
        if self.is_closed() {
            return Err(closed());
        }
        Ok((permit, out))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Refuses further permits.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Returns whether every result was taken.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.load(Ordering::SeqCst) == 0
    }

    /// Sets the receiver of the notification that every result was taken.
    pub(crate) fn set_idle_hook(&self, idle: Option<Arc<dyn IdleHook>>) {
        let before = std::mem::replace(&mut *self.lock_idle_hook(), idle);
        drop(before);
    }

    fn lock_idle_hook(&self) -> MutexGuard<'_, Option<Arc<dyn IdleHook>>> {
        self.idle_hook
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.0.outstanding.fetch_sub(1, Ordering::SeqCst) == 1 {
            let idle = self.0.lock_idle_hook().clone();
            if let Some(idle) = idle {
                idle.on_idle();
            }
        }
    }
}
