//! Servers over a real etcd: what one of them did, the others know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod attached;
mod away;
mod cluster;
mod replaced;
mod secure;

use cluster::{Cluster, Etcd, config};
use statestore::{
    Client, Condition, DelOptions, DelOutcome, ErrorKind, GetOptions, Observation, ObserveOptions,
    Observer, Outcome, Overflow, SetOptions, SetOutcome, Transaction, TransactionOutcome,
};
use statestored::RunningServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that has much to do.
const LONG: Duration = Duration::from_secs(30);

async fn value(client: &Client, key: &str) -> Option<String> {
    let entry = client.get(key).await.unwrap()?;
    Some(String::from_utf8(entry.value.to_vec()).unwrap())
}

async fn next(observer: &mut Observer) -> Observation {
    let next = tokio::time::timeout(LONG, observer.next());
    next.await.expect("in time").expect("it goes on")
}

#[test]
fn what_one_node_stores_the_others_have() {
    Cluster::start(2).run(async |cluster| {
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        let SetOutcome::Applied { version: first } = a.set("k", "1").await.unwrap() else {
            panic!("not applied");
        };
        let entry = b.get("k").await.unwrap().unwrap();
        assert_eq!((&entry.value[..], &entry.version), (&b"1"[..], &first));
        let absent = SetOptions::new().condition(Condition::IfAbsent);
        let refused = b.set_with("k", "2", &absent).await.unwrap();
        assert!(matches!(refused, SetOutcome::NotApplied { .. }));
        let unchanged = SetOptions::new().condition(Condition::IfVersion((&first).into()));
        let SetOutcome::Applied { version: second } =
            b.set_with("k", "2", &unchanged).await.unwrap()
        else {
            panic!("not applied");
        };
        assert!(second > first);
        let again = a.set_with("k", "3", &unchanged).await.unwrap();
        assert_eq!(
            again,
            SetOutcome::NotApplied {
                version: Some(second.clone())
            }
        );
        let DelOutcome::Deleted { version } = a.del("k").await.unwrap() else {
            panic!("not deleted");
        };
        let third = version.unwrap();
        assert!(third > second);
        assert_eq!(b.get("k").await.unwrap(), None);
        assert_eq!(b.del("k").await.unwrap(), DelOutcome::Absent);
        // Made anew it does not begin anew.
        let SetOutcome::Applied { version: fourth } = b.set("k", "4").await.unwrap() else {
            panic!("not applied");
        };
        assert!(fourth > third);
    });
}

#[test]
fn a_transaction_is_one_for_all_nodes() {
    Cluster::start(2).run(async |cluster| {
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        a.set("stock", "5").await.unwrap();
        let seen = b.get("stock").await.unwrap().unwrap();
        let unchanged = SetOptions::new().condition(Condition::IfVersion((&seen.version).into()));
        let order = Transaction::new()
            .set("stock", "4", &unchanged)
            .set("order", "bolt", &SetOptions::new())
            .del("wish", &DelOptions::new());
        let TransactionOutcome::Applied(versions) = b.transact(&order).await.unwrap() else {
            panic!("not applied");
        };
        assert!(versions[0].is_some() && versions[1].is_some() && versions[2].is_none());
        assert_eq!(value(&a, "order").await.as_deref(), Some("bolt"));
        let late = a.transact(&order).await.unwrap();
        let TransactionOutcome::NotApplied { operation, version } = late else {
            panic!("applied");
        };
        assert_eq!((operation, version), (0, versions[0].clone()));
        assert_eq!(value(&b, "stock").await.as_deref(), Some("4"));
    });
}

#[test]
fn observers_of_every_node_are_told_and_an_end_is_told_once() {
    Cluster::start(2).run(async |cluster| {
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        let all = ObserveOptions::new().overflow(Overflow::All(10));
        let mut told = [
            a.observe_with("machine", &all).await.unwrap(),
            b.observe_with("machine", &all).await.unwrap(),
        ];
        let brief = SetOptions::new().expires_in(Duration::from_millis(700));
        let begun = Instant::now();
        a.set_with("machine", "runs", &brief).await.unwrap();
        let left = GetOptions::new().remaining(true);
        let entry = b.get_with("machine", &left).await.unwrap().unwrap();
        assert!(entry.expires_in.unwrap() <= Duration::from_millis(700));
        for told in &mut told {
            let Observation::Set { value, version } = next(told).await else {
                panic!("not set");
            };
            assert_eq!(&value[..], b"runs");
            let Observation::Deleted { version: end } = next(told).await else {
                panic!("not deleted");
            };
            assert!(end.unwrap() > version);
        }
        assert!(begun.elapsed() >= Duration::from_millis(700));
        assert_eq!(b.get("machine").await.unwrap(), None);
        // Nothing more is told of the end before what comes next.
        b.set("machine", "runs again").await.unwrap();
        for told in &mut told {
            let next = next(told).await;
            assert!(matches!(&next, Observation::Set { value, .. } if &value[..] == b"runs again"));
        }
    });
}

