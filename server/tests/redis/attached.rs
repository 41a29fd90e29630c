//! Servers over one Redis, behind one broker, that share its requests.
use crate::elsewhere::{Engine, keeping, shared};
use crate::server::Redis;

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
