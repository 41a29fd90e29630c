//! Several components on one socket, their metadata, and what becomes of them when the process begins anew.
use crate::harness::{Fixture, PATIENCE, Process, Sidecar, set};
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
async fn the_same_component_can_be_begun_again() {
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
    assert!(status.message().contains("not initialized"), "{status:?}");
}

#[tokio::test]
async fn with_a_url_components_outlive_the_process() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let url = store.url();
    let process = Process::start(&socket, &["--url", &url]);
    let mut sidecar = Sidecar::connect(&socket, "fixture").await;
    sidecar.init(&[("keyPrefix", "none")]).await.unwrap();
    sidecar.set(set("key", "value")).await.unwrap();
    process.kill();
    let _process = Process::start(&socket, &["--url", &url]);
    // daprd keeps its connection, which is made again by itself, and does not say `Init` again.
    let began = Instant::now();
    let entry = loop {
        match sidecar.try_get("key").await {
            Ok(entry) => break entry,
            Err(status) => assert!(began.elapsed() < PATIENCE, "{status:?}"),
        }
    };
    assert_eq!(entry.data, "value");
}

/// A broker that says nothing.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// A call that is answered when all that were begun before on this connection have been looked at.
async fn look_at_all_before(sidecar: &mut Sidecar) {
    let status = sidecar.init(&[("hostnam", "no setting")]).await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_component_does_not_wait_for_the_store_of_another_one() {
    let (broker, url) = silent().await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let _process = Process::start(&socket, &["--url", &url]);
    let mut first = Sidecar::connect(&socket, "first").await;
    let mut call = tokio::spawn(async move { first.try_get("key").await });
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
async fn calls_that_wait_for_a_store_learn_together_that_it_is_not_there() {
    let (broker, url) = silent().await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let _process = Process::start(&socket, &["--url", &url]);
    let mut sidecar = Sidecar::connect(&socket, "fixture").await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let mut sidecar = sidecar.clone();
        calls.spawn(async move { sidecar.try_get("key").await });
    }
    let (connection, _) = broker.accept().await.unwrap();
    look_at_all_before(&mut sidecar).await;
    drop(connection);
    tokio::select! {
        again = broker.accept() => panic!("each call tries by itself: {again:?}"),
        results = calls.join_all() => for result in results {
            assert_eq!(result.unwrap_err().code(), Code::Unavailable);
        }
    }
    // Whoever comes later tries again.
    let mut call = tokio::spawn(async move { sidecar.try_get("key").await });
    tokio::select! {
        ended = &mut call => panic!("{ended:?}"),
        again = broker.accept() => drop(again.unwrap()),
    }
    call.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn names_do_not_make_connections_without_end() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let _process = Process::start(&socket, &["--url", &store.url()]);
    let mut first = Sidecar::connect(&socket, "0").await;
    for number in 0..100 {
        let mut sidecar = Sidecar::connect(&socket, &number.to_string()).await;
        sidecar.set(set("key", "value")).await.unwrap();
    }
    let mut extra = Sidecar::connect(&socket, "extra").await;
    for status in [
        extra.set(set("key", "extra")).await.unwrap_err(),
        extra.init(&[]).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(status.message().contains("100 components"), "{status:?}");
    }
    first.init(&[]).await.unwrap();
    assert_eq!(first.value("key").await.as_deref(), Some("value"));
}

#[tokio::test]
async fn a_store_that_is_gone_is_an_error_in_time() {
    let mut fixture = Fixture::start_with(&[("requestTimeout", "300ms")]).await;
    fixture.sidecar.set(set("key", "value")).await.unwrap();
    fixture.store.stop().unwrap();
    let status = fixture.sidecar.try_get("key").await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    let status = fixture.sidecar.set(set("key", "new")).await.unwrap_err();
    assert!(status.details().is_empty(), "{status:?}");
}
