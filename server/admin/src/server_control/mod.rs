//! The server as the HTTP port sees it.
mod backup;
mod effective_option;
mod reload;
mod reload_status;

pub use backup::{Backup, SnapshotError};
pub use effective_option::{EffectiveOption, OptionSource};
pub use reload::{ReloadFailure, ReloadReport};
pub use reload_status::ReloadStatus;

use statestored_broker::hub::Hub;
use statestored_common::ClockReading;
use std::fmt;
use std::pin::Pin;
use tokio::sync::oneshot;

/// A query of clients and entries, or a small operation on them. Its time must be bounded, since all clients wait meanwhile.
pub type InspectFn = Box<dyn FnOnce(&mut Hub, ClockReading) + Send>;

/// The future of a method of [`ServerControl`].
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The server has stopped, or is stopping, and answers no more commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has stopped and does not answer any more")]
pub struct ServerStopped;

/// The questions and commands of the HTTP port to the server.
pub trait ServerControl: fmt::Debug + Send {
    /// Runs an inspection on the thread that serves the clients, and returns when it has run.
    ///
    /// # Errors
    /// The server has stopped.
    fn run_inspection(&self, inspection: InspectFn) -> BoxFuture<'_, Result<(), ServerStopped>>;

    /// Begins a backup of the store.
    ///
    /// # Errors
    /// The store is in memory, or the server has stopped.
    fn backup(&self) -> BoxFuture<'_, Result<Backup, SnapshotError>>;

    /// Reads the configuration again and applies it.
    ///
    /// # Errors
    /// The configuration is rejected, or the server has stopped. The former configuration stays in force.
    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, ReloadFailure>>;

    /// Returns the outcome of the last reload.
    fn reload_status(&self) -> &ReloadStatus;

    /// Returns the options in force, in the order of their names.
    fn options(&self) -> Vec<EffectiveOption>;
}

impl dyn ServerControl + '_ {
    /// Runs an inspection on the thread that serves the clients, and returns its result.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        inspection: impl FnOnce(&mut Hub, ClockReading) -> T + Send + 'static,
    ) -> Result<T, ServerStopped> {
        let (reply, answer) = oneshot::channel();
        self.run_inspection(Box::new(move |hub, now| {
            // The caller may have given up.
            let _ = reply.send(inspection(hub, now));
        }))
        .await?;
        answer.await.map_err(|_| ServerStopped)
    }
}
