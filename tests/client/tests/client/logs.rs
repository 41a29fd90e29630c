//! Events that are logged, and data that must not be logged.
use crate::support::{Broker, session_present, value, version, within};
use statestore::{GetOptions, Hlc};
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestore_protocol::{Reply, ServiceError};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

/// The text that was written to the log.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Takes everything that is written by this thread.
    fn open() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone());
        (log, tracing::subscriber::set_default(subscriber.finish()))
    }

    /// Takes the spans of requests that this thread ends.
    fn of_requests() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let printer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone());
        let requests = Targets::new().with_target("statestore::request", LevelFilter::DEBUG);
        let subscriber = tracing_subscriber::registry().with(printer.with_filter(requests));
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The fields of the last span, without its latency.
    fn last(&self) -> String {
        let text = self.text();
        let last = text.lines().last().unwrap();
        let fields = last.split(['{', '}']).nth(1).unwrap();
        let fields = fields
            .split(' ')
            .filter(|it| !it.starts_with("latency_us="));
        fields.collect::<Vec<_>>().join(" ")
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_clock_skew_is_logged_once() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let (log, _open) = Log::open();
    let far = Hlc::new(u64::MAX, 0, "StateStore").unwrap();
    for number in 0..30 {
        // Keys that are ahead and keys that are not take turns.
        let version = if number % 3 == 0 {
            version(1)
        } else {
            far.clone()
        };
        let answer = async { peer.answer(&value("v"), Some(&version)).await };
        let (entry, _) = within(async { tokio::join!(client.get("k"), answer) }).await;
        entry.unwrap().unwrap();
    }
    assert_eq!(client.counters().clock_skews, 20);
    let text = log.text();
    assert_eq!(text.matches("too far ahead").count(), 1, "{text}");
}

#[tokio::test]
async fn a_watch_that_ends_is_reported_without_its_key() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let (log, _open) = Log::open();
    let answer = async { peer.answer(&Reply::Ok, None).await };
    let (observer, _) = within(async { tokio::join!(client.observe("private"), answer) }).await;
    let mut observer = observer.unwrap();
    peer.disconnect(ReasonCode::SERVER_SHUTTING_DOWN).await;
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(session_present()).await;
    peer.confirm_session().await;
    peer.answer(&Reply::Error(ServiceError::NotAuthorized), None)
        .await;
    while within(observer.next()).await.is_some() {}
    let text = log.text();
    assert!(text.contains("a watch ends"), "{text}");
    assert!(!text.contains("private"), "{text}");
}

#[tokio::test]
async fn each_request_is_a_span_with_its_outcome() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let (log, _open) = Log::of_requests();
    let answer = async { peer.answer(&Reply::Ok, Some(&version(1))).await };
    let (set, _) = within(async { tokio::join!(client.set("private", "secret"), answer) }).await;
    set.unwrap();
    assert_eq!(log.last(), "verb=\"SET\" key_bytes=7 attempts=1 outcome=ok");
    let latency = log.text();
    let latency = latency.split("latency_us=").nth(1).unwrap();
    let latency: u64 = latency.split(' ').next().unwrap().parse().unwrap();
    assert!(latency > 0);

    let refusal = Reply::Error(ServiceError::NotAuthorized);
    let answer = async { peer.answer(&refusal, None).await };
    let (get, _) = within(async { tokio::join!(client.get("private"), answer) }).await;
    get.unwrap_err();
    assert_eq!(
        log.last(),
        "verb=\"GET\" key_bytes=7 attempts=1 outcome=not authorized"
    );

    let late = GetOptions::new().timeout(Duration::ZERO);
    client.get_with("k", &late).await.unwrap_err();
    assert_eq!(
        log.last(),
        "verb=\"GET\" key_bytes=1 attempts=0 outcome=timed out"
    );

    let get = client.get("k");
    let wait = async { peer.request().await };
    tokio::select! { biased; _ = get => unreachable!(), _ = wait => {} }
    assert_eq!(
        log.last(),
        "verb=\"GET\" key_bytes=1 attempts=1 outcome=cancelled"
    );

    // Harmless requests of a lost session are sent again.
    let again = async {
        peer.request().await;
        peer.disconnect(ReasonCode::SERVER_SHUTTING_DOWN).await;
        let mut peer = broker.accept().await;
        peer.connect().await;
        peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
        peer.subscribe().await;
        peer.answer(&Reply::Nil, None).await;
        peer
    };
    let (get, _peer) = within(async { tokio::join!(client.get("k"), again) }).await;
    get.unwrap();
    assert_eq!(log.last(), "verb=\"GET\" key_bytes=1 attempts=2 outcome=ok");
    let text = log.text();
    assert!(
        !text.contains("private") && !text.contains("secret"),
        "{text}"
    );
}
