//! Behaviour of every engine, observed through servers that share it.
use super::{Cluster, Engine, LONG, block_on, connect_to, get, next, start, until, value};
use statestore::{
    Condition, DelOptions, DelOutcome, Error, ErrorKind, Expiry, GetOptions, Observation,
    ObserveOptions, Outcome, Overflow, SetOptions, SetOutcome, Transaction, TransactionOutcome,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn a_write_at_one_node_is_visible_at_all_nodes<E: Engine>() {
    Cluster::<E>::start(2).run(async |cluster| {
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

pub(crate) fn a_transaction_is_atomic_at_all_nodes<E: Engine>() {
    Cluster::<E>::start(2).run(async |cluster| {
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

pub(crate) fn observers_at_every_node_are_notified_and_expiry_only_once<E: Engine>() {
    Cluster::<E>::start(2).run(async |cluster| {
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
        assert!(
            matches!(entry.expires_in, Expiry::After(left) if left <= Duration::from_millis(700))
        );
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
        // No further notification of the expiry comes before the next event.
        b.set("machine", "runs again").await.unwrap();
        for told in &mut told {
            let next = next(told).await;
            assert!(matches!(&next, Observation::Set { value, .. } if &value[..] == b"runs again"));
        }
    });
}

pub(crate) fn a_lock_has_one_holder_on_all_nodes<E: Engine>() {
    Cluster::<E>::start(2).run(async |cluster| {
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

pub(crate) fn updates_through_all_nodes_lose_nothing<E: Engine>() {
    Cluster::<E>::start(3).run(async |cluster| {
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

pub(crate) fn scans_return_each_existing_key_once<E: Engine>() {
    Cluster::<E>::start(2).run(async |cluster| {
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

pub(crate) fn requests_fail_while_the_engine_is_paused_and_resume_afterwards<E: Engine>() {
    Cluster::<E>::start(2).run(async |cluster| {
        let (a, b) = (cluster.client(0).await, cluster.client(1).await);
        a.set("k", "before").await.unwrap();
        let mut told = b.observe("k").await.unwrap();
        cluster.engine.pause();
        let soon = Duration::from_secs(1);
        let read = b.get_with("k", &GetOptions::new().timeout(soon)).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
        let options = SetOptions::new().timeout(soon);
        let written = a.set_with("k", "meanwhile", &options).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
        cluster.engine.resume();
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

pub(crate) fn data_survives_restarts_of_nodes_and_engine<E: Engine>() {
    let mut engine = E::start();
    for round in 0..3 {
        let cluster = Cluster::with_engine(engine, 1);
        cluster.block_on(async |cluster| {
            let client = cluster.client(0).await;
            let former = (round > 0).then(|| format!("{}", round - 1));
            assert_eq!(value(&client, "round").await, former);
            client.set("round", round.to_string()).await.unwrap();
        });
        engine = cluster.into_engine();
        engine.kill();
        engine.restart();
    }
}

fn assert_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::NoStore, "{error}");
    assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    assert!(error.is_retryable(), "{error}");
    assert!(
        error.to_string().contains("the storage does not answer"),
        "{error}"
    );
}

/// Checks a change of a key that the server has cached. The cached record suffices for a commit, and a commit cannot be
/// recalled.
pub(crate) fn a_write_to_a_cached_key_is_refused_while_the_engine_is_unavailable<E: Engine>() {
    let mut engine = E::start();
    let server = start(&engine);
    block_on(async {
        let client = connect_to(&server).await;
        client.set("known", "1").await.unwrap();
        engine.kill();
        let says = |what: &str| !get(&server, "/readyz").contains(what);
        until("it is not ready", || says("200 OK")).await;
        let error = client.set("known", "2").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoStore, "{error}");
        assert_eq!(error.outcome(), Outcome::NotDone);
        engine.restart();
        until("it is ready", || !says("200 OK")).await;
        assert_eq!(value(&client, "known").await.as_deref(), Some("1"));
    });
    server.stop().unwrap();
}

pub(crate) fn requests_are_refused_before_their_deadline_and_readiness_reports_the_reason<
    E: Engine,
>() {
    let mut engine = E::start();
    let server = start(&engine);
    block_on(async {
        let is_ready = || get(&server, "/readyz").starts_with("HTTP/1.1 200");
        until("it is ready", is_ready).await;
        let client = connect_to(&server).await;
        client.set("k", "1").await.unwrap();
        engine.kill();

        let patient = GetOptions::new().timeout(2 * LONG);
        let begun = Instant::now();
        assert_refused(&client.get_with("k", &patient).await.unwrap_err());
        assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
        // The key is not cached, so it would have to be read before it is written.
        assert_refused(&client.set("other", "1").await.unwrap_err());
        until("it says why", || {
            get(&server, "/readyz").contains("storage_away")
        })
        .await;
        let metrics = get(&server, "/metrics");
        assert!(
            metrics.contains("\nstatestored_engine_away 1\n"),
            "{metrics}"
        );
        assert!(
            !metrics.contains("kind=\"read\",result=\"unanswered\"} 0"),
            "{metrics}"
        );

        engine.restart();
        until("it is ready again", is_ready).await;
        assert_eq!(client.get("other").await.unwrap(), None);
        client.set("k", "2").await.unwrap();
        let metrics = get(&server, "/metrics");
        assert!(
            metrics.contains("\nstatestored_engine_away 0\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains("\nstatestored_engine_watched 1\n"),
            "{metrics}"
        );
    });
    server.stop().unwrap();
}

pub(crate) use super::clocks::{
    a_server_with_a_fast_clock_assigns_no_versions_and_expires_nothing_early,
    a_single_server_detects_a_clock_step,
};

pub(crate) use super::backups::{
    a_backup_aborted_by_the_engine_is_an_error_without_a_file,
    a_backup_is_a_consistent_snapshot_with_versions_fences_and_expiries,
};
pub(crate) use super::operators::operators_list_and_delete_entries;
pub(crate) use super::order::{
    notifications_of_a_transaction_follow_its_operation_order,
    watches_of_patterns_see_the_changes_of_every_server_once,
};
pub(crate) use super::remaining::the_remaining_time_is_never_missing_or_zero;
pub(crate) use super::restores::{
    a_backup_is_served_from_an_engine_as_from_a_data_folder,
    a_restore_that_is_refused_or_fails_changes_nothing,
    a_server_rejects_a_store_that_a_restore_did_not_finish,
};
pub(crate) use super::snapshots::reads_of_several_keys_see_whole_transactions;

pub(crate) use super::ends::an_expiry_is_notified_once_although_its_server_was_killed;
pub(crate) use super::unconfirmed::{
    a_watch_that_ends_before_it_is_established_is_answered,
    responses_match_their_requests_when_replies_are_torn_or_late,
    unconfirmed_commits_are_not_answered,
};

/// A test of each, over this engine.
macro_rules! suite {
    ($engine:ty: $($test:ident)*) => {
        mod every_engine {
            $(
                #[test]
                fn $test() {
                    $crate::elsewhere::suite::$test::<$engine>();
                }
            )*
        }
    };
    ($engine:ty) => {
        $crate::elsewhere::suite::suite! { $engine:
            a_write_at_one_node_is_visible_at_all_nodes
            a_transaction_is_atomic_at_all_nodes
            reads_of_several_keys_see_whole_transactions
            notifications_of_a_transaction_follow_its_operation_order
            watches_of_patterns_see_the_changes_of_every_server_once
            observers_at_every_node_are_notified_and_expiry_only_once
            an_expiry_is_notified_once_although_its_server_was_killed
            a_lock_has_one_holder_on_all_nodes
            updates_through_all_nodes_lose_nothing
            scans_return_each_existing_key_once
            requests_fail_while_the_engine_is_paused_and_resume_afterwards
            data_survives_restarts_of_nodes_and_engine
            requests_are_refused_before_their_deadline_and_readiness_reports_the_reason
            a_write_to_a_cached_key_is_refused_while_the_engine_is_unavailable
            the_remaining_time_is_never_missing_or_zero
            a_server_with_a_fast_clock_assigns_no_versions_and_expires_nothing_early
            a_single_server_detects_a_clock_step
            unconfirmed_commits_are_not_answered
            responses_match_their_requests_when_replies_are_torn_or_late
            a_watch_that_ends_before_it_is_established_is_answered
            operators_list_and_delete_entries
            a_backup_is_a_consistent_snapshot_with_versions_fences_and_expiries
            a_backup_aborted_by_the_engine_is_an_error_without_a_file
            a_backup_is_served_from_an_engine_as_from_a_data_folder
            a_restore_that_is_refused_or_fails_changes_nothing
            a_server_rejects_a_store_that_a_restore_did_not_finish
        }
    };
}
pub(crate) use suite;
