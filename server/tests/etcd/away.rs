//! What a server says and does while its etcd does not answer.
use crate::LONG;
use crate::cluster::{Etcd, config};
use statestore::{Client, Error, ErrorKind, GetOptions, Outcome, Settings};
use statestored::RunningServer;
use statestored::admin::AdminConfig;
use statestored::config::Config;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

pub(crate) fn get(server: &RunningServer, path: &str) -> String {
    let mut stream = TcpStream::connect(server.http_address().unwrap()).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks until it is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::NoStore, "{error}");
    assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    assert!(error.is_retryable(), "{error}");
    assert!(
        error.to_string().contains("the storage does not answer"),
        "{error}"
    );
}

#[test]
fn requests_are_refused_before_their_deadline_and_readiness_says_why() {
    let mut etcd = Etcd::start();
    let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), None).unwrap();
    let server = RunningServer::start(Config {
        admin: Some(admin),
        ..config(&etcd, "test")
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let is_ready = || get(&server, "/readyz").starts_with("HTTP/1.1 200");
        until("it is ready", is_ready).await;
        let settings: Settings = server.url().parse().unwrap();
        let client = Client::connect(settings).await.unwrap();
        client.set("k", "1").await.unwrap();
        etcd.kill();

        let patient = GetOptions::new().timeout(2 * LONG);
        let begun = Instant::now();
        is_refused(&client.get_with("k", &patient).await.unwrap_err());
        assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
        // Nothing is known of this key, so that it would have to be read before it is written.
        is_refused(&client.set("other", "1").await.unwrap_err());
        until("it says why", || {
            get(&server, "/readyz").contains("storage_away")
        })
        .await;
        let metrics = get(&server, "/metrics");
        assert!(
            metrics.contains("\nstatestored_engine_away 1\n"),
            "{metrics}"
        );
        assert!(
            !metrics.contains("kind=\"read\",result=\"unanswered\"} 0"),
            "{metrics}"
        );

        etcd.start_again();
        until("it is ready again", is_ready).await;
        assert_eq!(client.get("other").await.unwrap(), None);
        client.set("k", "2").await.unwrap();
        let metrics = get(&server, "/metrics");
        assert!(
            metrics.contains("\nstatestored_engine_away 0\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains("\nstatestored_engine_watched 1\n"),
            "{metrics}"
        );
    });
    server.stop().unwrap();
}
