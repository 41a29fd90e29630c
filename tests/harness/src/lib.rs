//! Parts of tests over real sockets: a [`Proxy`] that cuts, delays, stalls and throttles connections, a real [`Mosquitto`], free
//! ports, and bounded waits.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

pub mod mosquitto;
pub mod ports;
pub mod proxy;

pub use mosquitto::Mosquitto;
pub use ports::free_port;
pub use proxy::{AcceptMode, CutKind, Direction, Proxy};

use statestore::{Client, ConnectionState, Settings};
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
