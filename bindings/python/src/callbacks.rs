//! Callbacks on the thread of a client.
use crate::interpreter::Invoke;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use statestore_embed::Subscription;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The callbacks of one client. One thread calls them, one after the other.
#[derive(Debug, Default)]
pub(crate) struct CallbackRegistry {
    thread: OnceLock<u64>,
    running: Mutex<Option<Py<PyAny>>>,
    /// Callbacks that may still be called.
    registered: Mutex<Vec<Weak<Callback>>>,
}

/// A function of the program, which is called with each observation until its subscription ends.
#[derive(Debug)]
pub(crate) struct Callback {
    /// The function, and the context (`contextvars`) in which it is called. `None` after the garbage collector took them.
    function: Mutex<Option<(Py<PyAny>, Py<PyAny>)>>,
    subscription: Mutex<Option<Subscription>>,
}

impl Callback {
    /// Keeps the subscription, for [`cancel`](Self::cancel).
    pub(crate) fn set_subscription(&self, subscription: Subscription) {
        *lock(&self.subscription) = Some(subscription);
    }

    /// Ends the subscription; a call that runs is the last one.
    pub(crate) fn cancel(&self) {
        let subscription = lock(&self.subscription).take();
        if let Some(subscription) = subscription {
            subscription.cancel();
        }
    }

    /// Returns the function and its context.
    pub(crate) fn function(&self, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let function = lock(&self.function);
        let (function, context) = function.as_ref()?;
        Some((function.clone_ref(py), context.clone_ref(py)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CallbackRegistry {
    /// Registers a function. The caller of the function owns it; the client has only a weak reference, for the garbage
    /// collector.
    pub(crate) fn register(&self, function: Py<PyAny>, context: Py<PyAny>) -> Arc<Callback> {
        let callback = Arc::new(Callback {
            function: Mutex::new(Some((function, context))),
            subscription: Mutex::default(),
        });
        let mut registered = lock(&self.registered);
        registered.retain(|callback| callback.strong_count() > 0);
        registered.push(Arc::downgrade(&callback));
        callback
    }

    /// Shows the garbage collector the functions. They belong to the object of the client: no other one may show them.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Locked values are in use, so they are not garbage.
        let Ok(registered) = self.registered.try_lock() else {
            return Ok(());
        };
        for callback in registered.iter().filter_map(Weak::upgrade) {
            if let Ok(function) = callback.function.try_lock()
                && let Some((function, context)) = &*function
            {
                visit.call(function)?;
                visit.call(context)?;
            }
        }
        Ok(())
    }

    /// Ends the subscriptions and drops the functions, since only the functions themselves refer to the client.
    pub(crate) fn clear(&self) {
        let registered = std::mem::take(&mut *lock(&self.registered));
        for callback in registered.iter().filter_map(Weak::upgrade) {
            callback.cancel();
            let function = lock(&callback.function).take();
            // Without the lock: this may run destructors of the program.
            drop(function);
        }
    }

    /// Calls a callback in a context (`contextvars`), on the thread of the callbacks. `make` creates the argument.
    ///
    /// # Errors
    /// The exception of the callback, or of `make`.
    pub(crate) fn call(
        &self,
        py: Python<'_>,
        callback: &Py<PyAny>,
        context: &Py<PyAny>,
        make: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>,
    ) -> PyResult<()> {
        self.record_thread(py)?;
        *self.lock_running() = Some(callback.clone_ref(py));
        let _running = RunningCall(self);
        let item = make(py)?;
        let context = context.bind(py);
        context
            .invoke_method(intern!(py, "run"), (callback, item))
            .map(drop)
    }

    fn record_thread(&self, py: Python<'_>) -> PyResult<()> {
        if self.thread.get().is_none() {
            let ident = py.import("threading")?.call_method0("get_ident")?;
            // There is one such thread, so it cannot be another one.
            let _ = self.thread.set(ident.extract()?);
        }
        Ok(())
    }

    /// Returns the thread that calls the callbacks, as Python numbers it, once it has called one.
    pub(crate) fn thread(&self) -> Option<u64> {
        self.thread.get().copied()
    }

    /// Returns the callback that runs now.
    pub(crate) fn running(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.lock_running()
            .as_ref()
            .map(|callback| callback.clone_ref(py))
    }

    fn lock_running(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        lock(&self.running)
    }
}

/// The time of one call.
struct RunningCall<'a>(&'a CallbackRegistry);

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let callback = self.0.lock_running().take();
        // The destructor may run code of the program, which may access this value.
        drop(callback);
    }
}
