//! Callbacks on the thread of a client.
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The callbacks of one client. One thread calls them, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    thread: OnceLock<u64>,
    running: Mutex<Option<Py<PyAny>>>,
}

impl Callbacks {
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
        self.note_thread(py)?;
        *self.place() = Some(callback.clone_ref(py));
        let _running = Running(self);
        let item = make(py)?;
        context.call_method1(py, "run", (callback, item)).map(drop)
    }

    fn note_thread(&self, py: Python<'_>) -> PyResult<()> {
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
        self.place().as_ref().map(|callback| callback.clone_ref(py))
    }

    fn place(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of one call.
struct Running<'a>(&'a Callbacks);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let callback = self.0.place().take();
        // Its destructor may run code of the program, which may look at this.
        drop(callback);
    }
}
