//! Closing a client.
use crate::batch;
use crate::blocking::{WaitError, WaitOptions};
use crate::callback_queue::CallbackQueue;
use crate::cause::wrong_thread;
use crate::client::{Client, Inner};
use crate::error::{Error, ErrorKind};
use crate::mailbox::Mailbox;
use crate::mutex::lock;
use crate::operation::{self, Operation};
use crate::operation_descriptor::OperationDescriptor;
use crate::process::ProcessBound;
use crate::registry::OperationKind;
use crate::runtime::RuntimeShare;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

const CLOSING: &str = "closing the client";

/// Closes a client in the background if it is dropped before that was done.
struct CloseOnDrop(ProcessBound<Arc<Inner>>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Ok(inner) = self.0.get() {
            inner.close_in_background();
        }
    }
}

impl Inner {
    /// Refuses new operations and waits for those under way, for `timeout` at most and only while there is a connection.
    pub(crate) async fn drain_operations(&self, timeout: Duration) {
        let cannot_finish = self.context.is_poisoned() || self.context.has_failed();
        if timeout.is_zero() || self.context.is_closed() || cannot_finish {
            return;
        }
        self.context.begin_closing();
        let Some(core) = self.core.get() else { return };
        let mut state = core.state();
        tokio::select! {
            () = self.context.registry.drained() => {}
            _ = state.wait_for(|state| !state.is_connected()) => {}
            () = tokio::time::sleep(timeout) => {}
        }
    }

    /// Closes it, without waiting for operations, callbacks and threads.
    pub(crate) async fn close(&self) {
        if self.context.has_failed() {
            self.abandon();
            return;
        }
        self.context.limiter.close();
        fence(Ordering::SeqCst);
        let mut is_ended = self.is_fully_closed.lock().await;
        if *is_ended {
            // The runtime may be gone.
            return;
        }
        if let Some(core) = self.core.get() {
            core.close_within(Duration::ZERO).await;
        }
        self.context.registry.close_tasks();
        // Unless this is one of them.
        if !batch::is_running() {
            self.context.registry.emptied().await;
        }
        self.stop_dispatcher();
        *is_ended = true;
        let share = lock(&self.runtime_share).take();
        *lock(&self.ending_runtime) = share.and_then(RuntimeShare::release);
    }

    /// Closes it without waiting, unless that was done.
    pub(crate) fn close_in_background(self: &Arc<Self>) {
        let is_ended = self.is_fully_closed.try_lock();
        if !is_ended.is_ok_and(|is_ended| *is_ended) {
            let inner = Arc::clone(self);
            if !self.context.spawn(async move { inner.close().await }) {
                self.abandon();
            }
        }
    }

    /// Closes it without the runtime, which failed.
    pub(crate) fn abandon(&self) {
        self.context.limiter.close();
        self.context.registry.close_tasks();
        self.stop_dispatcher();
        if let Ok(mut is_ended) = self.is_fully_closed.try_lock() {
            *is_ended = true;
        }
        let share = lock(&self.runtime_share).take();
        drop(share);
    }

    pub(crate) fn stop_dispatcher(&self) {
        if let Some(callback_queue) = &self.callback_queue {
            callback_queue.stop();
        }
        if let Some(dispatcher) = self.dispatcher.get() {
            dispatcher.stop();
        }
    }
}

impl Client {
    /// Waits until every request has ended and no thread waits for one: closing then cuts nothing off. Requests that begin
    /// meanwhile count. Waits for events do not count, such as observations, or locks of other holders.
    pub fn drain(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let context = self.usable().map(|inner| Arc::clone(&inner.context));
        async move {
            context?.registry.drained().await;
            Ok(())
        }
    }

