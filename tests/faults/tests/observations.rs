//! Observers while connections break.
#![allow(clippy::unwrap_used)]

use bytes::BytesMut;
use faults::set_load::keys;
use faults::{
    AcceptMode, AttachedStore, CutKind, Direction, Mosquitto, Proxy, direct, reconnecting, store,
    until, within,
};
use statestore::{Client, ConnectionState, Observation, ObserveOptions, Observer, Overflow};
use statestore_protocol::mqtt::session::{PublishOptions, Session, SessionConfig, Subscriptions};
use statestore_protocol::mqtt::{Connect, Packet, PublishHeader, Subscription};
use statestore_protocol::{Command, topic};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DELETE: &[u8] = b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n";

async fn connect(address: SocketAddr) -> Client {
    Client::connect(direct(address)).await.unwrap()
}

async fn next(observer: &mut Observer) -> Observation {
    within(observer.next()).await.expect("observers survive")
}

fn is_set(observation: &Observation, expected: &str) -> bool {
    matches!(observation, Observation::Set { value, .. } if value == expected)
}

async fn reconnected(client: &Client) {
    within(client.state().wait_for(ConnectionState::is_connected))
        .await
        .unwrap();
}

async fn disconnect(proxy: &Proxy, client: &Client) {
    proxy.set_accept_mode(AcceptMode::Reset);
    proxy.cut(CutKind::Reset);
    reconnecting(client).await;
}

#[tokio::test]
async fn changes_during_a_disconnect_arrive_as_the_last_state_after_a_resync() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    let writer = connect(address).await;
    for key in ["changed", "deleted", "made", "unchanged"] {
        writer.set(key, "old").await.unwrap();
    }
    writer.del("made").await.unwrap();
    let all = ObserveOptions::new().overflow(Overflow::All(100));
    let mut changed = client.observe("changed").await.unwrap();
    let mut changed_all = client.observe_with("changed", &all).await.unwrap();
    let mut deleted = client.observe("deleted").await.unwrap();
    let mut made = client.observe("made").await.unwrap();
    let mut unchanged = client.observe("unchanged").await.unwrap();
    // The observer has this value before the connection is lost.
    writer.set("unchanged", "same").await.unwrap();
    assert!(is_set(&next(&mut unchanged).await, "same"));

    disconnect(&proxy, &client).await;
    for text in ["one", "two", "three"] {
        writer.set("changed", text).await.unwrap();
    }
    writer.del("deleted").await.unwrap();
    writer.set("made", "new").await.unwrap();
    proxy.set_accept_mode(AcceptMode::Forward);

    for observer in [&mut changed, &mut changed_all] {
        assert_eq!(next(observer).await, Observation::Resync);
        // The broker may have kept notifications for the session, if it noticed the cut late.
        let mut state = next(observer).await;
        while is_set(&state, "one") || is_set(&state, "two") {
            state = next(observer).await;
        }
        assert!(is_set(&state, "three"), "{state:?}");
    }
    assert_eq!(next(&mut deleted).await, Observation::Resync);
    assert!(matches!(
        next(&mut deleted).await,
        Observation::Deleted { .. }
    ));
    assert_eq!(next(&mut made).await, Observation::Resync);
    assert!(is_set(&next(&mut made).await, "new"));
    assert_eq!(next(&mut unchanged).await, Observation::Resync);
    // And on it goes, without the states before.
    for (key, observer) in [
        ("changed", &mut changed),
        ("changed", &mut changed_all),
        ("deleted", &mut deleted),
        ("made", &mut made),
        ("unchanged", &mut unchanged),
    ] {
        let set = writer.set(key, "later").await.unwrap();
        let expected = Observation::Set {
            value: "later".into(),
            version: set.version().unwrap().clone(),
        };
        loop {
            let observation = next(observer).await;
            // The second observer of a key sees the change for the first one as well.
            if observation == expected {
                break;
            }
            assert!(is_set(&observation, "later"), "{observation:?}");
        }
    }
}

