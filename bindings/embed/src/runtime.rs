//! The one runtime that all clients of a process share.
use crate::baton::{self, Drive};
use crate::blocking_threads::BlockingThreads;
use crate::cause;
use crate::error::Error;
use crate::executor::Executor;
use crate::process::{PerProcess, Process};
use crate::thread;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::task::unconstrained;
use tokio::time::timeout_at;

/// How long the end waits for look-ups of names and for files of credentials.
const PATIENCE: Duration = Duration::from_millis(250);

/// Hand-over of the tokio runtime between threads.
pub(crate) type Baton = baton::Baton<tokio::runtime::Runtime>;

/// Runs all connections and operations on one thread: its own, or one that waits for a result.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    pub(crate) executor: Arc<Executor>,
    pub(crate) baton: Arc<Baton>,
    pub(crate) blocking: Arc<BlockingThreads>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The share of one client in the runtime, which ends with the last one.
#[derive(Debug)]
pub(crate) struct Share {
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

impl Share {
    /// Joins the runtime, which begins with the first client.
    pub(crate) fn take() -> Result<Self, Error> {
        let process = Process::current();
        let mut running = Running::of(process);
        let runtime = match &running.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => Arc::new(
                Runtime::start()
                    .map_err(|error| cause::lacking("starting the runtime", error.to_string()))?,
            ),
        };
        running.runtime = Some(Arc::clone(&runtime));
        running.clients += 1;
        Ok(Self {
            runtime,
            process,
            is_over: false,
        })
    }

    /// Returns the share. Stops the runtime if it was the last one, and returns the runtime for [joining](Runtime::join).
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

impl Drop for Share {
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
            .build()?;
        let handle = tokio.handle().clone();
        let executor = Arc::new(Executor::default());
        let baton = Arc::new(Baton::new(tokio, Arc::clone(&executor)));
        let blocking = Arc::new(BlockingThreads::default());
        let (mine, keeper) = (Arc::clone(&executor), Arc::clone(&baton));
        let others = Arc::clone(&blocking);
        let thread = thread::spawn("statestore", move || {
            thread::become_ours();
            keeper.keep().shutdown_background();
            others.wait(PATIENCE);
            mine.end();
        })?;
        Ok(Self {
            handle,
            executor,
            baton,
            blocking,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Waits for the end of the thread after a stop. Concurrent callers wait as well.
    pub(crate) fn join(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the runtime panicked");
        }
    }
}

impl Drive for tokio::runtime::Runtime {
    fn drive<T>(&self, future: impl Future<Output = T>, until: Option<Instant>) -> Option<T> {
        let _ours = thread::Ours::enter();
        // Each operation counts for itself: tokio's limit for one task does not fit.
        self.block_on(unconstrained(async {
            match until {
                Some(until) => timeout_at(until.into(), future).await.ok(),
                None => Some(future.await),
            }
        }))
    }
}
