//! A Redis that must not be used for the entries, or that has lost them.
use crate::elsewhere::{Engine, LONG, block_on, connect_to, get, refuses_all, start, until, value};
use crate::server::Redis;
use statestore::{Outcome, SetOptions, Transaction};
use statestored::RunningServer;
use std::time::Instant;

fn refusal(redis: &Redis, prefix: &str) -> String {
    let error = RunningServer::start(redis.config(prefix)).unwrap_err();
    error.to_string()
}

#[test]
fn foreign_keys_are_left_unchanged() {
    let redis = Redis::start();
    let () = redis.run("SET {foreign}:manifest x");
    let text = refusal(&redis, "foreign");
    assert!(text.contains("holds something else"), "{text}");
    let () = redis.run("SET {half}:revision 7");
    let text = refusal(&redis, "half");
    assert!(text.contains("holds something else"), "{text}");
    let () = redis.run("HSET {left}:entries:7 k v");
    let text = refusal(&redis, "left");
    assert!(text.contains("but no \"{left}:manifest\""), "{text}");
    let () = redis.run("HSET {newer}:manifest format x");
    let mut newer = redis::cmd("HSET");
    newer
        .arg("{newer}:manifest")
        .arg("format")
        .arg("libstatestore 3");
    let _: i64 = newer.query(&mut redis.connection()).unwrap();
    let text = refusal(&redis, "newer");
    assert!(
        text.contains("its format is 3, and this statestored supports 2"),
        "{text}"
    );
}

#[test]
fn a_redis_with_an_eviction_policy_is_refused() {
    let redis = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let text = refusal(&redis, "test");
    assert!(
        text.contains("allkeys-lru, which removes entries by itself: set it to noeviction"),
        "{text}"
    );
}

#[test]
fn an_unreachable_redis_is_reported() {
    let redis = Redis::start();
    let config = redis.config("test");
    let place = format!("redis at 127.0.0.1:{}", redis.port);
    drop(redis);
    let error = RunningServer::start(config).unwrap_err().to_string();
    assert!(error.starts_with(&place), "{error}");
}

#[test]
fn a_removed_store_is_not_treated_as_empty() {
    let redis = Redis::start();
    let server = start(&redis);
    block_on(async {
        let client = connect_to(&server).await;
        client.set("k", "1").await.unwrap();
        let () = redis.run("FLUSHALL");
        refuses_all(&server, &client, "its manifest was removed").await;
    });
    server.stop().unwrap();
    let anew = start(&redis);
    block_on(async {
        let client = connect_to(&anew).await;
        assert_eq!(value(&client, "k").await, None);
    });
    anew.stop().unwrap();
}

#[test]
fn a_full_redis_is_readable_and_recovers() {
    let redis = Redis::start();
    let server = start(&redis);
    block_on(async {
        let client = connect_to(&server).await;
        client.set("k", "kept").await.unwrap();
        let () = redis.run("CONFIG SET maxmemory 1");
        let refused = client.set("k", "more").await.unwrap_err();
        assert_eq!(refused.outcome(), Outcome::NotDone, "{refused}");
        assert!(refused.to_string().contains("quota"), "{refused}");
        let is_full = || get(&server, "/readyz").contains("storage_full");
        until("it says so", is_full).await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("kept"));
        let () = redis.run("CONFIG SET maxmemory 0");
        client.set("k", "written").await.unwrap();
        let is_ready = || get(&server, "/readyz").starts_with("HTTP/1.1 200");
        until("it is ready again", is_ready).await;
        // No client writes: the server notices by itself.
        let () = redis.run("CONFIG SET maxmemory 1");
        until("it notices", is_full).await;
        let () = redis.run("CONFIG SET maxmemory 0");
        until("it notices the room", is_ready).await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("written"));
    });
    server.stop().unwrap();
}

#[test]
fn a_redis_without_its_replicas_executes_no_writes() {
    let redis = Redis::start();
    let server = start(&redis);
    block_on(async {
        let client = connect_to(&server).await;
        client.set("k", "kept").await.unwrap();
        let () = redis.run("CONFIG SET min-replicas-to-write 1");
        let refused = client.set("k", "more").await.unwrap_err();
        assert_eq!(refused.outcome(), Outcome::NotDone, "{refused}");
        assert!(
            refused.to_string().contains("too few replicas"),
            "{refused}"
        );
        let says_so = || get(&server, "/readyz").contains("storage_unreplicated");
        until("it says so", says_so).await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("kept"));
        let () = redis.run("CONFIG SET min-replicas-to-write 0");
        let is_ready = || get(&server, "/readyz").starts_with("HTTP/1.1 200");
        until("it notices by itself that they are there", is_ready).await;
        client.set("k", "written").await.unwrap();
    });
    server.stop().unwrap();
}

#[test]
fn a_restart_of_redis_is_survived_and_reported() {
    let mut redis = Redis::start();
    let server = start(&redis);
    block_on(async {
        let client = connect_to(&server).await;
        let mut told = client.observe("k").await.unwrap();
        client.set("k", "1").await.unwrap();
        let first = client.get("k").await.unwrap().unwrap().version;
        for round in 2..5 {
            redis.kill();
            redis.restart();
            let end = Instant::now() + LONG;
            while let Err(error) = client.set("k", round.to_string()).await {
                assert!(error.is_retryable() && Instant::now() < end, "{error}");
            }
        }
        let entry = client.get("k").await.unwrap().unwrap();
        assert_eq!(&entry.value[..], b"4");
        assert!(entry.version > first);
        loop {
            let change = crate::elsewhere::next(&mut told).await;
            if matches!(&change, statestore::Observation::Set { value, .. } if &value[..] == b"4") {
                break;
            }
        }
        let metrics = get(&server, "/metrics");
        assert!(
            metrics.contains("\nstatestored_engine_reversions_total 3\n"),
            "{metrics}"
        );
    });
    server.stop().unwrap();
}

#[test]
fn reads_of_several_keys_keep_the_connection() {
    let redis = Redis::start();
    let server = start(&redis);
    let connections = || {
        let told: String = redis.run("INFO stats");
        let told = told
            .lines()
            .find_map(|line| line.strip_prefix("total_connections_received:"));
        told.unwrap().parse::<u64>().unwrap()
    };
    block_on(async {
        let client = connect_to(&server).await;
        // The watch has its own connection by then.
        client.set("k", "1").await.unwrap();
        let before = connections();
        for round in 0..5 {
            let both = Transaction::new()
                .set(format!("a{round}"), "1", &SetOptions::new())
                .set(format!("b{round}"), "1", &SetOptions::new());
            client.transact(&both).await.unwrap();
        }
        // One of them asks this.
        assert_eq!(connections(), before + 1);
    });
    server.stop().unwrap();
}
