//! The one runtime that all clients of a process share.
use crate::blocking_threads::BlockingThreads;
use crate::cause;
use crate::driver_handoff::{self, DriveRuntime, Failed};
use crate::error::Error;
use crate::executor::Executor;
use crate::process::{PerProcess, Process};
use crate::thread;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::task::unconstrained;
use tokio::time::timeout_at;

/// How long the end waits for look-ups of names and for files of credentials.
const BLOCKING_WORK_TIMEOUT: Duration = Duration::from_millis(250);

/// Hand-over of the tokio runtime between threads.
pub(crate) type DriverHandoff = driver_handoff::DriverHandoff<tokio::runtime::Runtime>;

/// Runs all connections and operations on one thread: its own, or one that waits for a result.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    pub(crate) executor: Arc<Executor>,
    pub(crate) handoff: Arc<DriverHandoff>,
    pub(crate) blocking: Arc<BlockingThreads>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The share of one client in the runtime, which ends with the last one.
#[derive(Debug)]
pub(crate) struct RuntimeShare {
    pub(crate) runtime: Arc<Runtime>,
    process: Process,
    is_released: bool,
}

/// The runtime, and how many clients it has.
#[derive(Debug)]
struct SharedRuntime {
    runtime: Option<Arc<Runtime>>,
    clients: usize,
}

static SHARED_RUNTIME: PerProcess<Mutex<SharedRuntime>> =
    PerProcess::new(SharedRuntime::empty(), SharedRuntime::empty);

impl SharedRuntime {
    const fn empty() -> Mutex<Self> {
        Mutex::new(Self {
            runtime: None,
            clients: 0,
        })
    }

    fn lock(process: Process) -> MutexGuard<'static, Self> {
        let running = SHARED_RUNTIME.get_for(process);
        running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RuntimeShare {
    /// Joins the runtime, which begins with the first client.
    pub(crate) fn acquire() -> Result<Self, Error> {
        let process = Process::current();
        let current = SharedRuntime::lock(process).runtime.clone();
        if let Some(runtime) = current {
            // Not under the lock: a failure ends other clients, which return their shares.
            has_failed(&runtime.handle, &runtime.executor);
        }
        let mut running = SharedRuntime::lock(process);
        let runtime = match &running.runtime {
            Some(runtime) if !runtime.executor.has_failed() => Arc::clone(runtime),
            _ => {
                let runtime = Runtime::start().map_err(|error| cannot_start(&error))?;
                running.clients = 0;
                Arc::new(runtime)
            }
        };
        running.runtime = Some(Arc::clone(&runtime));
        running.clients += 1;
        Ok(Self {
            runtime,
            process,
            is_released: false,
        })
    }

    /// Returns the share. Stops the runtime if it was the last one, and returns the runtime for [joining](Runtime::join).
    pub(crate) fn release(mut self) -> Option<Arc<Runtime>> {
        self.release_once()
    }

    fn release_once(&mut self) -> Option<Arc<Runtime>> {
        if std::mem::replace(&mut self.is_released, true) || !self.process.is_current() {
            return None;
        }
        let mut running = SharedRuntime::lock(self.process);
        let current = running.runtime.as_ref();
        if !current.is_some_and(|current| Arc::ptr_eq(current, &self.runtime)) {
            // This one failed, and another one has replaced it.
            return None;
        }
        running.clients -= 1;
        if running.clients > 0 {
            return None;
        }
        running.runtime = None;
        drop(running);
        self.runtime.executor.stop();
        self.runtime.handoff.wake_thread();
        Some(Arc::clone(&self.runtime))
    }
}

impl Drop for RuntimeShare {
    fn drop(&mut self) {
        self.release_once();
    }
}

impl Runtime {
    fn start() -> io::Result<Self> {
        thread::retain_handle();
        let tokio = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let handle = tokio.handle().clone();
        let executor = Arc::new(Executor::default());
        let handoff = Arc::new(DriverHandoff::new(tokio, Arc::clone(&executor)));
        let blocking = Arc::new(BlockingThreads::default());
        let (thread_executor, thread_handoff) = (Arc::clone(&executor), Arc::clone(&handoff));
        let thread_blocking = Arc::clone(&blocking);
        let thread = thread::spawn("statestore", move || {
            thread::mark_runtime_thread();
            if let Some(tokio) = thread_handoff.run_thread() {
                tokio.shutdown_background();
            }
            thread_blocking.wait(BLOCKING_WORK_TIMEOUT);
            thread_executor.abandon_remaining();
        })?;
        let dependent = Arc::downgrade(&handoff);
        executor.notify_of_failure(dependent);
        Ok(Self {
            handle,
            executor,
            handoff,
            blocking,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Waits for the end of the thread after a stop. Concurrent callers wait as well. The thread of a failed runtime may sleep
    /// for good.
    pub(crate) fn join(&self) {
        if self.executor.has_failed() {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the runtime panicked");
        }
    }
}

fn cannot_start(error: &io::Error) -> Error {
    const ACTION: &str = "starting the runtime";
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EBADF) {
        // A descriptor that all runtimes of the process share.
        let reason =
            "the program closed the file descriptors of the library; connect in a new process";
        return cause::resource_unavailable(ACTION, reason);
    }
    cause::resource_unavailable(ACTION, error.to_string())
}

/// Returns whether the runtime failed. Wakes the runtime for that, which fails if the program closed its descriptors.
pub(crate) fn has_failed(handle: &Handle, executor: &Executor) -> bool {
    if executor.has_failed() {
        return true;
    }
    let woken = catch_unwind(AssertUnwindSafe(|| drop(handle.spawn(async {}))));
    if woken.is_err() {
        executor.fail();
    }
    woken.is_err()
}

impl DriveRuntime for tokio::runtime::Runtime {
    fn drive<T>(
        &self,
        future: impl Future<Output = T>,
        until: Option<Instant>,
    ) -> Result<Option<T>, Failed> {
        let _guard = thread::RuntimeThreadGuard::enter();
        // Each operation counts for itself: tokio's limit for one task does not fit.
        let run = unconstrained(async {
            match until {
                Some(until) => timeout_at(until.into(), future).await.ok(),
                None => Some(future.await),
            }
        });
        // Without its descriptors, tokio panics.
        catch_unwind(AssertUnwindSafe(|| self.block_on(run))).map_err(|_| Failed)
    }
}
