//! Closing a client.
use crate::action::Action;
use crate::batch;
use crate::blocking::{Stopped, Wait};
use crate::cause::wrong_thread;
use crate::client::{Client, Inner};
use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::locking::lock;
use crate::mailbox::Mailbox;
use crate::operation::{self, Operation};
use crate::process::OfProcess;
use crate::registry::Kind;
use crate::runtime::Share;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

const CLOSING: &str = "closing the client";

/// Closes a client in the background if it is dropped before that was done.
struct Closing(OfProcess<Arc<Inner>>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Ok(inner) = self.0.get() {
            inner.close_in_background();
        }
    }
}

impl Inner {
    /// Refuses new operations and waits for those under way, for `timeout` at most and only while there is a connection.
    pub(crate) async fn finish_begun(&self, timeout: Duration) {
        let cannot_finish = self.home.is_poisoned() || self.home.has_failed();
        if timeout.is_zero() || self.home.is_closed() || cannot_finish {
            return;
        }
        self.home.begin_closing();
        let Some(core) = self.core.get() else { return };
        let mut state = core.state();
        tokio::select! {
            () = self.home.registry.drained() => {}
            _ = state.wait_for(|state| !state.is_connected()) => {}
            () = tokio::time::sleep(timeout) => {}
        }
    }

    /// Closes it, without waiting for operations, callbacks and threads.
    pub(crate) async fn close(&self) {
        if self.home.has_failed() {
            self.abandon();
            return;
        }
        self.home.admission.close();
        fence(Ordering::SeqCst);
        let mut is_ended = self.is_ended.lock().await;
        if *is_ended {
            // The runtime may be gone.
            return;
        }
        if let Some(core) = self.core.get() {
            core.close_within(Duration::ZERO).await;
        }
        self.home.registry.end();
        // Unless this is one of them.
        if !batch::is_running() {
            self.home.registry.emptied().await;
        }
        self.stop_dispatcher();
        *is_ended = true;
        let share = lock(&self.share).take();
        *lock(&self.ending) = share.and_then(Share::end);
    }

    /// Closes it without waiting, unless that was done.
    pub(crate) fn close_in_background(self: &Arc<Self>) {
        let is_ended = self.is_ended.try_lock();
        if !is_ended.is_ok_and(|is_ended| *is_ended) {
            let inner = Arc::clone(self);
            if !self.home.spawn(async move { inner.close().await }) {
                self.abandon();
            }
        }
    }

    /// Closes it without the runtime, which failed.
    pub(crate) fn abandon(&self) {
        self.home.admission.close();
        self.home.registry.end();
        self.stop_dispatcher();
        if let Ok(mut is_ended) = self.is_ended.try_lock() {
            *is_ended = true;
        }
        let share = lock(&self.share).take();
        drop(share);
    }

