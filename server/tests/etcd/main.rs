//! Servers over a real etcd: what one of them did, the others know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod attached;
mod cluster;
mod compaction;
#[path = "../process/disk.rs"]
mod disk;
#[path = "../elsewhere/mod.rs"]
mod elsewhere;
mod group_commit;
mod leases;
mod replaced;
mod secure;
mod slow_member;
mod watch;

#[path = "../engine/conditions.rs"]
mod conditions;
#[path = "../engine/model.rs"]
mod model;
#[path = "../engine/rules.rs"]
mod rules;
#[path = "../engine/simulation.rs"]
#[allow(
    dead_code,
    reason = "the tests of the embedded keyspace use more of it"
)]
mod simulation;
#[path = "../engine/terms.rs"]
mod terms;
#[path = "../engine/vectors.rs"]
mod vectors;

use cluster::Etcd;
use elsewhere::store;
use elsewhere::{Cluster, Engine, block_on, connect_to, get, start, until};
use statestore::Outcome;
use statestored::RunningServer;
use statestored_shared::{Record, RecordContent, WriteId, bucket_of};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the storage in `tests/vectors/storages.json`.
const STORAGE: &str = "etcd";

/// The engine that the model runs with.
type TestEngine = Etcd;

elsewhere::suite::suite!(crate::cluster::Etcd);

#[test]
fn a_value_too_large_for_etcd_is_refused_with_the_limit() {
    Cluster::<Etcd>::start(1).run(async |cluster| {
        let client = cluster.client(0).await;
        let error = client.set("k", vec![b'v'; 1_500_000]).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotDone);
        assert!(
            error
                .to_string()
                .contains("larger than the 1400000 bytes that the storage accepts"),
            "{error}"
        );
        client.set("k", vec![b'v'; 1_000_000]).await.unwrap();
    });
}

#[test]
fn a_store_of_another_format_is_left_unchanged() {
    let etcd = Etcd::start();
    block_on(etcd.put("foreign/m", "something else"));
    let error = RunningServer::start(etcd.config("foreign")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("holds something else below the prefix"),
        "{text}"
    );
    assert!(text.contains("something else"), "{text}");
}

#[test]
fn an_unreachable_etcd_is_reported() {
    let etcd = Etcd::start();
    let config = etcd.config("test");
    drop(etcd);
    let error = RunningServer::start(config).unwrap_err();
    assert!(
        error.to_string().starts_with("etcd at http://127.0.0.1:"),
        "{error}"
    );
}

#[test]
fn a_version_far_ahead_is_detected() {
    const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
    let etcd = Etcd::start();
    let server = start(&etcd);
    let ahead = || {
        let metrics = get(&server, "/metrics");
        let name = "statestored_engine_versions_ahead_seconds ";
        let found = metrics.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap().parse::<u64>().unwrap()
    };
    block_on(async {
        let client = connect_to(&server).await;
        client.set("k", "1").await.unwrap();
        assert_eq!(ahead(), 0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let far_ms = u64::try_from(now.as_millis()).unwrap() + YEAR_MS;
        let record = Record {
            version: (far_ms, 0),
            write: WriteId {
                process: 1,
                number: 1,
            },
            content: RecordContent::Entry {
                value: "of somebody else".into(),
                token: None,
                expiry: None,
            },
        };
        let bucket = bucket_of(b"far");
        let name = format!("test/e/{bucket:04x}/far");
        etcd.put(&name, record.encode()).await;
        until("it is noticed", || ahead() > YEAR_MS / 1000 - 600).await;
    });
    server.stop().unwrap();
}

#[test]
fn foreign_keys_are_left_unchanged() {
    let etcd = Etcd::start();
    let refusal = |prefix: &str| {
        let error = RunningServer::start(etcd.config(prefix)).unwrap_err();
        error.to_string()
    };
    block_on(etcd.put("beside/other", "something else"));
    let text = refusal("beside");
    assert!(
        text.contains("\"beside/other\" is not this program's"),
        "{text}"
    );
    RunningServer::start(etcd.config("outer"))
        .unwrap()
        .stop()
        .unwrap();
    let text = refusal("outer/inner");
    assert!(
        text.contains("within that of the store of \"outer/m\""),
        "{text}"
    );
    block_on(etcd.put("outer/inner", "something else"));
    let text = refusal("outer");
    assert!(
        text.contains("\"outer/inner\" is not this program's"),
        "{text}"
    );
    block_on(etcd.put("left/e/0000/k", "something else"));
    let text = refusal("left");
    assert!(text.contains("but no \"left/m\""), "{text}");
    let nothing = block_on(async {
        let mut client = etcd.client().await;
        let found = client.get("left/m", None).await.unwrap();
        found.kvs().is_empty()
    });
    assert!(nothing, "a store was made all the same");
}
