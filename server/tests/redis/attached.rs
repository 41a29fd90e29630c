//! Servers over one Redis, behind one broker, that share its requests.
use crate::elsewhere::{Engine, bridged, forgotten, guarded, keeping, refusals, shared, until};
use crate::server::Redis;
use std::time::Duration;

#[test]
fn a_request_delivered_to_several_servers_is_executed_once() {
    shared::a_request_delivered_to_several_servers_is_executed_once::<Redis>();
}

#[test]
fn a_key_watched_through_several_servers_is_notified_once() {
    let redis = Redis::start();
    keeping::a_key_watched_through_several_servers_is_notified_once(&format!(
        "redis://127.0.0.1:{}",
        redis.port
    ));
}

#[test]
fn watches_survive_the_group_leader() {
    let redis = Redis::start();
    keeping::watches_survive_the_group_leader(&format!("redis://127.0.0.1:{}", redis.port));
}

#[test]
fn watches_of_patterns_survive_the_group_leader() {
    let redis = Redis::start();
    keeping::watches_of_patterns_survive_the_group_leader(&format!(
        "redis://127.0.0.1:{}",
        redis.port
    ));
}

#[test]
fn the_watches_of_a_silent_client_end_at_all_servers() {
    let redis = Redis::start();
    let storage = format!("redis://127.0.0.1:{}", redis.port);
    keeping::the_watches_of_a_silent_client_end_at_all_servers(&storage);
}

#[test]
fn a_response_is_repeated_until_it_expires_in_redis() {
    let redis = Redis::with_clock();
    let kept = async || {
        let mut kept = Vec::new();
        for name in redis.run::<Vec<String>>("KEYS {test}:answer:*") {
            let left_ms: u64 = redis.run(&format!("PTTL {name}"));
            kept.push(Duration::from_millis(left_ms));
        }
        kept
    };
    let ends = async || {
        let thirteen_minutes = 13 * 60_000;
        redis.set_clock(thirteen_minutes);
        // Redis looks for expired keys several times a second.
        let is_forgotten = || redis.run::<Vec<String>>("KEYS {test}:answer:*").is_empty();
        until("it is forgotten", is_forgotten).await;
    };
    forgotten::a_response_is_repeated_until_its_retention_ends(&redis, kept, ends);
}

#[test]
fn a_request_that_others_may_execute_is_acknowledged_before_it_is_refused() {
    refusals::a_request_that_others_may_execute_is_acknowledged_before_it_is_refused::<Redis>();
}

#[test]
fn key_rules_apply_at_every_server() {
    let redis = Redis::start();
    guarded::key_rules_apply_at_every_server(&redis.url("guarded"));
}

#[test]
fn a_server_that_lacks_the_key_of_the_broker_warns() {
    let redis = Redis::start();
    guarded::a_server_that_lacks_the_key_of_the_broker_warns(&redis.url("guarded"));
}

#[test]
fn another_user_with_the_same_client_id_inherits_nothing() {
    let redis = Redis::start();
    let storage = redis.url("guarded");
    guarded::another_user_with_the_same_client_id_inherits_nothing(&storage);
}

#[test]
fn clients_at_two_bridged_brokers_share_a_store() {
    let redis = Redis::start();
    bridged::clients_at_two_bridged_brokers_share_a_store(&redis.url("bridged"));
}
