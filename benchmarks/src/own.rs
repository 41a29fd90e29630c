//! Our client.

use crate::load::Target;
use statestore::{Client, Settings};

/// A connected client of ours.
pub struct Own(pub Client);

impl Own {
    /// Connects.
    pub async fn connect(port: u16, client_id: &str) -> Self {
        let url = format!("mqtt://127.0.0.1:{port}?client_id={client_id}");
        let settings = Settings::from_url(&url).expect("url");
        Self(Client::connect(settings).await.expect("connect"))
    }
}

impl Target for Own {
    async fn set(&self, key: &[u8], value: &[u8]) {
        self.0.set(key, value).await.expect("set");
    }

    async fn get(&self, key: &[u8]) {
        self.0.get(key).await.expect("get");
    }
}
