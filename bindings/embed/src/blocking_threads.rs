//! Threads for work of clients that blocks: look-ups of names, and files of credentials.
use crate::thread;
use statestore::platform::{BlockingWork, Connecting, Platform, System, Task};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Name of the threads.
const NAME: &str = "statestore-files";

/// The threads of one runtime that do such work. Each ends with its work, so that no work waits for other work.
#[derive(Debug, Default)]
pub(crate) struct BlockingThreads {
    running: Mutex<usize>,
    ended: Condvar,
}

impl BlockingThreads {
    fn start(self: &Arc<Self>, work: BlockingWork) -> io::Result<()> {
        *self.running() += 1;
        // Dropped with the closure if the system refuses a thread.
        let counted = RunningThreadGuard(Arc::clone(self));
        let body = move || {
            thread::mark_runtime_thread();
            work();
            drop(counted);
        };
        thread::spawn(NAME, body).map(drop)
    }

    /// Waits until they have ended, at most for `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let waited = self
            .ended
            .wait_timeout_while(self.running(), timeout, |running| *running > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that counts until this is dropped.
struct RunningThreadGuard(Arc<BlockingThreads>);

impl Drop for RunningThreadGuard {
    fn drop(&mut self) {
        *self.0.running() -= 1;
        self.0.ended.notify_all();
    }
}

/// The operating system, with threads that leave signals to the program and that the end of the runtime waits for.
#[derive(Debug)]
pub(crate) struct ThreadedPlatform(pub(crate) Arc<BlockingThreads>);

impl Platform for ThreadedPlatform {
    fn wall_ms(&self) -> u64 {
        System.wall_ms()
    }

    fn random(&self) -> io::Result<u64> {
        System.random()
    }

    fn spawn(&self, task: Task) {
        System.spawn(task);
    }

    fn connect(&self) -> Option<Connecting> {
        System.connect()
    }

    fn run_blocking(&self, work: BlockingWork) -> io::Result<()> {
        self.0.start(work)
    }
}
