//! The task that sends the broker each newer service account token over the open connection.
use super::ConnectionState;
use super::shared::Shared;
use crate::transport::{BlockingSlot, FileWatch, TransportError, read_token};
use bytes::Bytes;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Delay before the file is read again if the system could not start a thread.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A token file that may change.
#[derive(Debug)]
pub(super) struct TokenWatcher {
    shared: Arc<Shared>,
    path: PathBuf,
    file: FileWatch,
    reading: BlockingSlot<Result<Bytes, TransportError>>,
    /// Receiver of the connection state. It is created before the client can end, so that the task notices the end whenever it
    /// starts.
    state: watch::Receiver<ConnectionState>,
}

impl TokenWatcher {
    /// Starts watching the token file, if the settings name one.
    pub(super) fn watch(shared: &Arc<Shared>) -> Option<Self> {
        let path = shared.settings.credentials.sat_file.clone()?;
        Some(Self {
            shared: shared.clone(),
            state: shared.state.subscribe(),
            file: FileWatch::new(path.clone()),
            path,
            reading: BlockingSlot::default(),
        })
    }

    /// Runs until the client is closed.
    pub(super) async fn run(mut self) {
        let mut retry: Option<Instant> = None;
        loop {
            tokio::select! {
                () = self.file.changed() => {}
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
                // The token may have changed after it was read for this connection and before the connection was established.
                _ = self.state.changed() => match *self.state.borrow_and_update() {
                    ConnectionState::Connected => {}
                    ConnectionState::Closed { .. } => return,
                    _ => continue,
                },
            }
            retry = match self.send_token().await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%error, "the new token cannot be read now, and is read again soon");
                    Some(Instant::now() + RETRY_DELAY)
                }
            };
        }
    }

    /// Sends the token to the broker.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    async fn send_token(&self) -> io::Result<()> {
        let path = self.path.clone();
        let read = self
            .reading
            .run(self.shared.platform(), move || read_token(&path));
        let token = match read.await? {
            Ok(token) => token,
            // The file may be incomplete while it is written; then another change follows.
            Err(error) => {
                tracing::warn!(%error, "the new token cannot be read");
                return Ok(());
            }
        };
        let (sent, waker) = {
            let mut core = self.shared.lock_state();
            let sent = core.exchange.session_mut().reauthenticate(token);
            (sent, core.take_driver_waker())
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "the new token cannot be sent");
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}
