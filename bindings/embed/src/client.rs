//! A client for a foreign language.
use crate::blocking::{self, ErasedFuture, WaitError, WaitOptions};
use crate::blocking_threads::ThreadedPlatform;
use crate::callback_queue::{CallbackQueue, CallbackQueueSet};
use crate::cause::{self, Cause, closed, wrong_thread};
use crate::client_context::ClientContext;
use crate::dispatcher::Dispatcher;
use crate::error::{Error, ErrorKind};
use crate::mailbox::Mailbox;
use crate::mutex::lock;
use crate::operation::{self, Operation};
use crate::operation_descriptor::OperationDescriptor;
use crate::operation_limiter::Permit;
use crate::process::ProcessBound;
use crate::registry::OperationKind;
use crate::runtime::{Runtime, RuntimeShare};
use crate::task::{TaskEndReason, TaskFuture};
use crate::thread;
use statestore::{ConnectionState, LostReason, Outcome, Settings};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;

/// A client of the state store with its own runtime.
///
/// Clones share one connection. It ends with [`close`](Self::close), or in the background when the last clone is dropped,
/// and with it everything that was made from it.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Arc<CloseOnLastDrop>,
}

/// A client for operations that need it in their end, which does not keep it open.
#[derive(Debug, Clone)]
pub struct WeakClient(Weak<CloseOnLastDrop>);

impl WeakClient {
    /// Returns the client, if it still exists.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub fn upgrade(&self) -> Result<Client, Error> {
        let open = self.0.upgrade().ok_or_else(closed)?;
        Ok(Client { handle: open })
    }
}

/// Keeps the client open: it is closed when the last of its users is gone.
#[derive(Debug)]
struct CloseOnLastDrop {
    inner: ProcessBound<Arc<Inner>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    settings: Mutex<Option<Settings>>,
    /// Present from when it is connected.
    pub(crate) core: OnceLock<statestore::Client>,
    pub(crate) context: Arc<ClientContext>,
    /// Present until it is closed.
    pub(crate) runtime_share: Mutex<Option<RuntimeShare>>,
    /// The runtime that ends because this was its last client, until a thread waits for its end.
    pub(crate) ending_runtime: Mutex<Option<Arc<Runtime>>>,
    /// Whether the client was closed completely. The closing task holds the lock: another one waits for it, or continues if the
    /// first gave up.
    pub(crate) is_fully_closed: AsyncMutex<bool>,
    /// Where its callbacks wait if it has a queue; otherwise it has a dispatcher.
    pub(crate) callback_queue: Option<Arc<CallbackQueue>>,
    /// Made when the first callback is to be called.
    pub(crate) dispatcher: OnceLock<Dispatcher>,
    /// Lock of the thread that starts the dispatcher.
    pub(crate) dispatcher_start: Mutex<()>,
}

impl Drop for CloseOnLastDrop {
    fn drop(&mut self) {
        if let Ok(inner) = self.inner.get() {
            inner.close_in_background();
        }
    }
}

