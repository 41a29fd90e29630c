//! Waiting on a thread of the foreign side.
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
        let (kind, reason) = match self {
            Self::TimedOut => (ErrorKind::TimedOut, "nothing came in time"),
            Self::Interrupted => (ErrorKind::Cancelled, "waiting was interrupted"),
            Self::Failed(error) => return error,
        };
        Error::new(kind, Outcome::Unknown, action, reason)
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

/// Polls the future on this thread until it is ready.
pub(crate) fn wait<F: Future>(future: F, mut wait: Wait<'_>) -> Result<F::Output, Stopped> {
    let mut future = pin!(future);
    let parked = Arc::new(Parked {
        thread: std::thread::current(),
        is_woken: AtomicBool::new(true),
    });
    let waker = Waker::from(Arc::clone(&parked));
    let mut context = Context::from_waker(&waker);
    let mut interrupt_at = Instant::now() + INTERRUPTION;
    loop {
        if parked.is_woken.swap(false, Ordering::AcqRel)
            && let Poll::Ready(output) = future.as_mut().poll(&mut context)
        {
            return Ok(output);
        }
        let now = Instant::now();
        if let Some(interrupt) = &mut wait.interrupt
            && now >= interrupt_at
        {
            if interrupt() {
                return Err(Stopped::Interrupted);
            }
            interrupt_at = now + INTERRUPTION;
        }
        if wait.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(Stopped::TimedOut);
        }
        let next = match (&wait.interrupt, wait.deadline) {
            (Some(_), Some(deadline)) => Some(deadline.min(interrupt_at)),
            (Some(_), None) => Some(interrupt_at),
            (None, deadline) => deadline,
        };
        if parked.is_woken.load(Ordering::Acquire) {
            continue;
        }
        match next {
            None => std::thread::park(),
            Some(next) => std::thread::park_timeout(next.saturating_duration_since(now)),
        }
    }
}
