//! Values that take longer on their way than a silence may last.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use faults::{Direction, Proxy, reconnecting, store};
use statestore::{Client, Settings};
use statestored::RunningServer;
use std::time::{Duration, Instant};

/// 1 Mbit/s.
const RATE: u32 = 125_000;

/// A client whose connection passes this many bytes a second.
async fn slow() -> (RunningServer, Proxy, Settings) {
    let (server, address) = store();
    let proxy = Proxy::start(address).await;
    proxy.set_rate(RATE);
    let settings = proxy.settings();
    (server, proxy, settings)
}

/// Sets and gets a value over a slow link.
async fn sets_and_gets(client: &Client, bytes: usize) {
    let value = Bytes::from(vec![7; bytes]);
    let began = Instant::now();
    client.set("large", &value).await.unwrap();
    assert_eq!(client.get("large").await.unwrap().unwrap().value, value);
    let both_ways = Duration::from_secs(2 * bytes as u64) / RATE;
    assert!(began.elapsed() >= both_ways / 2, "the link is not slow");
    let counters = client.counters();
    assert_eq!(
        (counters.reconnects, counters.resent),
        (0, 0),
        "{counters:?}"
    );
}

#[tokio::test]
async fn a_value_may_take_longer_than_the_keep_alive() {
    let (_server, _proxy, settings) = slow().await;
    let settings = settings
        .keep_alive(Duration::from_secs(1))
        .ping_timeout(Duration::from_secs(2));
    let client = Client::connect(settings).await.unwrap();
    sets_and_gets(&client, 800_000).await;
}

/// As long as it takes in life: `cargo test -p faults --test slow_link -- --ignored`, more than three minutes.
#[tokio::test]
#[ignore = "it takes minutes"]
async fn twelve_megabytes_pass_a_link_of_one_megabit_per_second() {
    let (_server, _proxy, settings) = slow().await;
    let settings = settings
        .keep_alive(Duration::from_secs(5))
        .request_timeout(Duration::from_secs(600));
    let client = Client::connect(settings).await.unwrap();
    sets_and_gets(&client, 12_000_000).await;
}

#[tokio::test]
async fn a_silent_network_is_noticed_within_five_seconds_while_requests_wait() {
    let (server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    client.set("k", "v").await.unwrap();
    proxy.stall(Direction::ToServer);
    proxy.stall(Direction::ToClient);
    let began = Instant::now();
    let get = client.get("k");
    let (entry, noticed) = tokio::join!(get, async {
        reconnecting(&client).await;
        began.elapsed()
    });
    assert!(noticed < Duration::from_secs(5), "{noticed:?}");
    // The request was answered on the next connection.
    assert_eq!(entry.unwrap().unwrap().value, "v");
    server.stop().unwrap();
}
