//! Real faults on real sockets: a [`Proxy`] between the client and `statestored`, or between the client and [`Mosquitto`] with an
//! [`AttachedStore`] behind it.
//!
//! Results that depend on the machine, such as the order in which sockets become ready, differ from run to run. The checks hold
//! for every order. Reproducible runs are in the simulation.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

pub mod attached_store;
pub mod change_recorder;
pub mod mosquitto;
pub mod ports;
pub mod proxy;
pub mod set_load;

pub use attached_store::AttachedStore;
pub use change_recorder::{ChangeRecorder, KeyHistory};
pub use mosquitto::Mosquitto;
pub use ports::free_port;
pub use proxy::{AcceptMode, CutKind, Direction, Proxy};
pub use set_load::{SetAttempt, SetLoad};

use statestore::{Client, ConnectionState, Settings};
use statestored::RunningServer;
use statestored::config::Config;
use std::net::SocketAddr;
use std::time::Duration;

/// Time limit of each wait, after which a test fails.
pub const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Waits for an event that must happen.
pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(WAIT_LIMIT, future)
        .await
        .expect("nothing happened for too long")
}

/// Lets everything else run until a condition holds.
pub async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until a client has noticed that its connection is gone.
pub async fn reconnecting(client: &Client) -> ConnectionState {
    let mut state = client.state();
    let is_reconnecting =
        |state: &ConnectionState| matches!(state, ConnectionState::Reconnecting(_));
    within(state.wait_for(is_reconnecting))
        .await
        .unwrap()
        .clone()
}

/// Settings of a client that connects to this address.
pub fn direct(address: SocketAddr) -> Settings {
    Settings::new(address.ip().to_string(), address.port())
}

/// A store in memory, and its address.
pub fn store() -> (RunningServer, SocketAddr) {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let address = server.addresses()[0];
    (server, address)
}
