//! The one runtime that all clients of a process share.
use crate::baton::Baton;
use crate::error::{Error, ErrorKind};
use crate::executor::Executor;
use crate::process::{PerProcess, Process};
use crate::thread;
use statestore::Outcome;
use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// Most threads for what blocks: name lookups and reading files of credentials.
const BLOCKING_THREADS: usize = 4;
/// How long such a thread stays without work.
const BLOCKING_KEPT: Duration = Duration::from_secs(1);
/// How long the end waits for a name lookup.
const PATIENCE: Duration = Duration::from_millis(250);

thread_local! {
    /// Whether this thread belongs to the runtime, or drives it.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Runs all connections and operations on one thread: its own, or one that waits for a result.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    pub(crate) executor: Arc<Executor>,
    pub(crate) baton: Arc<Baton>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The right of one client to the runtime, which ends with the last one.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) runtime: Arc<Runtime>,
    process: Process,
    is_over: bool,
}

/// The runtime, and how many clients it has.
#[derive(Debug)]
struct Running {
    runtime: Option<Arc<Runtime>>,
    clients: usize,
}

static RUNNING: PerProcess<Mutex<Running>> = PerProcess::new(Running::none(), Running::none);

impl Running {
    const fn none() -> Mutex<Self> {
        Mutex::new(Self {
            runtime: None,
            clients: 0,
        })
    }

    fn of(process: Process) -> MutexGuard<'static, Self> {
        let running = RUNNING.of(process);
        running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Joins the runtime, which begins with the first client.
    pub(crate) fn take() -> Result<Self, Error> {
        let process = Process::current();
        let mut running = Running::of(process);
        let runtime = match &running.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => Arc::new(Runtime::start().map_err(|error| {
                Error::new(
                    ErrorKind::Internal,
                    Outcome::NotDone,
                    "starting the runtime",
                    error.to_string(),
                )
            })?),
        };
        running.runtime = Some(Arc::clone(&runtime));
        running.clients += 1;
        Ok(Self {
            runtime,
            process,
            is_over: false,
        })
    }
}

impl Lease {
    /// Gives the right back. Stops the runtime if it was the last one, which is returned then, to be
    /// [joined](Runtime::join).
    pub(crate) fn end(mut self) -> Option<Arc<Runtime>> {
        self.give_back()
    }

    fn give_back(&mut self) -> Option<Arc<Runtime>> {
        if std::mem::replace(&mut self.is_over, true) || !self.process.is_here() {
            return None;
        }
        let mut running = Running::of(self.process);
        running.clients -= 1;
        if running.clients > 0 {
            return None;
        }
        running.runtime = None;
        drop(running);
        self.runtime.executor.stop();
        self.runtime.baton.call();
        Some(Arc::clone(&self.runtime))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Runtime {
    fn start() -> io::Result<Self> {
        thread::keep_handle();
        let tokio = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_keep_alive(BLOCKING_KEPT)
            .on_thread_start(|| {
                IS_OURS.set(true);
                thread::leave_signals();
            })
            .build()?;
        let handle = tokio.handle().clone();
        let executor = Arc::new(Executor::default());
        let baton = Arc::new(Baton::new(tokio, Arc::clone(&executor)));
        let (mine, keeper) = (Arc::clone(&executor), Arc::clone(&baton));
        let thread = thread::spawn("statestore", move || {
            IS_OURS.set(true);
            keeper.keep().shutdown_timeout(PATIENCE);
            mine.end();
        })?;
        Ok(Self {
            handle,
            executor,
            baton,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Waits for the end of the thread, once it was told to stop. Others who do that wait as well.
    pub(crate) fn join(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the runtime panicked");
        }
    }

    /// Whether this thread belongs to a runtime or drives it, so that waiting on it would stop what is waited for.
    pub(crate) fn is_current() -> bool {
        IS_OURS.get()
    }
}

/// The time during which a thread of the foreign side drives the runtime.
pub(crate) struct Ours(());

impl Ours {
    pub(crate) fn enter() -> Self {
        thread::keep_handle();
        IS_OURS.set(true);
        Self(())
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        IS_OURS.set(false);
    }
}
