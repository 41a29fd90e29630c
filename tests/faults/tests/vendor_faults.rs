//! The known faults of the vendor's clients, and for each the tests that we do not have it.
//!
//! | fault | file | test |
//! |---|---|---|
//! | a failed acquire leaves a renewal task that later takes the lease | `server/tests/locks/lease.rs` | `a_dropped_attempt_leaves_no_lease` |
//! | (the same) | `server/tests/locks/lease.rs` | `an_attempt_that_is_delivered_late_is_undone` |
//! | (the same) | `server/tests/locks/waiting.rs` | `the_wait_timeout_is_respected_and_leaves_nothing` |
//! | a renewal in flight at release takes the lease again | `server/tests/locks/release.rs` | `a_renewal_under_way_does_not_take_the_lease_again_after_its_release` |
//! | one odd notification topic kills all notifications | `tests/faults/tests/observations.rs` | `forged_and_malformed_notifications_through_mosquitto_are_ignored` |
//! | (the same) | `tests/client/tests/client/observe/mod.rs` | `invalid_notifications_are_counted_and_ignored` |
//! | observations die at a disconnect | `tests/faults/tests/observations.rs` | `every_observer_reaches_the_last_state_after_many_cuts` |
//! | changes during a disconnect are lost | `tests/faults/tests/observations.rs` | `changes_during_a_disconnect_arrive_as_the_last_state_after_a_resync` |
//! | one observation per key | `tests/faults/tests/observations.rs` | `observers_of_a_key_share_one_keynotify_and_its_renewal` |
//! | (the same) | `tests/client/tests/client/observe/mod.rs` | `observers_of_one_key_share_a_watch_and_the_last_one_ends_it` |
//! | time-outs rounded up to whole seconds | `tests/faults/tests/vendor_faults.rs` | `a_timeout_is_kept_to_the_millisecond` |
//! | entries of timed-out requests never removed | `tests/faults/tests/vendor_faults.rs` | `requests_that_timed_out_leave_nothing_behind` |
//! | session loss makes the client unusable | `tests/faults/tests/restart.rs` | `a_client_works_normally_after_a_server_restart` |
//! | (the same) | `tests/faults/tests/restart.rs` | `retryable_requests_are_sent_again_and_others_fail_as_unknown` |
//! | unbounded queues | `tests/client/tests/client/limits.rs` | `a_full_queue_rejects_requests` |
//! | (the same) | `tests/client/tests/client/limits.rs` | `buffered_bytes_are_limited_but_a_single_large_request_passes` |
//! | (the same) | `tests/faults/tests/observations.rs` | `a_slow_observer_is_bounded_and_notified_of_missed_changes` |
//! | (the same) | `core/protocol/tests/mqtt_session/live_connection.rs` | `pending_pubacks_are_bounded_if_the_broker_reads_nothing` |
//! | PUBACK failures ignored | `tests/client/tests/client/messages.rs` | `a_rejected_publish_ends_its_request` |
//! | (the same) | `tests/faults/tests/mosquitto.rs` | `a_request_without_a_store_fails_as_not_done` |
//! | parser panics on empty payloads and negative lengths | `tests/faults/tests/vendor_faults.rs` | `empty_payloads_and_negative_lengths_are_errors` |
//! | (the same) | `core/protocol/tests/protocol_properties.rs` | `decoding_arbitrary_bytes_does_not_panic` |
//! | OpenSSL needed even without TLS | `tests/faults/tests/vendor_faults.rs` | `no_crate_depends_on_openssl` |
//! | several tasks per request | `tests/faults/tests/vendor_faults.rs` | `requests_spawn_no_tasks` |
//! | several copies per request | `tests/faults/tests/copies.rs` | `a_value_is_copied_once_when_sent_and_never_when_received` |
#![allow(clippy::unwrap_used)]

use bytes::{Bytes, BytesMut};
use faults::{Direction, Proxy, store, until};
use statestore::platform::{Connecting, Duplex, Platform, System, Task};
use statestore::{Client, ErrorKind, GetOptions, Outcome, Settings};
use statestore_protocol::mqtt::{ConnAck, Limits, Packet, ReasonCode, SubAck, decode};
use statestore_protocol::{Command, Event, Notification, Reply, topic};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

/// A machine whose network leads to a broker that accepts the connection and then never sends anything.
#[derive(Debug)]
struct SilentNetwork;

impl Platform for SilentNetwork {
    fn wall_ms(&self) -> u64 {
        System.wall_ms()
    }
    fn random(&self) -> io::Result<u64> {
        System.random()
    }
    fn spawn(&self, task: Task) {
        System.spawn(task);
    }
    fn connect(&self) -> Option<Connecting> {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(accept_connection(far));
        Some(Box::pin(async { Ok(Box::new(near) as Box<dyn Duplex>) }))
    }
}

