//! The thread that runs the callbacks of a client.
use crate::client_context::ClientContext;
use crate::mailbox::Mailbox;
use crate::operation_limiter::IdleHook;
use crate::process::{self, Process};
use crate::thread;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use tokio::sync::watch;

/// A call of a callback.
pub type Job = Box<dyn FnOnce() + Send>;

/// Items taken at a time; after them it looks whether it is to end.
const BATCH: usize = 1024;

thread_local! {
    /// Address that identifies the dispatcher of this thread. Unlike the handle of a thread, it needs no memory and remains
    /// valid to the end.
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

/// A thread that runs jobs one after the other, until it is stopped and every begun operation has finished.
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: Process,
}

struct Shared {
    mailbox: Arc<Mailbox<Job>>,
    waker: Arc<ThreadWaker>,
    context: Arc<ClientContext>,
    is_stopping: AtomicBool,
    has_ended: watch::Sender<bool>,
}

/// Wakes the thread.
#[derive(Debug, Default)]
struct ThreadWaker(OnceLock<Thread>);

impl ThreadWaker {
    fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

impl Dispatcher {
    pub(crate) fn start(context: Arc<ClientContext>) -> io::Result<Self> {
        let waker = Arc::new(ThreadWaker::default());
        let hook = Arc::clone(&waker);
        let shared = Arc::new(Shared {
            mailbox: Mailbox::new(move || hook.wake()),
            waker,
            context,
            is_stopping: AtomicBool::new(false),
            has_ended: watch::Sender::new(false),
        });
        let thread_shared = Arc::clone(&shared);
        let thread = thread::spawn("statestore-calls", move || thread_shared.run())?;
        // The mailbox is not shared yet, so no item rings before the bell has its thread.
        let _ = shared.waker.0.set(thread.thread().clone());
        let idle: Arc<dyn IdleHook> = Arc::clone(&shared) as _;
        shared.context.limiter.set_idle_hook(Some(idle));
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
            process: Process::current(),
        })
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<Job>> {
        &self.shared.mailbox
    }

    /// Returns whether the current thread is the thread of the dispatcher.
    pub(crate) fn is_current(&self) -> bool {
        RUNS.get() == self.shared.address()
    }

    /// Lets it end once every operation has ended and its callback has returned.
    pub(crate) fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.waker.wake();
    }

    /// Waits until its last job has returned; never ready on its own thread.
    pub(crate) async fn ended(&self) {
        let mut has_ended = self.shared.has_ended.subscribe();
        // The sender lives as long as `self`.
        let _ = has_ended.wait_for(|ended| *ended).await;
    }

    /// Waits for its thread, which must have [ended](Self::ended).
    pub(crate) fn join(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take()
            && self.process.is_current()
        {
            // The thread catches panics of its jobs.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Returns an address that identifies this value.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn run(&self) {
        RUNS.set(self.address());
        let process = Process::current();
        loop {
            let has_more = self.mailbox.drain(BATCH, |job| {
                let ran = catch_unwind(AssertUnwindSafe(job));
                if !process.is_current() {
                    process::exit_child();
                }
                if ran.is_err() {
                    self.context.record_panic();
                }
            });
            if has_more {
                continue;
            }
            if self.is_stopping.load(Ordering::SeqCst)
                && self.context.limiter.is_idle()
                && self.mailbox.close_if_empty()
            {
                self.context.limiter.set_idle_hook(None);
                self.has_ended.send_replace(true);
                return;
            }
            std::thread::park();
        }
    }
}

impl IdleHook for Shared {
    fn on_idle(&self) {
        if self.is_stopping.load(Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("mailbox", &self.mailbox)
            .field("is_stopping", &self.is_stopping)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}
