//! Servers over one Redis, behind one broker, that share its requests.
use crate::elsewhere::{Engine, bridged, forgotten, guarded, keeping, refusals, shared, until};
use crate::server::Redis;
use std::time::Duration;

#[test]
fn a_request_that_comes_to_several_servers_is_executed_once() {
    shared::a_request_that_comes_to_several_servers_is_executed_once::<Redis>();
}

#[test]
fn a_key_that_is_watched_through_several_servers_is_told_of_once() {
    let redis = Redis::start();
    keeping::a_key_that_is_watched_through_several_servers_is_told_of_once(&format!(
        "redis://127.0.0.1:{}",
        redis.port
    ));
}

#[test]
fn watches_outlive_the_server_that_keeps_them() {
    let redis = Redis::start();
    keeping::watches_outlive_the_server_that_keeps_them(&format!(
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
fn an_answer_is_given_again_until_redis_lets_it_expire() {
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
    forgotten::an_answer_is_given_again_until_its_time_is_over(&redis, kept, ends);
}

#[test]
fn what_others_may_execute_is_not_refused_before_it_is_acknowledged() {
    refusals::what_others_may_execute_is_not_refused_before_it_is_acknowledged::<Redis>();
}

#[test]
fn rules_about_keys_hold_whichever_server_is_asked() {
    let redis = Redis::start();
    guarded::rules_about_keys_hold_whichever_server_is_asked(&redis.url("guarded"));
}

#[test]
fn whoever_takes_the_name_of_a_client_gets_nothing_of_what_its_user_had() {
    let redis = Redis::start();
    let storage = redis.url("guarded");
    guarded::whoever_takes_the_name_of_a_client_gets_nothing_of_what_its_user_had(&storage);
}

#[test]
fn clients_at_two_bridged_brokers_share_a_store() {
    let redis = Redis::start();
    bridged::clients_at_two_bridged_brokers_share_a_store(&redis.url("bridged"));
}
