//! Several components on one socket, their metadata, and their state after a restart of the process.
use crate::harness::{Fixture, PATIENCE, Process, Sidecar, set};
use statestore_dapr::proto::PingRequest;
use statestored::RunningServer;
use statestored::config::Config;
use std::time::Instant;
use tokio::net::TcpListener;
use tonic::Code;

#[tokio::test]
async fn each_component_has_its_own_store() {
    let mut fixture = Fixture::start().await;
    let other = RunningServer::start(Config::in_memory()).unwrap();
    let mut second = Sidecar::connect(&fixture.process.socket, "second").await;
    let port = other.addresses()[0].port().to_string();
    second
        .init(&[
            ("hostname", "127.0.0.1"),
            ("tcpPort", &port),
            ("useTls", "false"),
            ("keyPrefix", "none"),
            ("actorStateStore", "true"),
            ("clientId", "second"),
        ])
        .await
        .unwrap();
    fixture.sidecar.set(set("key", "first")).await.unwrap();
    assert_eq!(second.value("key").await, None);
    second.set(set("key", "second")).await.unwrap();
    assert_eq!(fixture.sidecar.value("key").await.as_deref(), Some("first"));
}

#[tokio::test]
async fn a_component_can_be_initialised_again() {
    let mut fixture = Fixture::start().await;
    fixture.sidecar.set(set("key", "first")).await.unwrap();
    let other = RunningServer::start(Config::in_memory()).unwrap();
    fixture
        .sidecar
        .init(&[("url", &other.url())])
        .await
        .unwrap();
    assert_eq!(fixture.sidecar.value("key").await, None);
}

#[tokio::test]
async fn metadata_that_cannot_be_used_is_refused() {
    let fixture = Fixture::start().await;
    let mut sidecar = Sidecar::connect(&fixture.process.socket, "wrong").await;
    for (properties, problem) in [
        (&[("hostnam", "JZ")][..], "did you mean `hostname`?"),
        (&[("tcpPort", "JZ")], "`tcpPort`"),
        (&[("url", "mqtt://JZ:JZ@:1")], "it names no host"),
        (&[("url", "mqtt://h"), ("caFile", "/c")], "`ca_file` is set"),
    ] {
        let status = sidecar.init(properties).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(problem), "{status:?}");
        assert!(!status.message().contains("JZ"), "{status:?}");
    }
    let nobody = [("url", "mqtt://127.0.0.1:1")];
    let status = sidecar.init(&nobody).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let status = sidecar.set(set("key", "value")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("not initialised"), "{status:?}");
}

#[tokio::test]
async fn after_a_restart_calls_fail_until_the_component_is_initialised() {
    let mut fixture = Fixture::start().await;
    let default = RunningServer::start(Config::in_memory()).unwrap();
    let url = fixture.store.url();
    let properties = [("url", url.as_str()), ("keepContentType", "true")];
    fixture.sidecar.init(&properties).await.unwrap();
    fixture.sidecar.set(set("key", "value")).await.unwrap();
    let socket = fixture.process.socket.clone();
    fixture.process.kill();
    let _process = Process::start(&socket, &["--url", &default.url()]);
    let mut sidecar = fixture.sidecar;
    let began = Instant::now();
    // Until the channel has connected again, each call fails with a message of its own.
    let status = loop {
        let status = sidecar.set(set("key", "astray")).await.unwrap_err();
        if status.message().contains("not initialised") {
            break status;
        }
        assert!(began.elapsed() < PATIENCE, "{status:?}");
    };
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let status = sidecar.state.ping(PingRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    sidecar.init(&properties).await.unwrap();
    assert_eq!(sidecar.value("key").await.as_deref(), Some("value"));
    sidecar.init(&[("keyPrefix", "none")]).await.unwrap();
    assert_eq!(sidecar.value("key").await, None, "the store of --url");
}

/// A broker that accepts connections and sends nothing.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn a_component_does_not_wait_for_the_store_of_another_one() {
    let (broker, url) = silent().await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let _process = Process::start(&socket, &[]);
    let mut first = Sidecar::connect(&socket, "first").await;
    let mut call = tokio::spawn(async move { first.init(&[("url", &url)]).await });
    let (connection, _) = broker.accept().await.unwrap();
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let mut second = Sidecar::connect(&socket, "second").await;
    let url = store.url();
    let properties = [("url", url.as_str())];
    tokio::select! {
        biased;
        ended = &mut call => panic!("{ended:?}"),
        begun = second.init(&properties) => begun.unwrap(),
    }
    second.set(set("key", "value")).await.unwrap();
    drop(connection);
    call.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn the_number_of_instances_is_limited() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let _process = Process::start(&socket, &["--url", &store.url()]);
    let mut first = Sidecar::connect(&socket, "0").await;
    for number in 0..100 {
        let mut sidecar = Sidecar::connect(&socket, &number.to_string()).await;
        sidecar.init(&[]).await.unwrap();
        sidecar.set(set("key", "value")).await.unwrap();
    }
    let mut extra = Sidecar::connect(&socket, "extra").await;
    let status = extra.init(&[]).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("100 components"), "{status:?}");
    first.init(&[]).await.unwrap();
    assert_eq!(first.value("key").await.as_deref(), Some("value"));
}
