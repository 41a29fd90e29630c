//! Waiting on a thread of the foreign side.
use crate::error::{Error, ErrorKind};
use crate::home::Home;
use statestore::Outcome;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// The longest time between two calls of an interruption hook.
const INTERRUPTION: Duration = Duration::from_millis(50);

/// How long to wait, and what may end that.
#[derive(Default)]
pub struct Wait<'a> {
    /// When to give up; `None` for never. If that is over, there is only a look at what is there. The operations have time-outs of their own, which end them with an honest
    /// error; this one is for waiting for events.
    pub deadline: Option<Instant>,
    /// Called at least every 50 ms, for the first time after that long; waiting ends when it returns `true`.
    pub interrupt: Option<&'a mut dyn FnMut() -> bool>,
    /// What is waited for is an event, which may take any time to come: a change of a key, the loss of a lock, a lock that
    /// others have. The thread only sleeps meanwhile; otherwise it would be the one, at whatever priority it has, on which all
    /// connections depend.
    pub for_event: bool,
}

impl std::fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait")
            .field("deadline", &self.deadline)
            .field("interrupt", &self.interrupt.is_some())
            .field("for_event", &self.for_event)
            .finish()
    }
}

/// Why waiting ended without a result. The future was dropped.
#[derive(Debug)]
pub enum Stopped {
    /// The deadline passed.
    TimedOut,
    /// The hook said so.
    Interrupted,
    /// The call could not be made, or the client failed.
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Stopped {
    /// As an error of what was tried.
    pub fn into_error(self, action: &str) -> Error {
        let (kind, outcome, reason) = match self {
            // What is waited for with a deadline is an event, which did not come.
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

/// Wakes the thread that waits. The handle that the standard library has for each thread would do as well, but one of a foreign
/// thread is never freed if the thread is the first one, and cannot be had any more when the thread ends.
#[derive(Default)]
struct Parked {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !std::mem::replace(&mut *self.is_woken(), true) {
            self.changed.notify_one();
        }
    }
}

impl Parked {
    /// Polls, and sleeps until it is woken for that again or until `until`.
    fn sleep(self: &Arc<Self>, poll: &mut Poller<'_>, until: Option<Instant>) -> Poll<()> {
        loop {
            if self.poll(poll).is_ready() {
                return Poll::Ready(());
            }
            let mut is_woken = self.is_woken();
            while !*is_woken {
                let Some(until) = until else {
                    let waited = self.changed.wait(is_woken);
                    is_woken = waited.unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let time = until.saturating_duration_since(Instant::now());
                if time.is_zero() {
                    return Poll::Pending;
                }
                let waited = self.changed.wait_timeout(is_woken, time);
                is_woken = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn poll(self: &Arc<Self>, poll: &mut Poller<'_>) -> Poll<()> {
        *self.is_woken() = false;
        let waker = Waker::from(Arc::clone(self));
        poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> MutexGuard<'_, bool> {
        self.is_woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future whose output goes elsewhere, so that the code that waits is there once for all of them.
type Poller<'a> = dyn FnMut(&mut Context<'_>) -> Poll<()> + 'a;

/// Polls the future on this thread until it is ready, and drives the runtime meanwhile if nobody else has to.
pub(crate) fn wait<F: Future>(
    home: &Home,
    future: F,
    wait: Wait<'_>,
) -> Result<F::Output, Stopped> {
    let mut future = pin!(future);
    let mut output = None;
    wait_until(home, wait, &mut |context| {
        let polled = future.as_mut().poll(context);
        polled.map(|ready| output = Some(ready))
    })?;
    // It is there now; without it, nothing has come.
    output.ok_or(Stopped::TimedOut)
}

/// Waits until `poll` is ready.
fn wait_until(home: &Home, mut wait: Wait<'_>, poll: &mut Poller<'_>) -> Result<(), Stopped> {
    let parked = Arc::<Parked>::default();
    // A look must not cost others anything: it takes the runtime from nobody.
    if wait.deadline.is_some_and(|at| Instant::now() >= at) {
        return match parked.poll(poll) {
            Poll::Ready(()) => Ok(()),
            Poll::Pending => Err(Stopped::TimedOut),
        };
    }
    let mut interrupt_at = wait
        .interrupt
        .is_some()
        .then(|| Instant::now() + INTERRUPTION);
    loop {
        let until = interrupt_at.into_iter().chain(wait.deadline).min();
        let polled = if wait.for_event {
            parked.sleep(poll, until)
        } else if let Some(turn) = home.baton.take() {
            turn.drive(poll, until)
        } else {
            beside(home, &parked, poll, until)
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
                return Err(Stopped::Interrupted);
            }
            interrupt_at = Some(now + INTERRUPTION);
        }
        if wait.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(Stopped::TimedOut);
        }
    }
}

/// Waits while somebody else drives the runtime; takes its place if that is its own thread and nobody else waits.
fn beside(
    home: &Home,
    parked: &Arc<Parked>,
    poll: &mut Poller<'_>,
    until: Option<Instant>,
) -> Poll<()> {
    if parked.poll(poll).is_ready() {
        return Poll::Ready(());
    }
    if let Some(turn) = home.baton.ask(until) {
        return turn.drive(poll, until);
    }
    let _beside = home.baton.wait_beside();
    parked.sleep(poll, until)
}