impl Client {
    /// Creates a client that is not connected yet, but accepts operations: the first one is [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`ErrorKind::Internal`]: the system provides no thread or no event queue.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let share = RuntimeShare::acquire()?;
        let context = ClientContext::new(&share.runtime);
        Ok(Self::make(settings, share, context, None))
    }

    /// Creates a client whose callbacks wait in a queue until a thread runs them.
    pub(crate) fn with_callback_queue(
        settings: Settings,
        queues: &Arc<CallbackQueueSet>,
    ) -> Result<(Self, Arc<CallbackQueue>), Error> {
        let share = RuntimeShare::acquire()?;
        let context = ClientContext::new(&share.runtime);
        let callback_queue = CallbackQueue::new(queues, &context);
        let client = Self::make(settings, share, context, Some(Arc::clone(&callback_queue)));
        Ok((client, callback_queue))
    }

    fn make(
        settings: Settings,
        share: RuntimeShare,
        context: Arc<ClientContext>,
        callback_queue: Option<Arc<CallbackQueue>>,
    ) -> Self {
        let settings = settings.platform(ThreadedPlatform(Arc::clone(&share.runtime.blocking)));
        Self {
            handle: Arc::new(CloseOnLastDrop {
                inner: ProcessBound::new(Arc::new(Inner {
                    settings: Mutex::new(Some(settings)),
                    core: OnceLock::new(),
                    context,
                    runtime_share: Mutex::new(Some(share)),
                    ending_runtime: Mutex::new(None),
                    is_fully_closed: AsyncMutex::new(false),
                    callback_queue,
                    dispatcher: OnceLock::new(),
                    dispatcher_start: Mutex::new(()),
                })),
            }),
        }
    }

    /// Connects, and waits until the broker has accepted the connection. Call this once.
    ///
    /// # Errors
    /// The errors of [`statestore::Client::connect`]; the client is closed then.
    pub fn connect(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let inner = self.usable().cloned();
        async move {
            let inner = inner?;
            let settings = lock(&inner.settings).take();
            let settings = settings.ok_or_else(|| {
                let reason = "it was connected before";
                Error::new(
                    ErrorKind::InvalidArgument,
                    Outcome::NotDone,
                    "connecting",
                    reason,
                )
            })?;
            match statestore::Client::connect(settings).await {
                Ok(core) => match inner.store_core(|| core) {
                    None => Ok(()),
                    Some(core) => {
                        core.close_within(Duration::ZERO).await;
                        Err(closed())
                    }
                },
                Err(error) => {
                    inner.close().await;
                    Err(error.into())
                }
            }
        }
    }

    /// Returns the core client, for calls that do not wait.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`], [`ErrorKind::Closed`], or [`ErrorKind::Internal`] after a panic.
    pub fn core(&self) -> Result<&statestore::Client, Error> {
        self.usable()?;
        self.connected_core()
    }

    /// Returns the core client, also after it was closed: its id, state and counters remain available.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; [`ErrorKind::Closed`] if it was never connected.
    pub fn connected_core(&self) -> Result<&statestore::Client, Error> {
        self.handle.inner.get()?.core.get().ok_or_else(|| {
            let reason = "it is not connected";
            Error::new(ErrorKind::Closed, Outcome::NotDone, "the client", reason)
        })
    }

    /// Returns why the connection ended, once it has.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn lost_reason(&self) -> Result<Option<LostReason>, Error> {
        let inner = self.handle.inner.get()?;
        let state = inner.core.get().map(statestore::Client::state);
        let is_closed = inner.context.is_closed() || inner.context.has_failed();
        let closed = is_closed.then_some(LostReason::Closed);
        Ok(
            match state.as_ref().map(|state| state.borrow()).as_deref() {
                Some(ConnectionState::Closed { lost_reason, .. }) => Some(*lost_reason),
                _ => closed,
            },
        )
    }

    /// Returns the shared state, unless this is a forked child.
    pub(crate) fn inner(&self) -> Result<&Arc<Inner>, Error> {
        self.handle.inner.get()
    }

    pub(crate) fn usable(&self) -> Result<&Arc<Inner>, Error> {
        let inner = self.running()?;
        if inner.context.is_closing() {
            return Err(closed());
        }
        Ok(inner)
    }

    /// Returns the client, also while it finishes the operations under way before it closes.
    pub(crate) fn running(&self) -> Result<&Arc<Inner>, Error> {
        let inner = self.handle.inner.get()?;
        inner.check()?;
        if inner.context.is_closed() {
            return Err(closed());
        }
        Ok(inner)
    }

    /// Returns whether it was closed, here or by [`close`](Self::close) of a clone. The connection may have ended before for
    /// another reason: see [`statestore::Client::state`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn is_closed(&self) -> Result<bool, Error> {
        Ok(self.handle.inner.get()?.context.is_closed())
    }

    /// Returns a reference to the same client that does not keep it open.
    pub fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.handle))
    }

    /// Makes the client unusable after a panic that was caught outside of this crate.
    pub fn poison(&self) {
        if let Ok(inner) = self.handle.inner.get() {
            inner.context.record_panic();
        }
    }

    /// Begins an operation. `complete` turns its result into an item of a mailbox.
    ///
    /// The operation runs on the runtime's thread, and so does `complete` (or on the thread that cancels); both must not block.
    /// Operations begin in the order of submission. This thread, which may be an event loop or hold an interpreter lock, spends
    /// no time on the request.
    ///
    /// The operation ends exactly once: with the result of the future, or with one of these errors, in which `action` describes
    /// the attempt: [`ErrorKind::Cancelled`]; [`ErrorKind::Closed`] (the client was closed, or the runtime is gone);
    /// [`ErrorKind::Internal`] (it panicked, and the client is unusable).
    ///
    /// # Errors
    /// The operation did not begin and posts nothing: [`ErrorKind::Forked`], [`ErrorKind::Closed`], [`ErrorKind::Internal`];
    /// [`ErrorKind::QueueFull`] if 262,144 operations are under way or have an untaken result.
    pub fn submit<T, M>(
        &self,
        action: impl Into<OperationDescriptor>,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        mailbox: &Arc<Mailbox<M>>,
        complete: impl FnOnce(Result<T, Error>) -> M + Send + 'static,
    ) -> Result<Operation, Error>
    where
        T: Send + 'static,
        M: Send + 'static,
    {
        let OperationDescriptor { name, kind } = action.into();
        self.submit_as(kind, name, future, mailbox, complete)
    }

    /// Submits a wait for an event without a time limit, which [draining](Self::drain) does not wait for.
    ///
    /// # Errors
    /// The errors of [`submit`](Self::submit).
    pub fn submit_event<T, M>(
        &self,
        action: &'static str,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        mailbox: &Arc<Mailbox<M>>,
        complete: impl FnOnce(Result<T, Error>) -> M + Send + 'static,
    ) -> Result<Operation, Error>
    where
        T: Send + 'static,
        M: Send + 'static,
    {
        self.submit_as(OperationKind::Event, action, future, mailbox, complete)
    }

    fn submit_as<T, M>(
        &self,
        kind: OperationKind,
        action: &'static str,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        mailbox: &Arc<Mailbox<M>>,
        complete: impl FnOnce(Result<T, Error>) -> M + Send + 'static,
    ) -> Result<Operation, Error>
    where
        T: Send + 'static,
        M: Send + 'static,
    {
        let mut rest = Some((future, Arc::clone(mailbox), complete));
        self.begin(kind, action, &mut |permit, reason| {
            let (future, mailbox, complete) = rest.take()?;
            Some(operation::task_future(
                action, future, mailbox, complete, permit, reason,
            ))
        })
    }

    /// Begins an operation, whatever it does; `body` is asked for it once.
    fn begin(
        &self,
        kind: OperationKind,
        action: &'static str,
        body: &mut dyn FnMut(Permit, TaskEndReason) -> Option<TaskFuture>,
    ) -> Result<Operation, Error> {
        let context = &self.accepting(kind)?.context;
        let permit = context.limiter.permit(action)?;
        Ok(Operation::begin(context, kind, |reason| {
            body(permit, reason)
        }))
    }

    /// Waits for a future on this thread.
    ///
    /// # Errors
    /// See [`WaitError`]; among its errors is [`ErrorKind::WrongThread`] on a thread of the runtime, where nothing would
    /// ever come, and [`ErrorKind::Internal`] after a panic. On the thread of the callbacks waiting is allowed.
    pub fn wait<T: Send>(
        &self,
        action: &'static str,
        future: impl Future<Output = Result<T, Error>> + Send,
        wait: WaitOptions<'_>,
    ) -> Result<T, WaitError> {
        blocking::wait_for_output(future, |awaited| {
            self.handle.inner.get()?.check()?;
            self.wait_in_place(action, awaited, wait, true)
        })?
        .map_err(WaitError::from)
    }

    /// Interrupts all threads that [wait](Self::wait) with this client now. They return [`ErrorKind::Cancelled`], with the
    /// outcome if it is known.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn interrupt(&self) -> Result<(), Error> {
        self.handle
            .inner
            .get()?
            .context
            .interrupted
            .notify_waiters();
        Ok(())
    }

    /// Waits like [`wait`](Self::wait), also after a panic, or after the runtime failed.
    pub(crate) fn wait_for_end<T: Send>(
        &self,
        action: &'static str,
        future: impl Future<Output = Result<T, Error>> + Send,
        wait: WaitOptions<'_>,
    ) -> Result<T, WaitError> {
        blocking::wait_for_output(future, |awaited| {
            let needs_runtime = !self.handle.inner.get()?.context.has_failed();
            self.wait_in_place(action, awaited, wait, needs_runtime)
        })?
        .map_err(WaitError::from)
    }

    fn wait_in_place(
        &self,
        action: &'static str,
        awaited: &mut dyn ErasedFuture,
        wait: WaitOptions<'_>,
        needs_runtime: bool,
    ) -> Result<(), WaitError> {
        let inner = self.handle.inner.get()?;
        if thread::is_runtime_thread() {
            let reason = "this thread runs all connections and must not wait";
            return Err(wrong_thread(action, reason).into());
        }
        if thread::is_exiting() {
            let (deadline, for_event) = (wait.deadline, wait.for_event);
            let waited = thread::run_on_new_thread(|| {
                let wait = WaitOptions {
                    deadline,
                    for_event,
                    interrupt: None,
                };
                self.wait_in_place(action, awaited, wait, needs_runtime)
            });
            return waited.unwrap_or_else(|error| {
                let reason = format!("a thread that can wait is needed: {error}");
                Err(cause::resource_unavailable(action, reason).into())
            });
        }
        // Timers and tasks belong to the runtime, even when the future is dropped.
        let _guard = inner.context.runtime.enter();
        let waited = catch_unwind(AssertUnwindSafe(|| {
            blocking::wait(&inner.context, action, awaited, wait, needs_runtime)
        }));
        if let Ok(waited) = waited {
            return waited;
        }
        // A second panic adds no information.
        let _ = catch_unwind(AssertUnwindSafe(|| awaited.drop_future()));
        Err(match inner.context.record_panic() {
            Cause::Closed => closed().into(),
            cause => cause.error(action, Outcome::Unknown).into(),
        })
    }

    /// Takes a permit for one more producer of items.
    pub(crate) fn permit(&self, action: &str) -> Result<Permit, Error> {
        self.usable()?.context.limiter.permit(action)
    }
}

