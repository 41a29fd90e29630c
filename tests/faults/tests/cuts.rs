//! 20,000 SETs while the connection is cut 40 times, in six ways.
#![allow(clippy::unwrap_used)]

use faults::set_load::{check, keys};
use faults::{
    AttachedStore, ChangeRecorder, CutKind, Direction, Mosquitto, Proxy, SetAttempt, SetLoad,
    direct, store, within,
};
use statestore::{Client, ConnectionState};

const SETS: usize = 20_000;
const CUTS: usize = 40;
const KEYS: usize = 200;
/// SETs under way at a time; many more than Mosquitto's Receive Maximum of 20.
const WORKERS: usize = 64;

/// Cuts the connection; the number selects how, and some cuts are in the middle of packets.
fn cut(proxy: &Proxy, number: usize) {
    match number % 6 {
        0 => proxy.cut(CutKind::Reset),
        1 => proxy.cut(CutKind::Finish),
        2 => proxy.cut_after(Direction::ToServer, 1_000 + 37 * number, CutKind::Reset),
        3 => proxy.cut_after(Direction::ToClient, 1_000 + 37 * number, CutKind::Finish),
        4 => proxy.close_half(Direction::ToServer),
        _ => proxy.close_half(Direction::ToClient),
    }
}

/// The SETs through the proxy, with the cuts spread over them.
async fn load_with_cuts(proxy: &Proxy) -> Vec<SetAttempt> {
    let client = Client::connect(proxy.settings().client_id("loaded"))
        .await
        .unwrap();
    let mut load = SetLoad::start(&client, SETS, WORKERS, KEYS);
    for number in 0..CUTS {
        // More SETs lie between two cuts than are under way: the connection was made again in between.
        load.wait_for_ended((2 * number + 1) * SETS / (2 * CUTS))
            .await;
        cut(proxy, number);
    }
    let attempts = load.finish().await;
    within(client.state().wait_for(ConnectionState::is_connected))
        .await
        .unwrap();
    let counters = client.counters();
    assert_eq!(counters.reconnects, CUTS as u64, "{counters:?}");
    assert_eq!(proxy.connections(), CUTS + 1);
    assert_eq!(
        (counters.in_flight, counters.queued, counters.timed_out),
        (0, 0, 0)
    );
    assert_eq!((counters.sessions_lost, counters.protocol_errors), (0, 0));
    assert!(counters.resent > 0, "nothing was under way at any cut");
    client.close().await;
    attempts
}

/// The broker kept the session, so nothing may fail.
fn check_all_succeeded(attempts: &[SetAttempt]) {
    for attempt in attempts {
        assert!(attempt.result.is_ok(), "{attempt:?}");
    }
}

#[tokio::test]
async fn none_of_20_000_sets_is_lost_over_40_cuts() {
    let (_server, address) = store();
    let witness =
        ChangeRecorder::start(Client::connect(direct(address)).await.unwrap(), keys(KEYS)).await;
    let proxy = Proxy::start(address).await;
    let attempts = load_with_cuts(&proxy).await;
    check_all_succeeded(&attempts);
    check(&attempts, &witness.histories().await);
}

#[tokio::test]
async fn none_of_20_000_sets_is_lost_over_40_cuts_between_client_and_mosquitto() {
    let broker = Mosquitto::start();
    let store = AttachedStore::start(broker.address()).await;
    let proxy = Proxy::start(broker.address()).await;
    let attempts = load_with_cuts(&proxy).await;
    check_all_succeeded(&attempts);
    check(&attempts, &store.histories());
}
