//! The client of this project.

use crate::load::Target;
use statestore::{Client, Settings};
use std::sync::Arc;

/// A connected client of this project.
pub struct OwnClient(pub Client);

impl OwnClient {
    /// Connects.
    pub async fn connect(port: u16, client_id: &str) -> Arc<Self> {
        let url = format!("mqtt://127.0.0.1:{port}?client_id={client_id}");
        let settings = Settings::from_url(&url).expect("url");
        Arc::new(Self(Client::connect(settings).await.expect("connect")))
    }

    /// Connects this number of clients.
    pub async fn connect_all(port: u16, client_id: &str, clients: usize) -> Vec<Arc<Self>> {
        let mut all = Vec::new();
        for number in 0..clients {
            all.push(Self::connect(port, &format!("{client_id}-{number}")).await);
        }
        all
    }
}

impl Target for OwnClient {
    async fn set(&self, key: &[u8], value: &[u8]) {
        self.0.set(key, value).await.expect("set");
    }

    async fn get(&self, key: &[u8]) {
        self.0.get(key).await.expect("get");
    }
}