#[tokio::test]
async fn observers_of_a_key_share_one_keynotify_and_its_renewal() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    proxy.start_recording();
    let client = Client::connect(proxy.settings()).await.unwrap();
    let mut observers = Vec::new();
    for _ in 0..5 {
        observers.push(client.observe("k").await.unwrap());
    }
    let watches = |connection| {
        let is_watch = |packet: &Packet| match packet {
            Packet::Publish(publish) => matches!(
                Command::decode(&publish.payload()),
                Ok(Command::Watch { .. })
            ),
            _ => false,
        };
        proxy
            .sent(connection)
            .iter()
            .filter(|packet| is_watch(packet))
            .count()
    };
    assert_eq!(watches(0), 1);
    proxy.cut(CutKind::Finish);
    for observer in &mut observers {
        assert_eq!(next(observer).await, Observation::Resync);
    }
    let writer = connect(address).await;
    // The watch is renewed when a change arrives; until then the store has no watcher.
    let mut set = 0;
    while client.counters().notifications == 0 {
        writer.set("k", set.to_string()).await.unwrap();
        set += 1;
    }
    for observer in &mut observers {
        assert!(matches!(next(observer).await, Observation::Set { .. }));
    }
    assert_eq!(watches(1), 1);
}

#[tokio::test]
async fn every_observer_reaches_the_last_state_after_many_cuts() {
    const KEYS: usize = 60;
    const CUTS: usize = 12;
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    let writer = connect(address).await;
    let mut observing = Vec::new();
    for key in keys(KEYS) {
        let mut observer = client.observe(&key).await.unwrap();
        observing.push(tokio::spawn(async move {
            let mut highest = None;
            loop {
                match observer.next().await.expect("observers survive") {
                    Observation::Set { value, version } => {
                        assert!(highest.as_ref().is_none_or(|known| version > *known));
                        highest = Some(version);
                        if value == "last" {
                            return;
                        }
                    }
                    Observation::Deleted {
                        version: Some(version),
                    } => {
                        assert!(highest.as_ref().is_none_or(|known| version > *known));
                        highest = Some(version);
                    }
                    Observation::Deleted { version: None } | Observation::Resync => {}
                    other => panic!("{other:?}"),
                }
            }
        }));
    }
    for round in 0..CUTS {
        match round % 3 {
            0 => proxy.cut(CutKind::Reset),
            1 => proxy.cut(CutKind::Finish),
            _ => proxy.cut_after(Direction::ToClient, 500 + 61 * round, CutKind::Reset),
        }
        for (number, key) in keys(KEYS).enumerate() {
            match (round + number) % 4 {
                0 => drop(writer.del(&key).await.unwrap()),
                _ => drop(writer.set(&key, format!("round {round}")).await.unwrap()),
            }
        }
        until(|| proxy.connections() >= round + 2).await;
        reconnected(&client).await;
    }
    // While the client is away: an observer that missed the change would wait for ever.
    disconnect(&proxy, &client).await;
    for key in keys(KEYS) {
        writer.set(&key, "last").await.unwrap();
    }
    proxy.set_accept_mode(AcceptMode::Forward);
    for observer in observing {
        within(observer).await.unwrap();
    }
}

#[tokio::test]
async fn a_slow_observer_is_bounded_and_notified_of_missed_changes() {
    const KEPT: usize = 8;
    const CHANGES: u64 = 1_000;
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    let all = ObserveOptions::new().overflow(Overflow::All(KEPT));
    let mut latest = client.observe("k").await.unwrap();
    let mut all = client.observe_with("k", &all).await.unwrap();
    let writer = connect(address).await;
    for number in 0..CHANGES {
        writer.set("k", number.to_string()).await.unwrap();
    }
    until(|| client.counters().notifications == CHANGES).await;
    assert!(is_set(&next(&mut latest).await, "999"));
    assert_eq!(
        next(&mut all).await,
        Observation::Lagged(CHANGES - KEPT as u64)
    );
    for number in CHANGES - KEPT as u64..CHANGES {
        assert!(is_set(&next(&mut all).await, &number.to_string()));
    }
}

