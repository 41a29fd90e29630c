//! The task that shows the broker each newer service account token over the live connection.
use super::ConnectionState;
use super::shared::Shared;
use crate::settings::read_token;
use crate::transport::FileWatch;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// A token file that may change.
#[derive(Debug)]
pub(super) struct Token {
    shared: Arc<Shared>,
    path: PathBuf,
    file: FileWatch,
    /// From before the client can end, so that its end is noticed whenever this begins to run.
    state: watch::Receiver<ConnectionState>,
}

impl Token {
    /// Begins to watch the token file, if the settings name one.
    pub(super) fn watch(shared: &Arc<Shared>) -> Option<Self> {
        let path = shared.settings.credentials.sat_file.clone()?;
        Some(Self {
            shared: shared.clone(),
            state: shared.state.subscribe(),
            file: FileWatch::new(path.clone()),
            path,
        })
    }

    /// Runs until the client is closed.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.file.changed() => {}
                // The token may have changed after it was read for this connection and before the connection was there.
                _ = self.state.changed() => match *self.state.borrow_and_update() {
                    ConnectionState::Connected => {}
                    ConnectionState::Closed { .. } => return,
                    _ => continue,
                },
            }
            self.show().await;
        }
    }

    async fn show(&self) {
        let path = self.path.clone();
        let token = match tokio::task::spawn_blocking(move || read_token(&path)).await {
            Ok(Ok(token)) => token,
            // It may be on its way; then there is another change.
            Ok(Err(error)) => return tracing::warn!(%error, "the new token cannot be read"),
            Err(error) => return tracing::warn!(%error, "the new token cannot be read"),
        };
        let (sent, waker) = {
            let mut core = self.shared.core();
            let sent = core.exchange.session_mut().reauthenticate(token);
            (sent, core.nudge())
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "the new token cannot be sent");
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
