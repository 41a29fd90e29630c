//! The broker restarts: its sessions are gone, and with a store in memory the keys as well.
#![allow(clippy::unwrap_used)]

use faults::set_load::{check, keys};
use faults::{
    AcceptMode, ChangeRecorder, CutKind, Direction, Proxy, SetLoad, direct, reconnecting, store,
    until, within,
};
use statestore::{Client, ErrorKind, Observation, Outcome};
use statestore_protocol::Command;
use statestore_protocol::mqtt::Packet;
use statestored::RunningServer;
use statestored::config::Config;

/// The packets that set a connection up, and the verbs of the requests after that.
fn packet_summary(packets: &[Packet]) -> (Vec<&'static str>, Vec<Command>) {
    let mut names = Vec::new();
    let mut commands = Vec::new();
    for packet in packets {
        names.push(match packet {
            Packet::Connect(_) => "CONNECT",
            Packet::Subscribe(_) => "SUBSCRIBE",
            Packet::Publish(publish) => {
                assert!(!publish.dup(), "a new session knows no duplicates");
                commands.push(Command::decode(&publish.payload()).unwrap());
                "PUBLISH"
            }
            Packet::PubAck(_) => continue,
            other => panic!("{other:?}"),
        });
    }
    (names, commands)
}

#[tokio::test]
async fn retryable_requests_are_sent_again_and_others_fail_as_unknown() {
    const EACH: usize = 5;
    let (server, address) = store();
    let proxy = Proxy::start(address).await;
    proxy.start_recording();
    let client = Client::connect(proxy.settings()).await.unwrap();
    client.set("observed", "before").await.unwrap();
    let mut observer = client.observe("observed").await.unwrap();

    // Executed, and their responses are on the way.
    proxy.stall(Direction::ToClient);
    let sets: Vec<_> = (0..EACH)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.set(format!("set-{number}"), "v").await })
        })
        .collect();
    let gets: Vec<_> = (0..EACH)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.get(format!("get-{number}")).await })
        })
        .collect();
    let all = 2 * EACH as u64;
    until(|| client.counters().in_flight == all).await;
    let observing = Client::connect(direct(address)).await.unwrap();
    for number in 0..EACH {
        while observing
            .get(format!("set-{number}"))
            .await
            .unwrap()
            .is_none()
        {}
    }
    drop(observing);

    proxy.set_accept_mode(AcceptMode::Reset);
    server.stop().unwrap();
    proxy.cut(CutKind::Reset);
    reconnecting(&client).await;
    // Not sent: they wait for the new connection.
    let late = {
        let client = client.clone();
        tokio::spawn(async move { client.set("late", "v").await })
    };
    until(|| client.counters().queued == 1).await;
    let (_server, address) = store();
    proxy.set_upstream(address);
    let refused = proxy.connections();
    proxy.set_accept_mode(AcceptMode::Forward);

    for set in sets {
        let error = within(set).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::SessionLost, Outcome::Unknown)
        );
    }
    for get in gets {
        assert_eq!(within(get).await.unwrap().unwrap(), None);
    }
    assert!(within(late).await.unwrap().unwrap().is_applied());
    assert_eq!(within(observer.next()).await, Some(Observation::Resync));
    assert_eq!(
        within(observer.next()).await,
        Some(Observation::Deleted { version: None }),
        "the new store does not have the key"
    );

    // Unsafe requests were not sent twice, and the subscriptions came first.
    let number = (refused..proxy.connections())
        .find(|number| !proxy.sent(*number).is_empty())
        .unwrap();
    let (names, commands) = packet_summary(&proxy.sent(number));
    assert_eq!(names[..3], ["CONNECT", "SUBSCRIBE", "PUBLISH"]);
    let sets: Vec<_> = commands
        .iter()
        .filter(|command| matches!(command, Command::Set { .. }))
        .collect();
    assert!(matches!(sets[..], [Command::Set { key, .. }] if key == "late"));
    let direct = Client::connect(direct(address)).await.unwrap();
    for number in 0..EACH {
        assert_eq!(direct.get(format!("set-{number}")).await.unwrap(), None);
    }
    assert_eq!(client.counters().sessions_lost, 1);
    assert_eq!(client.counters().in_flight, 0);
}

#[tokio::test]
async fn a_durable_store_keeps_acknowledged_changes() {
    const SETS: usize = 2_000;
    const KEYS: usize = 50;
    const RESTARTS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let start = || RunningServer::start(Config::durable(folder.path())).unwrap();
    let mut server = start();
    let proxy = Proxy::start(server.addresses()[0]).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    let mut load = SetLoad::start(&client, SETS, 16, KEYS);
    for number in 0..RESTARTS {
        load.wait_for_ended((2 * number + 1) * SETS / (2 * RESTARTS))
            .await;
        // In another thread, so that the SETs go on meanwhile.
        tokio::task::spawn_blocking(move || server.stop().unwrap())
            .await
            .unwrap();
        server = start();
        proxy.set_upstream(server.addresses()[0]);
    }
    let attempts = load.finish().await;
    let counters = client.counters();
    assert_eq!(counters.sessions_lost, RESTARTS as u64, "{counters:?}");

    let mut unknown = 0;
    for attempt in &attempts {
        let value = attempt.number.to_string();
        let entry = client.get(&attempt.key).await.unwrap();
        match &attempt.result {
            Ok(outcome) => {
                let entry = entry.expect("a SET succeeded");
                assert!(entry.version >= *outcome.version().unwrap(), "{attempt:?}");
                assert_eq!(
                    entry.version == *outcome.version().unwrap(),
                    entry.value == value.as_bytes()
                );
            }
            Err(error) if error.outcome() == Outcome::Unknown => unknown += 1,
            Err(_) => assert!(entry.is_none_or(|entry| entry.value != value.as_bytes())),
        }
    }
    assert!(unknown <= RESTARTS * 16, "at most what was under way");
}

#[tokio::test]
async fn a_client_works_normally_after_a_server_restart() {
    let (server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    client.set("k", "v").await.unwrap();
    server.stop().unwrap();
    let (_server, address) = store();
    proxy.set_upstream(address);
    let witness =
        ChangeRecorder::start(Client::connect(direct(address)).await.unwrap(), keys(8)).await;
    let attempts = SetLoad::start(&client, 200, 8, 8).finish().await;
    assert!(attempts.iter().all(|attempt| attempt.result.is_ok()));
    check(&attempts, &witness.histories().await);
}