async fn accept_connection(mut stream: DuplexStream) {
    let mut input = BytesMut::new();
    while stream.read_buf(&mut input).await.unwrap_or(0) > 0 {
        let mut out = BytesMut::new();
        while let Some(packet) = decode(&mut input, Limits::MAX_PACKET_BYTES).unwrap() {
            match packet {
                Packet::Connect(_) => ConnAck::new(ReasonCode::SUCCESS)
                    .encode(u32::MAX, &mut out)
                    .unwrap(),
                Packet::Subscribe(subscribe) => SubAck {
                    packet_id: subscribe.packet_id,
                    reasons: vec![ReasonCode::GRANTED_QOS_1; subscribe.subscriptions.len()],
                    reason_string: None,
                }
                .encode(u32::MAX, &mut out)
                .unwrap(),
                _ => {}
            }
        }
        if stream.write_all(&out).await.is_err() {
            return;
        }
    }
}

async fn silent_client() -> Client {
    let settings = Settings::new("nowhere", 1).platform(SilentNetwork);
    Client::connect(settings).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_kept_to_the_millisecond() {
    let client = silent_client().await;
    for ms in [1, 2, 17, 250, 999, 1_001, 1_500] {
        let timeout = Duration::from_millis(ms);
        let options = GetOptions::new().timeout(timeout);
        let began = Instant::now();
        let error = client.get_with("k", &options).await.unwrap_err();
        let elapsed = began.elapsed();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::TimedOut, Outcome::Unknown)
        );
        assert!(
            timeout <= elapsed && elapsed <= timeout + Duration::from_millis(3),
            "{timeout:?} took {elapsed:?}"
        );
    }
}

#[tokio::test]
async fn requests_that_timed_out_leave_nothing_behind() {
    let (_server, address) = store();
    let proxy = Proxy::start(address).await;
    let client = Client::connect(proxy.settings()).await.unwrap();
    client.capabilities().await.unwrap();
    proxy.stall(Direction::ToClient);
    // Eventual reads are single GETs.
    let options = GetOptions::new()
        .eventual(true)
        .timeout(Duration::from_millis(20));
    let keys: Vec<_> = (0..200).map(|number| number.to_string()).collect();
    for _ in 0..5 {
        let error = client.get_many_with(&keys, &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    // Requests that the error cancelled end with their own deadline.
    until(|| client.counters().in_flight == 0).await;
    assert_eq!(client.counters().queued, 0);
    // Their responses arrive at last, match no request, and are not delivered to another one.
    proxy.resume(Direction::ToClient);
    until(|| client.counters().unmatched_responses == 1_000).await;
    assert_eq!(client.get("k").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn requests_spawn_no_tasks() {
    let client = silent_client().await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let values: Vec<_> = (0..200).map(|number| (number.to_string(), "v")).collect();
    let sets = client.set_many(&values);
    let watch = async {
        while client.counters().in_flight < 200 {
            tokio::task::yield_now().await;
        }
        tasks()
    };
    tokio::select! {
        _ = sets => panic!("nobody answers"),
        during = watch => assert_eq!(during, before),
    }
}

#[test]
fn empty_payloads_and_negative_lengths_are_errors() {
    for payload in [
        &b""[..],
        b"\r\n",
        b"$",
        b"$-2\r\n",
        b"$-9223372036854775808\r\n",
        b"$99999999999999999999\r\n",
        b"*-1\r\n",
        b"*1\r\n$-2\r\n",
        b"*2\r\n$6\r\nNOTIFY\r\n$-6\r\nDELETE\r\n",
        b":",
    ] {
        let bytes = Bytes::from_static(payload);
        assert!(Reply::decode(&bytes).is_err(), "{payload:?}");
        assert!(Command::decode(&bytes).is_err(), "{payload:?}");
        assert!(Event::decode(&bytes).is_err(), "{payload:?}");
        let topic = topic::notification("me", b"k");
        let notification = Notification::decode("me", &topic, Some("1:0:x"), &bytes);
        assert!(notification.is_err(), "{payload:?}");
    }
    // The answer to a transaction that deletes an absent key, and nothing else.
    let nil = Bytes::from_static(b"*1\r\n$-1\r\n");
    assert_eq!(Reply::decode(&nil), Ok(Reply::Transacted(vec![None])));
    assert!(Command::decode(&nil).is_err() && Event::decode(&nil).is_err());
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn no_crate_depends_on_openssl() {
    let locked = std::fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let packages: Vec<_> = locked
        .lines()
        .filter_map(|line| {
            line.strip_prefix("name = ")?
                .strip_prefix('"')?
                .strip_suffix('"')
        })
        .collect();
    assert!(packages.contains(&"statestore"));
    for package in ["openssl", "openssl-sys", "native-tls"] {
        assert!(!packages.contains(&package), "{package}");
    }
}

#[test]
fn the_tests_in_the_table_exist() {
    let mut rows = 0;
    for line in include_str!("vendor_faults.rs").lines() {
        let Some(row) = line.strip_prefix("//! |") else {
            continue;
        };
        let mut cells = row.split('`').skip(1).step_by(2);
        let (Some(file), Some(test)) = (cells.next(), cells.next()) else {
            continue;
        };
        let source = std::fs::read_to_string(repository().join(file)).unwrap();
        assert!(source.contains(&format!("fn {test}(")), "{file} {test}");
        rows += 1;
    }
    assert!(rows >= 14, "one at least for each fault");
}
