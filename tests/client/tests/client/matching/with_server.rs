//! Observers of patterns and mirrors of a real server.
use crate::support::within;
use bytes::Bytes;
use futures_core::Stream;
use statestore::{Client, Hlc, MatchObservation, MatchObserver, Mirror, Settings};
use statestored::{RunningServer, config::Config};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;

/// Values and versions by key.
type States = BTreeMap<Bytes, (Bytes, Hlc)>;

async fn connect(server: &RunningServer) -> Client {
    let settings: Settings = server.url().parse().unwrap();
    Client::connect(settings).await.unwrap()
}

async fn stored(client: &Client, pattern: &str) -> States {
    let mut states = States::new();
    let mut scan = client.scan_entries(pattern);
    while let Some((key, entry)) = scan.next().await.unwrap() {
        states.insert(key, (entry.value, entry.version));
    }
    states
}

fn mirrored(mirror: &Mirror) -> States {
    let snapshot = mirror.snapshot();
    let states = snapshot.iter().map(|(key, entry)| {
        let state = (entry.value.clone(), entry.version.clone());
        (key.clone(), state)
    });
    states.collect()
}

async fn next(observer: &mut MatchObserver) -> MatchObservation {
    let next = poll_fn(|context| Pin::new(&mut *observer).poll_next(context));
    within(next).await.unwrap()
}

#[tokio::test]
async fn an_observer_of_a_pattern_is_a_stream() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let client = connect(&server).await;
    client.set("line1/speed", "40").await.unwrap();
    let mut observer = client.observe_matching("line1/*").await.unwrap();
    let MatchObservation::Set { key, value, .. } = next(&mut observer).await else {
        panic!("the present state is first");
    };
    assert_eq!((&key[..], &value[..]), (&b"line1/speed"[..], &b"40"[..]));
    assert_eq!(next(&mut observer).await, MatchObservation::Complete);
    client.set("line2/speed", "50").await.unwrap();
    client.del("line1/speed").await.unwrap();
    let MatchObservation::Deleted { key, version } = next(&mut observer).await else {
        panic!("the key was deleted");
    };
    assert_eq!(key, "line1/speed");
    assert!(version.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_mirror_equals_the_store_after_writes_during_its_scan() {
    const KEYS: usize = 3_000;
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let writer = connect(&server).await;
    for number in 0..KEYS {
        writer.set(format!("k/{number}"), "old").await.unwrap();
    }
    let client = connect(&server).await;
    let changes = tokio::spawn(async move {
        for number in 0..KEYS {
            let key = format!("k/{}", number * 7 % KEYS);
            match number % 3 {
                0 => {
                    writer.del(key).await.unwrap();
                }
                1 => {
                    writer.set(key, number.to_string()).await.unwrap();
                }
                _ => {
                    writer.set(format!("k/new/{number}"), "new").await.unwrap();
                }
            }
        }
    });
    let mirror = client.mirror("k/*").await.unwrap();
    within(mirror.synced()).await.unwrap();
    within(changes).await.unwrap();
    let mut changes = mirror.changes();
    let expected = stored(&client, "k/*").await;
    while mirrored(&mirror) != expected {
        within(changes.next()).await.unwrap();
    }
    assert_eq!(mirror.stale_since(), None);
}
