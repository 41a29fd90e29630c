//! Servers over one etcd, behind one broker, that share its requests.
use crate::cluster::Etcd;
use crate::elsewhere::shared::{self, node};
use crate::elsewhere::{Engine, bridged, forgotten, guarded, keeping, refusals};
use etcd_client::{GetOptions, KeyValue};
use harness::{Mosquitto, direct, within};
use statestore::{Client, Observation, SetOutcome};
use statestored::RunningServer;
use std::time::Duration;

const KEYS: usize = 40;

/// Waits until a node gets requests.
async fn wait_until_attached(client: &Client, node: &RunningServer) {
    let asked = async {
        while node.handle().metrics().await.unwrap().requests == 0 {
            // Without any node there is an error.
            let _ = client.get("k").await;
        }
    };
    within(asked).await;
}

#[tokio::test]
async fn servers_share_the_requests_of_a_broker_and_one_may_leave() {
    let etcd = Etcd::start();
    let broker = Mosquitto::start();
    let nodes = ["a", "b"].map(|name| node(&etcd, &broker, name));
    let client = Client::connect(direct(broker.address())).await.unwrap();
    for node in &nodes {
        wait_until_attached(&client, node).await;
    }
    let executed = async || {
        let mut all = [0; 2];
        for (node, count) in nodes.iter().zip(&mut all) {
            *count = node.handle().metrics().await.unwrap().requests;
        }
        all
    };
    let sum = |counts: [u64; 2]| counts.iter().sum::<u64>();
    let before = executed().await;
    let mut observer = client.observe("last").await.unwrap();
    let mut watched = executed().await;
    // Each of them has the watch, and one was asked what the key holds.
    while sum(watched) < sum(before) + 3 {
        watched = executed().await;
    }
    for key in 0..KEYS {
        let set = within(client.set(key.to_string(), "v")).await.unwrap();
        assert!(matches!(set, SetOutcome::Applied { .. }));
        let entry = within(client.get(key.to_string())).await.unwrap().unwrap();
        assert_eq!(&entry.value[..], b"v");
    }
    let after = executed().await;
    assert!(
        after
            .iter()
            .zip(&watched)
            .all(|(after, watched)| after > watched),
        "{after:?}"
    );
    assert_eq!(
        sum(after) - sum(watched),
        2 * KEYS as u64,
        "each by one of them"
    );
    client.set("last", "1").await.unwrap();
    let told = within(observer.next()).await;
    assert!(matches!(told, Some(Observation::Set { .. })), "{told:?}");
    let [one, other] = nodes;
    let stopping = tokio::task::spawn_blocking(move || one.stop().unwrap());
    for key in 0..KEYS {
        let entry = within(client.get(key.to_string())).await.unwrap().unwrap();
        assert_eq!(&entry.value[..], b"v");
    }
    stopping.await.unwrap();
    assert!(within(client.get("0")).await.unwrap().is_some());
    drop(other);
}

#[test]
fn a_request_delivered_to_several_servers_is_executed_once() {
    shared::a_request_delivered_to_several_servers_is_executed_once::<Etcd>();
}

#[test]
fn a_key_watched_through_several_servers_is_notified_once() {
    let etcd = Etcd::start();
    let storage = format!("etcd://127.0.0.1:{}/watched", etcd.port);
    keeping::a_key_watched_through_several_servers_is_notified_once(&storage);
}

#[test]
fn watches_survive_the_group_leader() {
    let etcd = Etcd::start();
    let storage = format!("etcd://127.0.0.1:{}/watched", etcd.port);
    keeping::watches_survive_the_group_leader(&storage);
}

#[test]
fn watches_of_patterns_survive_the_group_leader() {
    let etcd = Etcd::start();
    let storage = format!("etcd://127.0.0.1:{}/watched", etcd.port);
    keeping::watches_of_patterns_survive_the_group_leader(&storage);
}

#[test]
fn the_watches_of_a_silent_client_end_at_all_servers() {
    let etcd = Etcd::start();
    let storage = format!("etcd://127.0.0.1:{}/watched", etcd.port);
    keeping::the_watches_of_a_silent_client_end_at_all_servers(&storage);
}

#[test]
fn a_response_is_repeated_until_its_lease_ends() {
    let etcd = Etcd::start();
    // The leases of the answers; the clocks of servers have others.
    let leases = async || {
        let all = GetOptions::new().with_prefix();
        let found = etcd.client().await.get("test/r/", Some(all)).await.unwrap();
        let leases = found.kvs().iter().map(KeyValue::lease);
        leases.collect::<Vec<_>>()
    };
    let kept = async || {
        let mut kept = Vec::new();
        for lease in leases().await {
            let mut client = etcd.client().await;
            let left = client.lease_time_to_live(lease, None).await.unwrap();
            kept.push(Duration::from_secs(u64::try_from(left.ttl()).unwrap()));
        }
        kept
    };
    // As etcd does when the time of a lease is over.
    let ends = async || {
        for lease in leases().await {
            etcd.client().await.lease_revoke(lease).await.unwrap();
        }
    };
    forgotten::a_response_is_repeated_until_its_retention_ends(&etcd, kept, ends);
}

#[test]
fn a_request_that_others_may_execute_is_acknowledged_before_it_is_refused() {
    refusals::a_request_that_others_may_execute_is_acknowledged_before_it_is_refused::<Etcd>();
}

#[test]
fn key_rules_apply_at_every_server() {
    let etcd = Etcd::start();
    guarded::key_rules_apply_at_every_server(&etcd.url("guarded"));
}

#[test]
fn a_server_that_lacks_the_key_of_the_broker_warns() {
    let etcd = Etcd::start();
    guarded::a_server_that_lacks_the_key_of_the_broker_warns(&etcd.url("guarded"));
}

#[test]
fn another_user_with_the_same_client_id_inherits_nothing() {
    let etcd = Etcd::start();
    let storage = etcd.url("guarded");
    guarded::another_user_with_the_same_client_id_inherits_nothing(&storage);
}

#[test]
fn clients_at_two_bridged_brokers_share_a_store() {
    let etcd = Etcd::start();
    bridged::clients_at_two_bridged_brokers_share_a_store(&etcd.url("bridged"));
}