#[test]
fn a_lock_has_one_holder_on_all_nodes() {
    Cluster::start(2).run(async |cluster| {
        let inside = Arc::new(AtomicUsize::new(0));
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let client = cluster.client(worker % 2).await;
            let inside = Arc::clone(&inside);
            workers.spawn_local(async move {
                for _ in 0..5 {
                    let guard = client.lock("press").await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    guard.release().await.unwrap();
                }
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
    });
}

#[test]
fn updates_through_all_nodes_lose_nothing() {
    Cluster::start(3).run(async |cluster| {
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..6 {
            let client = cluster.client(worker % 3).await;
            workers.spawn_local(async move {
                for _ in 0..10 {
                    let mut is_counted = false;
                    while !is_counted {
                        let entry = client.get("count").await.unwrap();
                        let count = entry.as_ref().map_or(0, |entry| {
                            String::from_utf8_lossy(&entry.value)
                                .parse::<u32>()
                                .unwrap()
                        });
                        let condition = entry.map_or(Condition::IfAbsent, |entry| {
                            Condition::IfVersion((&entry.version).into())
                        });
                        let options = SetOptions::new().condition(condition);
                        let next = (count + 1).to_string();
                        let outcome = client.set_with("count", next, &options).await.unwrap();
                        is_counted = matches!(outcome, SetOutcome::Applied { .. });
                    }
                }
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
        assert_eq!(
            value(&cluster.client(0).await, "count").await.as_deref(),
            Some("60")
        );
    });
}

#[test]
fn pages_have_all_keys_once_and_leave_out_what_was_deleted() {
    Cluster::start(2).run(async |cluster| {
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        let keys: Vec<_> = (0..2_500).map(|number| format!("p/{number:04}")).collect();
        for some in keys.chunks(250) {
            let sets: Vec<_> = some.iter().map(|key| (key, "v")).collect();
            for outcome in a.set_many(&sets).await {
                assert!(matches!(outcome.unwrap(), SetOutcome::Applied { .. }));
            }
        }
        a.del("p/0007").await.unwrap();
        let mut found = Vec::new();
        let mut scan = b.scan("p/*");
        while let Some(page) = scan.next_page().await.unwrap() {
            found.extend(
                page.iter()
                    .map(|key| String::from_utf8(key.to_vec()).unwrap()),
            );
        }
        found.sort();
        let expected = keys.iter().filter(|key| *key != "p/0007");
        assert!(found.iter().eq(expected), "{} keys", found.len());
    });
}

#[test]
fn while_the_engine_is_stopped_nothing_is_promised_and_then_all_goes_on() {
    Cluster::start(2).run(async |cluster| {
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        a.set("k", "before").await.unwrap();
        let mut told = b.observe("k").await.unwrap();
        cluster.etcd.pause();
        let soon = Duration::from_secs(1);
        let read = b.get_with("k", &GetOptions::new().timeout(soon)).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
        let options = SetOptions::new().timeout(soon);
        let written = a.set_with("k", "meanwhile", &options).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
        cluster.etcd.go_on();
        a.set("k", "after").await.unwrap();
        assert_eq!(value(&b, "k").await.as_deref(), Some("after"));
        loop {
            let change = next(&mut told).await;
            if matches!(&change, Observation::Set { value, .. } if &value[..] == b"after") {
                break;
            }
        }
    });
}

#[test]
fn nodes_and_the_engine_begin_anew_with_what_there_was() {
    let mut etcd = Etcd::start();
    for round in 0..3 {
        let cluster = Cluster::over(etcd, 1);
        cluster.block_on(async |cluster| {
            let client = cluster.client(0).await;
            let former = (round > 0).then(|| format!("{}", round - 1));
            assert_eq!(value(&client, "round").await, former);
            client.set("round", round.to_string()).await.unwrap();
        });
        etcd = cluster.into_etcd();
        etcd.kill_and_start();
    }
}

#[test]
fn what_the_engine_does_not_take_is_refused_by_name() {
    Cluster::start(1).run(async |cluster| {
        let client = cluster.client(0).await;
        let error = client.set("k", vec![b'v'; 1_500_000]).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotDone);
        assert!(
            error.to_string().contains("larger than the storage takes"),
            "{error}"
        );
        client.set("k", vec![b'v'; 1_000_000]).await.unwrap();
    });
}

#[test]
fn a_store_of_another_format_is_not_touched() {
    let etcd = Etcd::start();
    etcd.put("foreign/m", "something else");
    let error = RunningServer::start(config(&etcd, "foreign")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("holds something else below the prefix"),
        "{text}"
    );
    assert!(text.contains("something else"), "{text}");
}

#[test]
fn an_engine_that_does_not_answer_is_named() {
    let etcd = Etcd::start();
    let config = config(&etcd, "test");
    drop(etcd);
    let error = RunningServer::start(config).unwrap_err();
    assert!(
        error.to_string().starts_with("etcd at http://127.0.0.1:"),
        "{error}"
    );
}
