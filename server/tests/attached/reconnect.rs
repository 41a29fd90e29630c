//! The broker, or the connection to it, goes away and comes back.
use super::world::{Peer, Store, now};
use harness::{AcceptMode, CutKind, Mosquitto, Proxy, direct, within};
use statestore::{Client, Observation};
use tokio::task::spawn_blocking;

#[tokio::test]
async fn a_broker_restart_loses_no_acknowledged_write() {
    let mut broker = Mosquitto::start();
    let store = Store::start(broker.address(), &[]);
    let writer = Client::connect(direct(broker.address())).await.unwrap();
    let reader = Client::connect(direct(broker.address())).await.unwrap();
    let mut observer = reader.observe("0").await.unwrap();
    let mut acknowledged = vec![0_u64; 8];
    for round in 1..=3_u64 {
        for (key, last) in (0_u64..).zip(&mut acknowledged) {
            writer
                .set(key.to_string(), round.to_string())
                .await
                .unwrap();
            *last = round;
        }
        let burst: Vec<_> = (0..8_u64)
            .map(|key| {
                let writer = writer.clone();
                let value = format!("{}", round + 100);
                tokio::spawn(async move { writer.set(key.to_string(), value).await.is_ok() })
            })
            .collect();
        broker.kill();
        store.wait_until_response_contains("/readyz", "not_attached");
        broker.restart();
        for (key, set) in burst.into_iter().enumerate() {
            if within(set).await.unwrap() {
                acknowledged[key] = round + 100;
            }
        }
        store.wait_for_log("attached to the broker");
        for (key, last) in acknowledged.iter().enumerate() {
            let entry = within(reader.get(key.to_string())).await.unwrap().unwrap();
            let value: u64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
            // A SET that was not acknowledged may have been executed as well.
            assert!(
                value == *last || value == round + 100,
                "{key}: {value}, not {last}"
            );
        }
    }
    writer.set("0", "last").await.unwrap();
    loop {
        match within(observer.next()).await.unwrap() {
            Observation::Set { value, .. } if value == "last" => break,
            _ => {}
        }
    }
}

/// Cuts only the connection of the store: its clients notice nothing, and their notifications arrive later.
#[tokio::test]
async fn watches_survive_a_reconnect_to_the_broker() {
    let broker = Mosquitto::start();
    let proxy = Proxy::start(broker.address()).await;
    let others = spawn_blocking(move || {
        let store = Store::start(proxy.address(), &["--listen", "tcp://127.0.0.1:0"]);
        let now = now();
        let stamped: &[(&str, &str)] = &[("__ts", &now)];
        let mut watcher = Peer::connect(broker.address(), "watcher");
        watcher.request(&["KEYNOTIFY", "k"], stamped);
        let mut writer = Peer::connect(store.listener.unwrap(), "writer");
        // The request reaches the store after the broker's acknowledgement of the previous response. Without that acknowledgement, the
        // store would send the response again. The new response may be repeated as well, to a client that is gone.
        let ask = || Peer::connect(broker.address(), "asker").request(&["GET", "k"], stamped);
        ask();
        for value in ["1", "2", "3"] {
            proxy.set_accept_mode(AcceptMode::Reset);
            proxy.cut(CutKind::Reset);
            store.wait_until_response_contains("/readyz", "not_attached");
            writer.request(&["SET", "k", value], stamped);
            proxy.set_accept_mode(AcceptMode::Forward);
            let told = watcher.message();
            let payload = String::from_utf8_lossy(told.payload_bytes());
            assert!(payload.ends_with(&format!("{value}\r\n")), "{payload}");
            store.wait_until_response_contains("/readyz", "\r\n\r\nready");
            let held = ask();
            assert_eq!(
                held.payload_bytes(),
                format!("$1\r\n{value}\r\n").as_bytes()
            );
        }
    });
    others.await.unwrap();
}

/// Another client of the broker uses the client id of the store, which so loses its connection and its session.
#[tokio::test]
async fn a_session_takeover_of_the_server_loses_no_acknowledged_write() {
    let broker = Mosquitto::start();
    let address = broker.address();
    let store = Store::start(address, &["--attach-client-id", "store"]);
    let writer = Client::connect(direct(address)).await.unwrap();
    let reader = Client::connect(direct(address)).await.unwrap();
    let mut observer = reader.observe("last").await.unwrap();
    for round in 1..=3_u64 {
        let burst: Vec<_> = (0..16_u64)
            .map(|key| {
                let writer = writer.clone();
                let (key, value) = (format!("{round}-{key}"), round.to_string());
                tokio::spawn(async move { (writer.set(key.clone(), value).await.is_ok(), key) })
            })
            .collect();
        let other = spawn_blocking(move || Peer::connect(address, "store"));
        let other = other.await.unwrap();
        store.wait_for_log("not attached to the broker");
        store.wait_for_log("attached to the broker");
        // The other client lost the client id again, and does not reconnect to take it back.
        drop(other);
        for set in burst {
            let (is_set, key) = within(set).await.unwrap();
            let entry = within(reader.get(key.clone())).await.unwrap();
            assert!(!is_set || entry.is_some(), "{key}");
        }
        writer.set("last", round.to_string()).await.unwrap();
        loop {
            match within(observer.next()).await.unwrap() {
                Observation::Set { value, .. } if value == round.to_string() => break,
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn a_restarted_server_has_all_acknowledged_writes() {
    const KEYS: usize = 50;
    let broker = Mosquitto::start();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let attach = format!("mqtt://{}", broker.address());
    let options = ["--data-dir", data, "--attach", &attach];
    let store = Store::start_with(&options);
    let client = Client::connect(direct(broker.address())).await.unwrap();
    let sets: Vec<_> = (0..KEYS)
        .map(|key| {
            let client = client.clone();
            tokio::spawn(async move { client.set(key.to_string(), "v").await.is_ok() })
        })
        .collect();
    within(client.set("last", "v")).await.unwrap();
    drop(store);
    let _store = Store::start_with(&options);
    for (key, set) in sets.into_iter().enumerate() {
        if within(set).await.unwrap() {
            assert!(
                within(client.get(key.to_string())).await.unwrap().is_some(),
                "{key}"
            );
        }
    }
    assert!(within(client.get("last")).await.unwrap().is_some());
}
