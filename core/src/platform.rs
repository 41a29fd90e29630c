//! The platform of a client: clock, random numbers, tasks and network.
//!
//! [`Settings::platform`](crate::Settings::platform) replaces [`System`]. A simulation provides its own clock, random numbers
//! and network, so that a whole client runs reproducibly. A program can provide its own transport.
use std::fmt;
use std::io;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};

/// A bidirectional byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Duplex for S {}

/// A task of a client.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Future of a stream that is being established.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// Work that blocks its thread: a name lookup, or a read of credential files.
pub type BlockingWork = Box<dyn FnOnce() + Send>;

/// Source of a client's wall clock, random numbers, tasks and network. All other times are those of tokio. Methods that are
/// added later have a default.
///
/// # Paused time
/// With a paused clock (`#[tokio::test(start_paused = true)]`), tokio advances the clock as soon as all tasks wait. That
/// includes the time that a response takes through a real socket, so requests time out at once. Such tests need a
/// [transport](Self::connect) whose other end is a task of the same runtime, such as one end of [`tokio::io::duplex`].
pub trait Platform: fmt::Debug + Send + Sync {
    /// Returns the milliseconds since the Unix epoch. The clock may jump.
    fn wall_ms(&self) -> u64;

    /// Returns a random number, distributed uniformly over `u64`.
    ///
    /// # Errors
    /// Returns an error if there is no source of random numbers.
    fn random(&self) -> io::Result<u64>;

    /// Runs a task until it ends.
    fn spawn(&self, task: Task);

    /// Returns a new stream to the broker, or `None` for the transport of the settings.
    fn connect(&self) -> Option<Connecting>;

    /// Runs blocking work on a thread of its own, so that it does not delay other work. A client has at most two pieces of such
    /// work under way for each broker, and one for a token file.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread. The client handles this as a failed attempt, and retries.
    fn run_blocking(&self, work: BlockingWork) -> io::Result<()> {
        std::thread::Builder::new()
            .name("statestore-files".into())
            .spawn(work)
            .map(drop)
    }
}

/// The platform of the operating system and tokio.
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