    /// Closes the connection, ends all operations that are under way, and stops the runtime if no other client is left. Closing
    /// again does nothing.
    ///
    /// A callback may submit this, because closing does not wait for the callbacks. Dropping the future, even an unpolled one,
    /// lets closing continue in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn close_async(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        self.finish_async(Duration::ZERO)
    }

    /// Closes like [`close_async`](Self::close_async), after finishing the operations under way. It finishes them for `timeout`
    /// at most, and only while there is a connection; new ones are refused meanwhile. Dropping the future ends the wait and
    /// closes the client in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn finish_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let inner = self.inner().cloned();
        // From here on, also if the future is polled later.
        let inner = inner.inspect(|inner| inner.context.begin_closing());
        let closing = inner.map(|inner| CloseOnDrop(ProcessBound::new(inner)));
        async move {
            let closing = closing?;
            let inner = closing.0.get()?;
            inner.drain_operations(timeout).await;
            inner.close().await;
            Ok(())
        }
    }

    /// Begins closing as an operation: [`submit`](Self::submit) with [`finish_async`](Self::finish_async). It succeeds even if
    /// another thread closes the client at the same time, after a panic, and with too many operations under way.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; [`ErrorKind::Closed`] if it is closed already.
    pub fn submit_close<M: Send + 'static>(
        &self,
        timeout: Duration,
        mailbox: &Arc<Mailbox<M>>,
        complete: impl FnOnce(Result<(), Error>) -> M + Send + 'static,
    ) -> Result<Operation, Error> {
        let context = &self.inner()?.context;
        let permit = context.limiter.unlimited_permit()?;
        let (close, mailbox) = (self.finish_async(timeout), Arc::clone(mailbox));
        let complete = |result| complete(Self::ignore_closed(result));
        // The operations to finish do not include this one.
        Ok(Operation::begin(context, OperationKind::Event, |reason| {
            let body = operation::release_future(CLOSING, close, mailbox, complete, permit, reason);
            Some(body)
        }))
    }

    /// Submits an operation without the limit on operations under way, for operations that exist at most once per object.
    /// Examples are releasing a lock and noticing its loss. If it is cancelled, its outcome is unknown, since it continues in
    /// the background.
    ///
    /// # Errors
    /// The errors of [`submit`](Self::submit), except [`ErrorKind::QueueFull`].
    pub fn submit_return<T: Send + 'static, M: Send + 'static>(
        &self,
        action: impl Into<OperationDescriptor>,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        mailbox: &Arc<Mailbox<M>>,
        complete: impl FnOnce(Result<T, Error>) -> M + Send + 'static,
    ) -> Result<Operation, Error> {
        let OperationDescriptor { name, kind } = action.into();
        let context = &self.running()?.context;
        let permit = context.limiter.unlimited_permit()?;
        let mailbox = Arc::clone(mailbox);
        Ok(Operation::begin(context, kind, |reason| {
            let body = operation::release_future(name, future, mailbox, complete, permit, reason);
            Some(body)
        }))
    }

    /// Converts the result of [`close_async`](Self::close_async) as an operation: a client that another thread closed is no failure.
    ///
    /// # Errors
    /// Any other than [`ErrorKind::Closed`].
    pub fn ignore_closed(result: Result<(), Error>) -> Result<(), Error> {
        result.or_else(|error| match error.kind() {
            ErrorKind::Closed => Ok(()),
            _ => Err(error),
        })
    }

    /// Refuses new operations, and waits for the operations and blocking calls under way: for `timeout` at most and only while there is
    /// a connection. Then the client is to be [closed](Self::close); it is closed in the background if the wait is interrupted.
    ///
    /// # Errors
    /// The errors of [`close`](Self::close).
    pub fn finish(&self, timeout: Duration, mut wait: WaitOptions<'_>) -> Result<(), WaitError> {
        self.check_may_close()?;
        let inner = Arc::clone(self.inner()?);
        match self.wait_until_finished(&inner, timeout, &mut wait) {
            Ok(()) | Err(WaitError::TimedOut) => Ok(()),
            Err(_) if inner.context.has_failed() => Ok(()),
            stopped => {
                inner.close_in_background();
                stopped
            }
        }
    }

    /// Returns the client, if it accepts operations of this kind. A wait for the loss of a lock is accepted even while requests
    /// are being finished.
    pub(crate) fn accepting(&self, kind: OperationKind) -> Result<&Arc<Inner>, Error> {
        match kind {
            OperationKind::Event => self.running(),
            OperationKind::Request => self.usable(),
        }
    }

    /// Rejects closing on the thread that runs the callbacks, because closing waits for them.
    fn check_may_close(&self) -> Result<(), Error> {
        if self.is_in_callback() {
            let reason = "a callback of the client cannot wait for the callbacks; close it from another thread";
            return Err(wrong_thread(CLOSING, reason));
        }
        Ok(())
    }

    /// Waits for the operations under way, and meanwhile runs the callbacks that wait in its queue.
    fn wait_until_finished(
        &self,
        inner: &Arc<Inner>,
        timeout: Duration,
        wait: &mut WaitOptions<'_>,
    ) -> Result<(), WaitError> {
        let mut finishing = pin!(inner.drain_operations(timeout));
        loop {
            let finished = async {
                let Some(callback_queue) = &inner.callback_queue else {
                    finishing.as_mut().await;
                    return Ok(true);
                };
                Ok(tokio::select! {
                    biased;
                    () = finishing.as_mut() => true,
                    () = callback_queue.changed() => false,
                })
            };
            let wait_here = WaitOptions {
                // Closing does not wait for this thread.
                for_event: true,
                ..wait.reborrow()
            };
            if self.wait_for_end(CLOSING, finished, wait_here)? {
                return Ok(());
            }
            if let Some(callback_queue) = &inner.callback_queue {
                let runner = callback_queue.queues().acquire_runner(wait.deadline);
                runner.ok_or(WaitError::TimedOut)?.drain(callback_queue)?;
            }
        }
    }

    /// Closes the client, and waits until the last callback has returned and the threads have ended. Callbacks that wait in its
    /// [queue](crate::Queue) run here. If the wait ends early, closing continues in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; [`ErrorKind::WrongThread`] in a callback of this client, or of one with the same queue: nothing
    /// happens in this case.
    pub fn close(&self, mut wait: WaitOptions<'_>) -> Result<(), WaitError> {
        self.check_may_close()?;
        let inner = Arc::clone(self.inner()?);
        let mut closed = self.wait_until_closed(&inner, wait.reborrow());
        if closed.is_err() && inner.context.has_failed() {
            inner.abandon();
            closed = self.wait_until_closed(&inner, wait);
        } else if closed.is_err() {
            inner.close_in_background();
        }
        closed
    }

    fn wait_until_closed(
        &self,
        inner: &Arc<Inner>,
        mut wait: WaitOptions<'_>,
    ) -> Result<(), WaitError> {
        let closing = Arc::clone(inner);
        self.wait_for_end(
            CLOSING,
            async move {
                closing.close().await;
                if let Some(dispatcher) = closing.dispatcher.get() {
                    dispatcher.ended().await;
                }
                Ok(())
            },
            wait.reborrow(),
        )?;
        if let Some(callback_queue) = &inner.callback_queue {
            self.drain_callback_queue(callback_queue, &mut wait)?;
        }
        if let Some(dispatcher) = inner.dispatcher.get() {
            dispatcher.join();
        }
        let ending = lock(&inner.ending_runtime).clone();
        if let Some(runtime) = ending {
            runtime.join();
        }
        Ok(())
    }

    /// Runs the remaining callbacks in its queue, until no more can arrive.
    fn drain_callback_queue(
        &self,
        callback_queue: &CallbackQueue,
        wait: &mut WaitOptions<'_>,
    ) -> Result<(), WaitError> {
        while !callback_queue.is_finished() {
            let runner = callback_queue.queues().acquire_runner(wait.deadline);
            runner.ok_or(WaitError::TimedOut)?.drain(callback_queue)?;
            let changed = async {
                callback_queue.changed().await;
                Ok(())
            };
            self.wait_for_end(CLOSING, changed, wait.reborrow())?;
        }
        Ok(())
    }

    /// Closes the client like [`close`](Self::close), until a deadline; closing then continues in the background.
    ///
    /// # Errors
    /// The errors of [`close`](Self::close), and [`WaitError::TimedOut`].
    pub fn close_within(&self, deadline: Instant) -> Result<(), WaitError> {
        self.close(WaitOptions {
            deadline: Some(deadline),
            ..WaitOptions::default()
        })
    }
}