/// Another MQTT client, which publishes what it likes.
async fn publish(broker: SocketAddr, messages: &[(String, Option<&str>, &[u8])]) {
    let mut stream = TcpStream::connect(broker).await.unwrap();
    let mut session = Session::new(SessionConfig {
        connect: Connect {
            client_id: "mallory".into(),
            clean_start: true,
            ..Connect::default()
        },
        subscriptions: Subscriptions::new(|_| vec![Subscription::at_least_once("unused")]),
        ping_timeout_ms: 10_000,
    });
    session.connect(0).unwrap();
    let mut input = BytesMut::new();
    let mut waiting = messages.iter();
    let mut acknowledged = 0;
    while acknowledged < messages.len() {
        while session.capacity() > 0
            && let Some((topic, timestamp, payload)) = waiting.next()
        {
            let users: Vec<_> = timestamp.iter().map(|text| ("__ts", *text)).collect();
            let header = PublishHeader {
                topic,
                user_properties: &users,
                ..PublishHeader::default()
            };
            let write = |out: &mut BytesMut| out.extend_from_slice(payload);
            let terms = PublishOptions {
                tag: (),
                deadline_ms: u64::MAX,
                is_harmless: true,
            };
            session
                .publish(&header, payload.len(), write, terms)
                .unwrap();
        }
        let output = session.take_output(0);
        stream.write_all(&output).await.unwrap();
        session.written(output.len(), false, 0);
        within(stream.read_buf(&mut input)).await.unwrap();
        session
            .receive(&mut input, 0, usize::MAX, |event| {
                use statestore_protocol::mqtt::session::Event;
                acknowledged += usize::from(matches!(event, Event::Acknowledged { .. }));
            })
            .unwrap();
    }
}

/// A broker without rules for the topics lets any client publish to them.
#[tokio::test]
async fn forged_and_malformed_notifications_through_mosquitto_are_ignored() {
    let broker = Mosquitto::start();
    let _store = AttachedStore::start(broker.address()).await;
    let address = broker.address();
    let settings = direct(address).client_id("victim");
    let client = Client::connect(settings).await.unwrap();
    let mut observer = client.observe("k").await.unwrap();
    let set = client.set("k", "good").await.unwrap();
    assert!(is_set(&next(&mut observer).await, "good"));

    let good = topic::notification("victim", b"k");
    let prefix = good.strip_suffix("6B").unwrap();
    let version = set.version().unwrap().to_string();
    let malformed = [
        (format!("{prefix}6"), Some(&*version), DELETE),
        (format!("{prefix}ZZ"), Some(&version), DELETE),
        (format!("{prefix}\u{e9}"), Some(&version), DELETE),
        (prefix.to_owned(), Some(&version), DELETE),
        (good.clone(), None, DELETE),
        (good.clone(), Some("yesterday"), DELETE),
        (good.clone(), Some("1:2"), DELETE),
        (good.clone(), Some("99999999999999999999999:0:x"), DELETE),
        (good.clone(), Some(&version), b""),
        (
            good.clone(),
            Some(&version),
            b"*2\r\n$6\r\nNOTIFY\r\n$-6\r\nDELETE\r\n",
        ),
        (good.clone(), Some(&version), b"*-2\r\n"),
        (
            good.clone(),
            Some(&version),
            b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$99999999999\r\nx\r\n",
        ),
        (good.clone(), Some(&version), b"\xFF\xFE\x00"),
    ];
    publish(address, &malformed).await;
    // Well formed, but not news: the same version, an older one, a key without observers.
    let stale = [
        (good.clone(), Some(&*version), DELETE),
        (good.clone(), Some("1:0:StateStore"), DELETE),
        (
            topic::notification("victim", b"other"),
            Some(&version),
            DELETE,
        ),
    ];
    publish(address, &stale).await;
    until(|| {
        let counters = client.counters();
        counters.malformed_messages == malformed.len() as u64
            && counters.stale_notifications == stale.len() as u64
    })
    .await;
    let set = client.set("k", "still there").await.unwrap();
    assert_eq!(
        next(&mut observer).await,
        Observation::Set {
            value: "still there".into(),
            version: set.version().unwrap().clone()
        }
    );
    assert_eq!(client.counters().reconnects, 0);
}

/// `statestored` does not even let them through.
#[tokio::test]
async fn only_the_store_can_publish_notifications_through_statestored() {
    let (_server, address) = store();
    let settings = direct(address).client_id("victim");
    let client = Client::connect(settings).await.unwrap();
    let mut observer = client.observe("k").await.unwrap();
    let forged = (
        topic::notification("victim", b"k"),
        Some("1:0:StateStore"),
        DELETE,
    );
    publish(address, &[forged]).await;
    client.set("k", "v").await.unwrap();
    assert!(is_set(&next(&mut observer).await, "v"));
    assert_eq!(client.counters().notifications, 1);
}
