//! Default behaviour of Mosquitto, and the client's reaction to it.
#![allow(clippy::unwrap_used)]

use faults::{AttachedStore, Direction, Mosquitto, Proxy, direct, until, within};
use statestore::{Client, ErrorKind, GetOptions, Observation, Outcome, Settings};
use statestore_protocol::mqtt::{Packet, ReasonCode};
use std::time::Duration;

fn settings(broker: &Mosquitto) -> Settings {
    direct(broker.address())
}

#[tokio::test]
async fn commands_and_notifications_pass() {
    let broker = Mosquitto::start();
    let _store = AttachedStore::start(broker.address()).await;
    let reader = Client::connect(settings(&broker)).await.unwrap();
    let mut observer = reader.observe("k").await.unwrap();
    let writer = Client::connect(settings(&broker)).await.unwrap();
    let set = writer.set("k", "v").await.unwrap();
    let entry = reader.get("k").await.unwrap().unwrap();
    assert_eq!(
        (&entry.value[..], &entry.version),
        (&b"v"[..], set.version().unwrap())
    );
    assert_eq!(
        within(observer.next()).await,
        Some(Observation::Set {
            value: "v".into(),
            version: set.version().unwrap().clone()
        })
    );
    assert_eq!(reader.get("other").await.unwrap(), None);
}

/// Some distributions build Mosquitto without WebSocket, Debian 12 for one. `tests/client/tests/connection/websocket.rs` needs none.
#[tokio::test]
async fn values_pass_over_websocket() {
    let Some((broker, websocket)) = Mosquitto::start_with_websocket() else {
        eprintln!("this Mosquitto has no WebSocket: nothing is tested");
        return;
    };
    let _store = AttachedStore::start(broker.address()).await;
    let settings: Settings = format!("ws://{websocket}").parse().unwrap();
    let client = within(Client::connect(settings)).await.unwrap();
    // Mosquitto 2.0.11 does not deliver messages of more than some 128 KiB over WebSocket.
    for length in [0, 125, 126, 1000, 65_536] {
        let value = vec![7; length];
        client.set("k", &value).await.unwrap();
        let entry = within(client.get("k")).await.unwrap().unwrap();
        assert!(entry.value == value, "{length} bytes");
    }
    client.close().await;
}

/// Mosquitto answers a request without a subscriber with PUBACK 0x10 (no matching subscribers), a success by MQTT.
#[tokio::test]
async fn a_request_without_a_store_fails_as_not_done() {
    let broker = Mosquitto::start();
    let client = Client::connect(settings(&broker)).await.unwrap();
    let patient = GetOptions::new().timeout(Duration::from_secs(600));
    let error = within(client.get_with("k", &patient)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), error.mqtt_reason()),
        (
            ErrorKind::NoStore,
            Outcome::NotDone,
            Some(ReasonCode::NO_MATCHING_SUBSCRIBERS)
        )
    );
    assert!(error.is_retryable());
    let error = within(client.set("k", "v")).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone);
    assert!(
        error.to_string().contains("no state store listens"),
        "{error}"
    );
    // A store that comes later is found.
    let store = AttachedStore::start(broker.address()).await;
    assert!(store.histories().is_empty());
    assert_eq!(within(client.get("k")).await.unwrap(), None);
}

/// Mosquitto announces a Receive Maximum of 20.
#[tokio::test]
async fn unacknowledged_publishes_never_exceed_the_receive_maximum() {
    const ALL: usize = 100;
    const MAXIMUM: usize = 20;
    let broker = Mosquitto::start();
    let _store = AttachedStore::start(broker.address()).await;
    let proxy = Proxy::start(broker.address()).await;
    proxy.start_recording();
    let client = Client::connect(proxy.settings()).await.unwrap();
    proxy.stall(Direction::ToClient);
    let values: Vec<_> = (0..ALL).map(|number| (number.to_string(), "v")).collect();
    let writer = client.clone();
    let sets = tokio::spawn(async move { writer.set_many(&values).await });
    until(|| client.counters().queued + client.counters().in_flight == ALL as u64).await;
    let publishes = || {
        let is_publish = |packet: &Packet| matches!(packet, Packet::Publish(_));
        proxy.sent(0).iter().filter(|it| is_publish(it)).count()
    };
    until(|| publishes() == MAXIMUM).await;
    assert_eq!(
        (client.counters().in_flight, client.counters().queued),
        (MAXIMUM as u64, (ALL - MAXIMUM) as u64)
    );
    proxy.resume(Direction::ToClient);
    let outcomes = within(sets).await.unwrap();
    assert_eq!(outcomes.iter().filter(|set| set.is_ok()).count(), ALL);
    assert_eq!(publishes(), ALL);
}
