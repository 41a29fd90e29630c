//! Asking a running server something, from wherever.
//!
//! A question goes through a channel to the thread that serves the clients, and is answered there between two turns. So
//! nothing on the way of a request takes a lock for the sake of those who ask.
//!
//! ```text
//!   Control (any thread) ──Command──▶ serve_all ──▶ Driver::obey ──▶ hub, service
//!          ◀────────────── answer, through a channel of its own ──────────┘
//! ```
use crate::hub::Statistics;
use tokio::sync::{mpsc, oneshot};

/// How many questions wait before whoever asks the next one waits, too.
const WAITING: usize = 16;

/// What can be asked, with the way back.
#[derive(Debug)]
pub(crate) enum Command {
    /// Counters and gauges.
    Statistics(oneshot::Sender<Statistics>),
}

/// The server has stopped, or is about to: nothing is answered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has stopped and does not answer any more")]
pub struct Stopped;

/// Asks a running server; may be cloned and sent to other threads, and outlives the server.
#[derive(Debug, Clone)]
pub struct Control {
    commands: mpsc::Sender<Command>,
}

/// The two ends of the way on which a server is asked.
pub(crate) fn channel() -> (Control, mpsc::Receiver<Command>) {
    let (commands, receiver) = mpsc::channel(WAITING);
    (Control { commands }, receiver)
}

impl Control {
    /// Counters since the start, and gauges of now.
    ///
    /// # Errors
    /// The server has stopped.
    pub async fn statistics(&self) -> Result<Statistics, Stopped> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(Command::Statistics(reply)).await;
        sent.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// The same for a thread that has no runtime; it blocks until the answer is there.
    ///
    /// # Errors
    /// The server has stopped.
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn statistics_blocking(&self) -> Result<Statistics, Stopped> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.blocking_send(Command::Statistics(reply));
        sent.map_err(|_| Stopped)?;
        answer.blocking_recv().map_err(|_| Stopped)
    }
}
