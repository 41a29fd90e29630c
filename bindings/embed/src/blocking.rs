//! Waiting on a thread of the foreign side.
use crate::home::Home;
use statestore::{Error, ErrorKind, Outcome};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The longest time between two calls of an interruption hook.
const INTERRUPTION: Duration = Duration::from_millis(50);

/// How long to wait, and what may end that.
#[derive(Default)]
pub struct Wait<'a> {
    /// When to give up; `None` for never. The operations have time-outs of their own, which end them with an honest
    /// error; this one is for waiting for events.
    pub deadline: Option<Instant>,
    /// Called at least every 50 ms, for the first time after that long; waiting ends when it returns `true`.
    pub interrupt: Option<&'a mut dyn FnMut() -> bool>,
}

impl std::fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait")
            .field("deadline", &self.deadline)
            .field("interrupt", &self.interrupt.is_some())
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

/// Wakes the thread that waits.
struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

impl Parked {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            thread: std::thread::current(),
            is_woken: AtomicBool::new(false),
        })
    }

    /// Polls, and sleeps until it is woken for that again or until `until`.
    fn sleep(self: &Arc<Self>, poll: &mut Poller<'_>, until: Option<Instant>) -> Poll<()> {
        loop {
            if self.poll(poll).is_ready() {
                return Poll::Ready(());
            }
            while !self.is_woken.load(Ordering::Acquire) {
                let Some(until) = until else {
                    std::thread::park();
                    continue;
                };
                let time = until.saturating_duration_since(Instant::now());
                if time.is_zero() {
                    return Poll::Pending;
                }
                std::thread::park_timeout(time);
            }
        }
    }

    fn poll(self: &Arc<Self>, poll: &mut Poller<'_>) -> Poll<()> {
        self.is_woken.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(self));
        poll(&mut Context::from_waker(&waker))
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
    let parked = Parked::new();
    let mut interrupt_at = wait
        .interrupt
        .is_some()
        .then(|| Instant::now() + INTERRUPTION);
    loop {
        let until = interrupt_at.into_iter().chain(wait.deadline).min();
        let polled = match home.baton.take() {
            Some(turn) => turn.drive(poll, until),
            None => beside(home, &parked, poll, until),
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
