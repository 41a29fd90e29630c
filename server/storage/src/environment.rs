//! The needs of the durable storage besides a disk: time, randomness, and background work.
use std::fmt::Debug;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The machine that a storage runs on.
pub trait Environment: Debug + Send + Sync {
    /// Returns the time of a monotonic clock.
    fn now(&self) -> Duration;
    /// Sleeps for this time.
    fn sleep(&self, time: Duration);
    /// Returns an unpredictable number.
    fn random(&self) -> u64;
    /// Starts a job, which runs by itself.
    fn start(
        &self,
        name: &'static str,
        job: Box<dyn BackgroundJob>,
    ) -> io::Result<Box<dyn JobHandle>>;
}

/// Work that runs concurrently with commits.
pub trait BackgroundJob: Send {
    /// Executes the next part of the work, which may block. Returns whether another part follows.
    fn step(&mut self) -> bool;
}

/// A running job.
pub trait JobHandle: Debug + Send {
    /// Returns whether [`finish`](Self::finish) returns without waiting.
    fn is_finished(&self) -> bool;
    /// Waits until the job ends, even by a panic.
    fn finish(self: Box<Self>);
}

/// The machine of this process: each job has a thread.
#[derive(Debug, Clone, Copy)]
pub struct ThreadEnvironment {
    started: Instant,
}

impl Default for ThreadEnvironment {
    fn default() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Environment for ThreadEnvironment {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn random(&self) -> u64 {
        // Without random numbers of the system, the keys of hash tables are the best substitute.
        getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
    }

    fn start(
        &self,
        name: &'static str,
        mut job: Box<dyn BackgroundJob>,
    ) -> io::Result<Box<dyn JobHandle>> {
        reserve_for_thread()?;
        let run = move || while job.step() {};
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Box::new(thread))
    }
}

/// Bytes that a new thread needs for its stacks.
const THREAD_BYTES: usize = 4 << 20;

/// Checks that the system allows the stacks of another thread. Without memory for the second stack, the program would abort.
fn reserve_for_thread() -> io::Result<()> {
    // An allocator with a reserve releases it for this, so that the memory is free afterwards.
    let mut stacks = Vec::<u8>::new();
    stacks.try_reserve_exact(THREAD_BYTES)?;
    drop(std::hint::black_box(stacks));
    Ok(())
}

impl JobHandle for JoinHandle<()> {
    fn is_finished(&self) -> bool {
        JoinHandle::is_finished(self)
    }

    fn finish(self: Box<Self>) {
        // A caller that waits for a result notices its absence.
        let _ = self.join();
    }
}
