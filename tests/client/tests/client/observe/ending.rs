//! How observing ends, and what cannot begin.
use super::{next, observe, reconnect};
use crate::support::{Broker, version, within};
use statestore::{
    Client, ErrorKind, LostReason, Observation, ObserveOptions, Observer, Outcome, Settings,
    TransactionRecord,
};
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestore_protocol::{Command, Event, Reply, ServiceError};
use statestored::{RunningServer, config::Config};
use std::time::Duration;

#[tokio::test]
async fn a_rejected_watch_returns_its_reason() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let refusal = Reply::Error(ServiceError::NotAuthorized);
    let (observer, _) =
        within(async { tokio::join!(client.observe("k"), peer.answer(&refusal, None)) }).await;
    let error = observer.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::NotAuthorized, Outcome::NotDone)
    );
    assert!(
        error.to_string().starts_with("KEYNOTIFY \"k\": "),
        "{error}"
    );

    let soon = ObserveOptions::new().timeout(Duration::from_millis(5));
    let error = client.observe_with("k", &soon).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    // The client ends the watch that has no observers left.
    assert_eq!(
        peer.answer(&Reply::Ok, None).await.command,
        Command::Watch { key: "k".into() }
    );
    assert_eq!(
        peer.answer(&Reply::Count(0), None).await.command,
        Command::Unwatch { key: "k".into() }
    );
}

#[tokio::test]
async fn a_broker_that_refuses_notifications_still_serves_requests() {
    let broker = Broker::start().await;
    let accept = async {
        let mut peer = broker.accept().await;
        peer.connect().await;
        peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
        peer.answer_subscribe(&[ReasonCode::GRANTED_QOS_1, ReasonCode::NOT_AUTHORIZED])
            .await;
        peer
    };
    let (client, mut peer) =
        within(async { tokio::join!(Client::connect(broker.settings()), accept) }).await;
    let client = client.unwrap();
    let error = client.observe("k").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.mqtt_reason()),
        (ErrorKind::Rejected, Some(ReasonCode::NOT_AUTHORIZED))
    );
    let (entry, _) =
        within(async { tokio::join!(client.get("k"), peer.answer(&Reply::Nil, None)) }).await;
    assert_eq!(entry.unwrap(), None);
}

#[tokio::test]
async fn a_watch_that_is_no_longer_allowed_ends_its_observers() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Error(ServiceError::NotAuthorized), None)
        .await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.error().unwrap().kind(), ErrorKind::NotAuthorized);
    assert_eq!(observer.lost_reason(), Some(LostReason::Refused));
}

async fn assert_ends_at_a_record(mut observer: Observer) {
    while let Some(observation) = within(observer.next()).await {
        let shows_record = match &observation {
            Observation::Set { value, .. } => value.starts_with(&TransactionRecord::PREFIX),
            _ => false,
        };
        assert!(!shows_record, "{observation:?}");
    }
    assert_eq!(observer.lost_reason(), Some(LostReason::Refused));
    let error = observer.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("\"k\"") && text.contains("statestore-intents"),
        "{text}"
    );
}

#[tokio::test]
async fn an_observer_ends_at_a_record_of_an_unfinished_transaction() {
    let record = || TransactionRecord::PREFIX.to_vec().into();
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let notified = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set(record()), &version(1)).await;
    assert_ends_at_a_record(notified).await;
    peer.answer(&Reply::Ok, None).await;

    // A read of a key whose notifications are in doubt.
    let doubtful = observe(&client, &mut peer, "k").await;
    for number in [9, 8] {
        let value = number.to_string().into();
        peer.notify(b"k", &Event::Set(value), &version(number))
            .await;
    }
    peer.answer(&Reply::Value(record()), Some(&version(9)))
        .await;
    assert_ends_at_a_record(doubtful).await;
    peer.answer(&Reply::Ok, None).await;

    let behind = observe(&client, &mut peer, "k").await;
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    peer.answer(&Reply::Value(record()), Some(&version(9)))
        .await;
    assert_ends_at_a_record(behind).await;
}

#[tokio::test]
async fn observers_report_a_session_takeover() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    assert_eq!(observer.lost_reason(), None);
    peer.disconnect(ReasonCode::SESSION_TAKEN_OVER).await;
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.lost_reason(), Some(LostReason::TakenOver));
    let error = observer.error().unwrap();
    assert_eq!(
        (error.kind(), error.mqtt_reason()),
        (ErrorKind::Closed, Some(ReasonCode::SESSION_TAKEN_OVER))
    );
    // Closing the client afterwards does not change the reason of the end.
    within(client.close()).await;
    assert_eq!(observer.lost_reason(), Some(LostReason::TakenOver));
}

#[tokio::test]
async fn observers_report_a_client_that_gave_up() {
    let broker = Broker::start().await;
    let settings = broker.settings().reconnect_limit(Duration::ZERO);
    let (client, mut peer) = broker.connect(settings).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    drop((broker, peer));
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.lost_reason(), Some(LostReason::GaveUp));
    assert_eq!(observer.error().unwrap().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn observers_end_with_the_client() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    within(client.close()).await;
    assert_eq!(within(observer.next()).await, None);
    assert!(observer.error().is_none());
    assert_eq!(observer.lost_reason(), Some(LostReason::Closed));
    assert_eq!(
        client.observe("k").await.unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[tokio::test]
async fn an_observer_ends_with_its_reason_if_the_value_is_too_large() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let connect = async |id: &str, bytes: u32| {
        let settings = Settings::from_url(&server.url()).unwrap();
        let settings = settings.client_id(id).max_packet_bytes(bytes);
        Client::connect(settings).await.unwrap()
    };
    let (small, writer) = (
        connect("small", 2_048).await,
        connect("writer", 1 << 20).await,
    );
    let mut too_large = small.observe("k").await.unwrap();
    let mut other = small.observe("other").await.unwrap();
    writer.set("k", vec![b'v'; 4_096]).await.unwrap();
    // Something was missed, and cannot be shown.
    while let Some(observation) = within(too_large.next()).await {
        assert!(
            !matches!(observation, Observation::Set { .. }),
            "{observation:?}"
        );
    }
    assert_eq!(too_large.lost_reason(), Some(LostReason::Refused));
    let error = too_large.error().unwrap();
    assert_eq!(
        error.mqtt_reason(),
        Some(ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR)
    );
    assert!(error.to_string().contains("cannot be sent"), "{error}");
    // All else goes on over the next connection.
    writer.set("other", "v").await.unwrap();
    loop {
        match next(&mut other).await {
            Observation::Set { value, .. } => break assert_eq!(value, "v"),
            // Reported before it: the gap, and the state that was read after it.
            Observation::Resync | Observation::Deleted { version: None } => {}
            told => panic!("{told:?}"),
        }
    }
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
}
