//! Waiting on a thread of the foreign side.
use crate::cause;
use crate::client_context::ClientContext;
use crate::error::{Error, ErrorKind};
use crate::executor::Poller;
use crate::waiter::Waiter;
use statestore::{CancellationRecorder, Outcome};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The longest time between two calls of an interruption hook.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// Limits of a wait: deadline and interruption.
#[derive(Default)]
pub struct WaitOptions<'a> {
    /// Deadline of the wait; `None` waits without a limit. After the deadline, there is only one check for a result. Operations
    /// have their own time-outs, which report an exact outcome; this deadline is for events.
    pub deadline: Option<Instant>,
    /// Called at least every 50 ms, for the first time after that long; waiting ends when it returns `true`.
    pub interrupt: Option<&'a mut dyn FnMut() -> bool>,
    /// Whether the wait is for an event without a time limit: a change of a key, the loss of a lock, a lock that another holder
    /// holds. The thread then only sleeps. Otherwise all connections would depend on this thread, whatever its priority is.
    pub for_event: bool,
}

impl WaitOptions<'_> {
    /// Returns the same limits for a wait before this one.
    pub(crate) fn reborrow(&mut self) -> WaitOptions<'_> {
        WaitOptions {
            deadline: self.deadline,
            interrupt: match &mut self.interrupt {
                Some(interrupt) => Some(&mut **interrupt),
                None => None,
            },
            for_event: self.for_event,
        }
    }
}

impl std::fmt::Debug for WaitOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitOptions")
            .field("deadline", &self.deadline)
            .field("interrupt", &self.interrupt.is_some())
            .field("for_event", &self.for_event)
            .finish()
    }
}

/// Why waiting ended without a result. The future was dropped.
#[derive(Debug)]
pub enum WaitError {
    /// The deadline passed.
    TimedOut,
    /// The interrupt hook returned `true`.
    Interrupted,
    /// The call could not be made, or the client failed.
    Failed(Error),
}

impl From<Error> for WaitError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl WaitError {
    /// Converts the reason to an error of `action`.
    pub fn into_error(self, action: &str) -> Error {
        let (kind, outcome, reason) = match self {
            // A wait with a deadline is for an event, which did not come.
            Self::TimedOut => (
                ErrorKind::TimedOut,
                Outcome::NotDone,
                "nothing came in time",
            ),
            Self::Interrupted => (
                ErrorKind::Cancelled,
                Outcome::Unknown,
                "waiting was interrupted",
            ),
            Self::Failed(error) => return error,
        };
        Error::new(kind, outcome, action, reason)
    }
}

/// An operation that a thread waits for. The trait hides the type of its result, so that the waiting code is compiled only
/// once.
pub(crate) trait ErasedFuture: Send {
    /// Polls the operation; ready once it has a result.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Drops the operation.
    fn drop_future(&mut self);
}

struct FutureWithOutput<'a, F: Future> {
    future: Pin<&'a mut Option<F>>,
    output: &'a mut Option<F::Output>,
}

impl<F: Future + Send> ErasedFuture for FutureWithOutput<'_, F>
where
    F::Output: Send,
{
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let polled = match self.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        };
        polled.map(|output| *self.output = Some(output))
    }

    fn drop_future(&mut self) {
        self.future.set(None);
    }
}

/// Waits for a future by means of `wait`, and returns its result.
pub(crate) fn wait_for_output<F>(
    future: F,
    wait: impl FnOnce(&mut dyn ErasedFuture) -> Result<(), WaitError>,
) -> Result<F::Output, WaitError>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut output = None;
    let waited = wait(&mut FutureWithOutput {
        future: pin!(Some(future)),
        output: &mut output,
    });
    // A wait that ends without a result was interrupted.
    waited.and_then(|()| output.ok_or(WaitError::Interrupted))
}

/// Polls on this thread until `awaited` is ready, and drives the runtime meanwhile if no other thread has to. Then drops what
/// is awaited. Stops if the runtime fails, unless `awaited` does not need it.
pub(crate) fn wait(
    client_context: &ClientContext,
    action: &str,
    awaited: &mut dyn ErasedFuture,
    wait: WaitOptions<'_>,
    needs_runtime: bool,
) -> Result<(), WaitError> {
    let is_event = wait.for_event;
    let _blocked = (!is_event).then(|| client_context.registry.register_blocked());
    let mut interrupted = pin!(client_context.interrupted.notified());
    let mut is_over = false;
    let waited = wait_until(client_context, wait, &mut |context| {
        if awaited.poll(context).is_pending() {
            let polled = interrupted.as_mut().poll(context);
            // Checked after the registration of the waker.
            if needs_runtime && client_context.has_failed() {
                return Poll::Ready(());
            }
            return polled;
        }
        is_over = true;
        Poll::Ready(())
    });
    if is_over || waited.is_err() {
        awaited.drop_future();
        return waited;
    }
    // The dropped operation reports the outcome of its requests.
    let abandoned = CancellationRecorder::begin();
    awaited.drop_future();
    let otherwise = if is_event {
        Outcome::NotDone
    } else {
        Outcome::Unknown
    };
    let outcome = abandoned.outcome().unwrap_or(otherwise);
    if needs_runtime && client_context.has_failed() {
        return Err(cause::runtime_failed(action, outcome).into());
    }
    let reason = "waiting was interrupted";
    Err(Error::new(ErrorKind::Cancelled, outcome, action, reason).into())
}

/// Waits until `poll` is ready.
fn wait_until(
    client_context: &ClientContext,
    mut wait: WaitOptions<'_>,
    poll: &mut Poller<'_>,
) -> Result<(), WaitError> {
    let waiter = Arc::<Waiter>::default();
    // A check after the deadline must not delay other threads, so it does not take over the runtime.
    if wait.deadline.is_some_and(|at| Instant::now() >= at) {
        return match waiter.poll(poll) {
            Poll::Ready(()) => Ok(()),
            Poll::Pending => Err(WaitError::TimedOut),
        };
    }
    let mut interrupt_at = wait
        .interrupt
        .is_some()
        .then(|| Instant::now() + INTERRUPT_INTERVAL);
    loop {
        // Not by an iterator: optimised, that compares absent times as well, which Memcheck reports.
        let until = match (interrupt_at, wait.deadline) {
            (Some(interrupt_at), Some(deadline)) => Some(interrupt_at.min(deadline)),
            (at, None) | (None, at) => at,
        };
        let polled = if wait.for_event {
            waiter.sleep(poll, until)
        } else {
            waiter.wait(&client_context.handoff, poll, until)
        };
        if polled.is_ready() {
            return Ok(());
        }
        if until.is_none() {
            continue;
        }
        let now = Instant::now();
        if let Some(interrupt) = &mut wait.interrupt
            && interrupt_at.is_some_and(|at| now >= at)
        {
            if interrupt() {
                return Err(WaitError::Interrupted);
            }
            interrupt_at = Some(now + INTERRUPT_INTERVAL);
        }
        if wait.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(WaitError::TimedOut);
        }
    }
}
