//! What a client takes from the machine that it runs on: clock, chance, tasks and network.
//!
//! [`Settings::platform`](crate::Settings::platform) puts something else in the place of [`System`]. A simulation brings
//! its own clock, chance and network, so that a whole client runs the same way again; a program can bring a transport of
//! its own.
use std::fmt;
use std::io;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Duplex for S {}

/// A task of a client.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A stream that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// Work that blocks its thread: the look-up of a name, or reading files of credentials.
pub type BlockingWork = Box<dyn FnOnce() + Send>;

/// Where a client gets its wall clock, its random numbers, its tasks and its network from. Other times are those of
/// tokio. Methods that are added later have a default.
///
/// # Paused time
/// With a paused clock (`#[tokio::test(start_paused = true)]`), tokio advances the clock as soon as all tasks wait, and so also while a
/// response is on its way through a real socket: requests time out at once. Such tests need a [transport](Self::connect) whose other end
/// is a task of the same runtime, such as one end of [`tokio::io::duplex`].
pub trait Platform: fmt::Debug + Send + Sync {
    /// Milliseconds since the Unix epoch. May jump.
    fn wall_ms(&self) -> u64;

    /// A random number, spread evenly over all values.
    ///
    /// # Errors
    /// There is no source of random numbers.
    fn random(&self) -> io::Result<u64>;

    /// Runs a task until it ends.
    fn spawn(&self, task: Task);

    /// A new stream to the broker; `None` for the transport that the settings name.
    fn connect(&self) -> Option<Connecting>;

    /// Runs work that blocks on a thread of its own, so that no other work waits for it. A client has at most two pieces of such
    /// work under way for each broker, and one for a token file.
    ///
    /// # Errors
    /// The system refuses a thread. The client takes this for a failed attempt, and tries again.
    fn run_blocking(&self, work: BlockingWork) -> io::Result<()> {
        std::thread::Builder::new()
            .name("statestore-files".into())
            .spawn(work)
            .map(drop)
    }
}

/// The operating system, and tokio as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Platform for System {
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> io::Result<u64> {
        getrandom::u64().map_err(io::Error::other)
    }

    fn spawn(&self, task: Task) {
        tokio::spawn(task);
    }

    fn connect(&self) -> Option<Connecting> {
        None
    }
}
