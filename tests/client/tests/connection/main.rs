//! How a client gets a connection and keeps it good: TLS, credentials, tokens, and the files that hold them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod authority;
mod broker;
mod configuration;
mod credentials;
mod cut;
mod files;
mod pem;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod token;
mod transport;
mod websocket;
mod zones;

use statestore::{Client, ConnectionState, Error};
use std::path::{Path, PathBuf};
use support::within;
use tempfile::TempDir;

/// Waits until the client is connected.
async fn connected(client: &Client) {
    let mut state = client.state();
    within(state.wait_for(ConnectionState::is_connected))
        .await
        .unwrap();
}

/// Waits until an attempt to connect again has failed, and gives the reason.
async fn reconnecting(client: &Client, is_it: impl Fn(&Error) -> bool) -> Error {
    let mut state = client.state();
    let matches = |state: &ConnectionState| match state {
        ConnectionState::Reconnecting(error) => is_it(error),
        _ => false,
    };
    match &*within(state.wait_for(matches)).await.unwrap() {
        ConnectionState::Reconnecting(error) => error.clone(),
        other => panic!("{other:?}"),
    }
}

/// Files of one test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Puts a new file in the place of the old one, in one step.
    fn replace(&self, name: &str, content: impl AsRef<[u8]>) {
        let new = self.write("being-written", content);
        std::fs::rename(new, self.path(name)).unwrap();
    }
}

/// A key from the folder beside this file.
fn key(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/connection/keys")
        .join(name)
}
