//! Commits that go to etcd together.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, block_on, connect_to, start};
use statestore::{Outcome, SetOutcome};
use statestored_link::ThreadLink;
use statestored_shared::{
    CommitOutcome, EngineCommit, EngineEvent, EngineKey, EngineRequest, EngineRequestId,
    EngineValue, Keys, Link, Record, RecordContent, Revision, WriteId,
};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

fn place(number: u64) -> EngineKey {
    EngineKey::Entry(key(number))
}

fn key(number: u64) -> bytes::Bytes {
    format!("key{number}").into()
}

fn record(wall_ms: u64) -> Record {
    Record {
        version: (wall_ms, 0),
        write: WriteId {
            process: 7,
            number: wall_ms,
        },
        content: RecordContent::Entry {
            value: wall_ms.to_string().into(),
            token: None,
            expiry: None,
        },
    }
}

fn unit(number: u64, expected: Revision, wall_ms: u64) -> EngineRequest {
    EngineRequest::Commit(Arc::new(EngineCommit {
        compares: vec![(place(number), expected)],
        puts: vec![(place(number), EngineValue::Record(record(wall_ms)))],
    }))
}

/// Sends these requests at once, so that those behind the first are grouped, and returns their verdicts.
async fn commit(
    link: &mut ThreadLink,
    first: u64,
    asked: Vec<EngineRequest>,
) -> Vec<CommitOutcome> {
    let count = asked.len();
    for (number, ask) in (first..).zip(asked) {
        link.request(EngineRequestId(number), ask);
    }
    link.flush();
    let mut verdicts = HashMap::new();
    while verdicts.len() < count {
        poll_fn(|context| link.poll_events(context)).await;
        while let Some(news) = link.next_event() {
            if let EngineEvent::Committed(EngineRequestId(number), verdict) = news {
                verdicts.insert(number, verdict);
            }
        }
    }
    let numbers = first..;
    numbers
        .map_while(|number| verdicts.remove(&number))
        .collect()
}

#[test]
fn a_refused_commit_does_not_fail_its_group() {
    const COUNT: u64 = 100;
    let etcd = Etcd::start();
    let mut link = etcd.link("test");
    block_on(async {
        let all = (0..COUNT).map(|number| unit(number, Revision(0), 1));
        let made = commit(&mut link, 0, all.collect()).await;
        let revisions: Vec<_> = made
            .iter()
            .map(|verdict| match verdict {
                CommitOutcome::Committed(at) => *at,
                other => panic!("{other:?}"),
            })
            .collect();
        // The commits were grouped: there are far fewer revisions than commits.
        let mut different = revisions.clone();
        different.dedup();
        assert!(different.len() <= 10, "{different:?}");
        for round in 1..=2 {
            // A comparison that no other commit can satisfy: that two of the keys have never been written.
            let stale = [COUNT - 1, COUNT - 30];
            let all = (0..COUNT).map(|number| {
                let expected = if stale.contains(&number) {
                    Revision(0)
                } else {
                    revisions[usize::try_from(number).unwrap()]
                };
                unit(number, expected, 1 + round)
            });
            let verdicts = commit(&mut link, COUNT * round, all.collect()).await;
            for (number, verdict) in (0..).zip(&verdicts) {
                let is_stale = stale.contains(&number) || round > 1;
                match verdict {
                    CommitOutcome::Committed(_) => assert!(!is_stale, "{round}, {number}"),
                    CommitOutcome::Conflict(seen) => {
                        assert!(is_stale, "{round}, {number}");
                        let (found, _) = seen[0].record.clone().unwrap();
                        let is_old = stale.contains(&number);
                        assert_eq!(
                            found,
                            record(if is_old { 1 } else { 2 }),
                            "{round}, {number}"
                        );
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let keys = Keys::from_iter([key(0)]);
        link.request(EngineRequestId(COUNT * 5), EngineRequest::Read(keys));
        link.flush();
        loop {
            poll_fn(|context| link.poll_events(context)).await;
            if let Some(EngineEvent::Read(_, Ok(seen))) = link.next_event() {
                assert_eq!(seen[0].record.as_ref().unwrap().0, record(2));
                return;
            }
        }
    });
}

#[test]
fn groups_respect_the_transaction_limits_of_etcd() {
    let etcd = Etcd::with(&[
        "--max-txn-ops=24".into(),
        "--max-request-bytes=300000".into(),
    ]);
    let server = start(&etcd);
    block_on(async {
        let client = connect_to(&server).await;
        let keys: Vec<_> = (0..200).map(|number| format!("k{number}")).collect();
        for bytes in [1, 100_000] {
            let text = vec![b'v'; bytes];
            let some: Vec<_> = keys.iter().map(|key| (key, &text)).collect();
            for outcome in client.set_many(&some).await {
                assert!(matches!(outcome.unwrap(), SetOutcome::Applied { .. }));
            }
            for entry in client.get_many(&keys).await.unwrap() {
                assert_eq!(entry.unwrap().value.len(), bytes);
            }
        }
        let error = client.set("k", vec![b'v'; 400_000]).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
        assert!(
            error.to_string().contains("its limit is below the default"),
            "{error}"
        );
    });
    server.stop().unwrap();
}