    pub(crate) fn stop_dispatcher(&self) {
        if let Some(lane) = &self.lane {
            lane.stop();
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
        let home = self.usable().map(|inner| Arc::clone(&inner.home));
        async move {
            home?.registry.drained().await;
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
        let inner = inner.inspect(|inner| inner.home.begin_closing());
        let closing = inner.map(|inner| Closing(OfProcess::new(inner)));
        async move {
            let closing = closing?;
            let inner = closing.0.get()?;
            inner.finish_begun(timeout).await;
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
        let home = &self.inner()?.home;
        let permit = home.admission.permit_to_end()?;
        let (close, mailbox) = (self.finish_async(timeout), Arc::clone(mailbox));
        let complete = |result| complete(Self::or_closed(result));
        // The operations to finish do not include this one.
        Ok(Operation::begin(home, Kind::Event, |reason| {
            let body = operation::body_of_end(CLOSING, close, mailbox, complete, permit, reason);
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
        action: impl Into<Action>,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        mailbox: &Arc<Mailbox<M>>,
        complete: impl FnOnce(Result<T, Error>) -> M + Send + 'static,
    ) -> Result<Operation, Error> {
        let Action { name, kind } = action.into();
        let home = &self.running()?.home;
        let permit = home.admission.permit_to_end()?;
        let mailbox = Arc::clone(mailbox);
        Ok(Operation::begin(home, kind, |reason| {
            let body = operation::body_of_end(name, future, mailbox, complete, permit, reason);
            Some(body)
        }))
    }

    /// Converts the result of [`close_async`](Self::close_async) as an operation: a client that another thread closed is no failure.
    ///
    /// # Errors
    /// Any other than [`ErrorKind::Closed`].
    pub fn or_closed(result: Result<(), Error>) -> Result<(), Error> {
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
    pub fn finish(&self, timeout: Duration, mut wait: Wait<'_>) -> Result<(), Stopped> {
        self.check_may_close()?;
        let inner = Arc::clone(self.inner()?);
        match self.finish_or_stop(&inner, timeout, &mut wait) {
            Ok(()) | Err(Stopped::TimedOut) => Ok(()),
            Err(_) if inner.home.has_failed() => Ok(()),
            stopped => {
                inner.close_in_background();
                stopped
            }
        }
    }

    /// Returns the client, if it accepts operations of this kind. A wait for the loss of a lock is accepted even while requests
    /// are being finished.
    pub(crate) fn admitting(&self, kind: Kind) -> Result<&Arc<Inner>, Error> {
        match kind {
            Kind::Event => self.running(),
            Kind::Request => self.usable(),
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

    /// Waits for the operations under way, and meanwhile runs the callbacks that wait in its lane.
    fn finish_or_stop(
        &self,
        inner: &Arc<Inner>,
        timeout: Duration,
        wait: &mut Wait<'_>,
    ) -> Result<(), Stopped> {
        let mut finishing = pin!(inner.finish_begun(timeout));
        loop {
            let finished = async {
                let Some(lane) = &inner.lane else {
                    finishing.as_mut().await;
                    return Ok(true);
                };
                Ok(tokio::select! {
                    biased;
                    () = finishing.as_mut() => true,
                    () = lane.changed() => false,
                })
            };
            let wait_here = Wait {
                // Closing does not wait for this thread.
                for_event: true,
                ..wait.again()
            };
            if self.wait_for_end(CLOSING, finished, wait_here)? {
                return Ok(());
            }
            if let Some(lane) = &inner.lane {
                let turn = lane.lanes().turn(wait.deadline);
                turn.ok_or(Stopped::TimedOut)?.drain(lane)?;
            }
        }
    }

    /// Closes the client, and waits until the last callback has returned and the threads have ended. Callbacks that wait in its
    /// [queue](crate::Queue) run here. If the wait ends early, closing continues in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; [`ErrorKind::WrongThread`] in a callback of this client, or of one with the same queue: nothing
    /// happens in this case.
    pub fn close(&self, mut wait: Wait<'_>) -> Result<(), Stopped> {
        self.check_may_close()?;
        let inner = Arc::clone(self.inner()?);
        let mut closed = self.close_or_stop(&inner, wait.again());
        if closed.is_err() && inner.home.has_failed() {
            inner.abandon();
            closed = self.close_or_stop(&inner, wait);
        } else if closed.is_err() {
            inner.close_in_background();
        }
        closed
    }

    fn close_or_stop(&self, inner: &Arc<Inner>, mut wait: Wait<'_>) -> Result<(), Stopped> {
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
            wait.again(),
        )?;
        if let Some(lane) = &inner.lane {
            self.finish_lane(lane, &mut wait)?;
        }
        if let Some(dispatcher) = inner.dispatcher.get() {
            dispatcher.join();
        }
        let ending = lock(&inner.ending).clone();
        if let Some(runtime) = ending {
            runtime.join();
        }
        Ok(())
    }

    /// Runs the remaining callbacks in its lane, until no more can arrive.
    fn finish_lane(&self, lane: &Lane, wait: &mut Wait<'_>) -> Result<(), Stopped> {
        while !lane.is_over() {
            let turn = lane.lanes().turn(wait.deadline);
            turn.ok_or(Stopped::TimedOut)?.drain(lane)?;
            let changed = async {
                lane.changed().await;
                Ok(())
            };
            self.wait_for_end(CLOSING, changed, wait.again())?;
        }
        Ok(())
    }

    /// Closes the client like [`close`](Self::close), until a deadline; closing then continues in the background.
    ///
    /// # Errors
    /// The errors of [`close`](Self::close), and [`Stopped::TimedOut`].
    pub fn close_within(&self, deadline: Instant) -> Result<(), Stopped> {
        self.close(Wait {
            deadline: Some(deadline),
            ..Wait::default()
        })
    }
}