impl Inner {
    /// Refuses with [`ErrorKind::Internal`] after a panic, and with [`ErrorKind::Closed`] after the runtime failed.
    fn check(&self) -> Result<(), Error> {
        if self.context.has_failed() {
            return Err(cause::runtime_failed("the client", Outcome::NotDone));
        }
        if self.context.is_poisoned() {
            return Err(cause::poisoned());
        }
        Ok(())
    }

    /// Stores the newly connected core client. Returns it for closing if this client was closed meanwhile. `core` is called at
    /// the last moment.
    fn store_core(&self, core: impl FnOnce() -> statestore::Client) -> Option<&statestore::Client> {
        // Only the thread that took the settings comes here.
        let core = self.core.get_or_init(core);
        // The order matters: closing sets the flag first and looks for the core client then, so that one side sees the other.
        fence(Ordering::SeqCst);
        self.context.is_closed().then_some(core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestored::RunningServer;
    use statestored::config::Config;

    #[test]
    fn a_connection_made_while_the_client_closes_is_returned() {
        let server = RunningServer::start(Config::in_memory()).unwrap();
        let settings = || Settings::from_url(&server.url()).unwrap();
        // This client keeps the runtime alive.
        let first = Client::new(settings()).unwrap();
        let connect = async { Ok(statestore::Client::connect(settings()).await?) };
        let core = first
            .wait("connecting", connect, WaitOptions::default())
            .unwrap();
        let client = Client::new(settings()).unwrap();
        let inner = client.inner().unwrap();
        let given_back = inner.store_core(|| {
            // As another thread may do at this moment.
            client.close(WaitOptions::default()).unwrap();
            core.clone()
        });
        assert!(given_back.is_some());
        first.close(WaitOptions::default()).unwrap();
    }
}
