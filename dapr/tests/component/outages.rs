//! A store that cannot be reached for a while.
use crate::harness::{Fixture, PATIENCE, Sidecar, set};
use statestore_dapr::proto::PingRequest;
use statestored::RunningServer;
use statestored::config::Config;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tonic::Code;

/// A way to a server that can be shut: connections end, and new ones are closed at once.
struct TcpGate {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
    /// Notified of a connection that was closed at once.
    refused: Arc<Notify>,
}

impl TcpGate {
    async fn open(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_open, mut state) = watch::channel(true);
        let refused = Arc::new(Notify::new());
        let refusals = refused.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if !*state.borrow_and_update() {
                    refusals.notify_one();
                    continue;
                }
                let mut state = state.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = state.wait_for(|is_open| !is_open) => {}
                    }
                });
            }
        });
        Self {
            address,
            is_open,
            refused,
        }
    }
}

/// Waits until the component knows that its connection is lost.
async fn wait_for_the_loss(sidecar: &mut Sidecar) {
    let began = Instant::now();
    while sidecar.state.ping(PingRequest {}).await.is_ok() {
        assert!(began.elapsed() < PATIENCE);
    }
}

/// A component whose requests may wait for 20 seconds, and whose reconnects may be an hour apart.
async fn start() -> (Fixture, TcpGate) {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let gate = TcpGate::open(store.addresses()[0]).await;
    let url = format!("mqtt://{}", gate.address);
    let properties = [
        ("requestTimeout", "20s"),
        ("reconnectDelayMin", "1h"),
        ("reconnectDelayMax", "1h"),
    ];
    let fixture = Fixture::with_store(store, &url, &properties).await;
    (fixture, gate)
}

#[tokio::test]
async fn a_call_during_an_outage_fails_without_waiting_for_its_timeout() {
    let (mut fixture, gate) = start().await;
    fixture.sidecar.set(set("key", "value")).await.unwrap();
    gate.is_open.send_replace(false);
    wait_for_the_loss(&mut fixture.sidecar).await;
    let call = fixture.sidecar.set(set("key", "new"));
    let status = tokio::time::timeout(PATIENCE, call).await.unwrap();
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.details().is_empty(), "{status:?}");
    assert!(status.message().contains("not connected"), "{status:?}");
}

#[tokio::test]
async fn a_call_after_an_outage_does_not_wait_for_the_backoff() {
    let (mut fixture, gate) = start().await;
    fixture.sidecar.set(set("key", "value")).await.unwrap();
    gate.is_open.send_replace(false);
    wait_for_the_loss(&mut fixture.sidecar).await;
    // The next attempt by itself comes after up to an hour.
    gate.refused.notified().await;
    gate.is_open.send_replace(true);
    let began = Instant::now();
    // A connection attempt that began before the gate opened may still fail.
    while let Err(status) = fixture.sidecar.try_get("key").await {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(began.elapsed() < PATIENCE, "{status:?}");
    }
    assert_eq!(fixture.sidecar.get("key").await.data, "value");
}
