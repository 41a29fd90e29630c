//! Where the callbacks of a client are called.
use crate::cause::{self, closed};
use crate::client::Client;
use crate::dispatcher::{Dispatcher, Job};
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::mutex::lock;
use std::sync::Arc;

impl Client {
    /// Returns the mailbox of the thread that runs the callbacks of this client, one after the other. The first call starts the
    /// thread. If the client has a [queue](crate::Queue), the thread that runs the queue runs the callbacks.
    ///
    /// A callback may wait. It may not [`close`](Self::close) the client, because that waits for the callbacks.
    ///
    /// # Errors
    /// The errors of [`core`](Self::core); [`ErrorKind::Internal`](crate::ErrorKind::Internal) if the system provides no
    /// thread.
    pub fn callbacks(&self) -> Result<Arc<Mailbox<Job>>, Error> {
        self.usable()?;
        self.callbacks_for_close()
    }

    /// Returns the [`callbacks`](Self::callbacks) for the end of [closing](Self::submit_close), also for a client that is
    /// unusable after a panic.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`](crate::ErrorKind::Forked), [`ErrorKind::Closed`](crate::ErrorKind::Closed);
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) if the system gives no thread.
    pub fn callbacks_for_close(&self) -> Result<Arc<Mailbox<Job>>, Error> {
        let inner = self.inner()?;
        if inner.context.is_closed() {
            return Err(closed());
        }
        if let Some(callback_queue) = &inner.callback_queue {
            return Ok(Arc::clone(callback_queue.mailbox()));
        }
        if let Some(dispatcher) = inner.dispatcher.get() {
            return Ok(Arc::clone(dispatcher.mailbox()));
        }
        let starting = lock(&inner.dispatcher_start);
        if inner.dispatcher.get().is_none() {
            let started = Dispatcher::start(Arc::clone(&inner.context)).map_err(|error| {
                cause::resource_unavailable("starting the thread for callbacks", error.to_string())
            })?;
            // The lock prevents another thread from setting it.
            let _ = inner.dispatcher.set(started);
        }
        drop(starting);
        if inner.context.is_closed() {
            inner.stop_dispatcher();
            return Err(closed());
        }
        let dispatcher = inner.dispatcher.get().ok_or_else(closed)?;
        Ok(Arc::clone(dispatcher.mailbox()))
    }

    /// Returns whether this thread is the one that runs the callbacks of this client: its own for them, or one that runs its
    /// queue now.
    pub fn is_in_callback(&self) -> bool {
        let Ok(inner) = self.inner() else {
            return false;
        };
        match &inner.callback_queue {
            Some(callback_queue) => callback_queue.queues().is_running_here(),
            None => inner.dispatcher.get().is_some_and(Dispatcher::is_current),
        }
    }

    /// Returns whether its callbacks wait in a [queue](crate::Queue) until the program runs them.
    pub fn has_queue(&self) -> bool {
        let inner = self.inner();
        inner.is_ok_and(|inner| inner.callback_queue.is_some())
    }
}
