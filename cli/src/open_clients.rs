//! The connections of the program.
use statestore::Client;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Time limit for disconnecting.
pub(crate) const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// All connections of the program.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenClients(Arc<Mutex<Vec<Client>>>);

impl OpenClients {
    /// Adds a connection.
    pub(crate) fn add(&self, client: &Client) {
        self.all().push(client.clone());
    }

    /// Disconnects all connections from the broker, however the program ends.
    pub(crate) async fn close(&self) {
        let clients = std::mem::take(&mut *self.all());
        let close = async {
            for client in clients {
                client.close_within(Duration::ZERO).await;
            }
        };
        let _ = tokio::time::timeout(DISCONNECT_TIMEOUT, close).await;
    }

    fn all(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
