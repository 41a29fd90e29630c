//! What the log is told, and what it is not.
use crate::support::{Broker, session_present, value, version, within};
use statestore::Hlc;
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Reply, ServiceError};
use std::io;
use std::sync::{Arc, Mutex};

/// What was written to the log.
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
async fn a_store_that_is_ahead_is_reported_once_and_not_at_each_response() {
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
    peer.answer(&Reply::Error(ServiceError::NotAuthorized), None)
        .await;
    while within(observer.next()).await.is_some() {}
    let text = log.text();
    assert!(text.contains("a watch ends"), "{text}");
    assert!(!text.contains("private"), "{text}");
}
