//! Connections that are dead and do not say so, and networks that do not answer.
#![allow(clippy::unwrap_used)]

use faults::{AcceptMode, CutKind, Direction, Proxy, direct, reconnecting, store, within};
use statestore::{Client, ConnectionState, ErrorKind, GetOptions, Outcome, SetOptions};
use std::time::{Duration, Instant};

fn stall(proxy: &Proxy) {
    proxy.stall(Direction::ToServer);
    proxy.stall(Direction::ToClient);
}

/// Fails if it took longer than anything that a busy machine explains.
fn check_duration(began: Instant, at_least: Duration) {
    let elapsed = began.elapsed();
    assert!(elapsed >= at_least, "{elapsed:?}");
    assert!(elapsed < at_least + Duration::from_secs(30), "{elapsed:?}");
}

#[tokio::test]
async fn an_unanswered_pingreq_reveals_a_dead_connection_and_requests_in_flight_survive() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let settings = proxy
        .settings()
        .keep_alive(Duration::from_secs(1))
        .ping_timeout(Duration::from_millis(200));
    // The silence begins after the last packet of this.
    let began = Instant::now();
    let client = Client::connect(settings).await.unwrap();
    let direct = Client::connect(direct(address)).await.unwrap();
    stall(&proxy);
    let (set, state) =
        within(async { tokio::join!(client.set("k", "v"), reconnecting(&client)) }).await;
    check_duration(began, Duration::from_millis(1_200));
    assert!(
        matches!(&state, ConnectionState::Reconnecting(error) if error.kind() == ErrorKind::Unreachable),
        "{state:?}"
    );
    // The old connection never brought it to the server; the new one did.
    let stored = direct.get("k").await.unwrap().unwrap();
    assert_eq!(Some(&stored.version), set.unwrap().version());
    assert_eq!(client.counters().reconnects, 1);
    assert_eq!(client.counters().sessions_lost, 0);
    assert_eq!(client.counters().resent, 1);
}

#[tokio::test]
async fn a_connection_with_one_dead_direction_is_replaced() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let settings = proxy
        .settings()
        .keep_alive(Duration::from_secs(1))
        .ping_timeout(Duration::from_millis(200));
    let client = Client::connect(settings).await.unwrap();
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.stall(direction);
        within(client.set("k", "v")).await.unwrap();
        assert_eq!(
            client.counters().reconnects,
            1 + direction as u64,
            "it passed on a new connection"
        );
    }
}

#[tokio::test]
async fn deadlines_are_kept_while_the_connection_is_stalled() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    stall(&proxy);
    for ms in [1, 30, 150] {
        let timeout = Duration::from_millis(ms);
        let options = GetOptions::new().timeout(timeout);
        let began = Instant::now();
        let error = client.get_with("k", &options).await.unwrap_err();
        check_duration(began, timeout);
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::TimedOut, Outcome::Unknown)
        );
    }
    // Many with different deadlines end in the order of these.
    let sets = (1..=50_u64).rev().map(|number| {
        let client = client.clone();
        async move {
            let options = SetOptions::new().timeout(Duration::from_millis(4 * number));
            let began = Instant::now();
            let error = client.set_with("k", "v", &options).await.unwrap_err();
            check_duration(began, Duration::from_millis(4 * number));
            error.kind()
        }
    });
    let mut running: tokio::task::JoinSet<_> = sets.collect();
    while let Some(kind) = running.join_next().await {
        assert_eq!(kind.unwrap(), ErrorKind::TimedOut);
    }
    assert_eq!(client.counters().timed_out, 53);
    assert_eq!(client.counters().in_flight, 0);
}

#[tokio::test]
async fn a_request_not_sent_in_time_fails_as_not_done() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    for admission in [AcceptMode::Reset, AcceptMode::Silence] {
        proxy.set_accept_mode(admission);
        proxy.cut(CutKind::Finish);
        reconnecting(&client).await;
        let options = SetOptions::new().timeout(Duration::from_millis(50));
        let began = Instant::now();
        let error = client.set_with("k", "never", &options).await.unwrap_err();
        check_duration(began, Duration::from_millis(50));
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::TimedOut, Outcome::NotDone)
        );
        proxy.set_accept_mode(AcceptMode::Forward);
        // The attempts that fell silent.
        proxy.cut(CutKind::Reset);
        assert_eq!(within(client.get("k")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn an_unanswered_connection_attempt_is_abandoned_and_retried() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let settings = proxy.settings().connect_timeout(Duration::from_millis(100));
    let client = Client::connect(settings.clone()).await.unwrap();
    proxy.set_accept_mode(AcceptMode::Silence);
    let began = Instant::now();
    let error = within(Client::connect(settings)).await.unwrap_err();
    check_duration(began, Duration::from_millis(100));
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    proxy.cut(CutKind::Reset);
    let before = proxy.connections();
    let get = {
        let client = client.clone();
        tokio::spawn(async move { client.get("k").await })
    };
    faults::until(|| proxy.connections() >= before + 3).await;
    proxy.set_accept_mode(AcceptMode::Forward);
    assert_eq!(within(get).await.unwrap().unwrap(), None);
}

#[tokio::test]
async fn a_slow_network_causes_no_disconnect() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    proxy.set_delay(Duration::from_millis(5));
    let began = Instant::now();
    within(client.set("k", "v")).await.unwrap();
    check_duration(began, Duration::from_millis(10));
    let keys: Vec<_> = (0..300).map(|number| number.to_string()).collect();
    assert_eq!(
        within(client.get_many(&keys)).await.unwrap(),
        vec![None; 300]
    );
    assert_eq!(client.counters().reconnects, 0);
}
