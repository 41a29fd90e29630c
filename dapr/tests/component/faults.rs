//! Faults of Dapr's own components for Redis and etcd that this component does not have.
use crate::harness::{
    FIRST_WRITE, Fixture, LAST_WRITE, UNSPECIFIED, assert_mismatch, delete, delete_if, set,
    set_for, set_if,
};
use futures_util::future::join_all;
use statestore::{Hlc, SetOptions};
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use tonic::Code;

/// Redis: an `ETag` against a key that is not there succeeds.
#[tokio::test]
async fn an_etag_does_not_match_an_absent_key() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set("other", "value")).await.unwrap();
    let etag = sidecar.etag("other").await;
    let write = || set_if("key", "value", Some(&etag), UNSPECIFIED);
    assert_mismatch(sidecar.set(write()).await);
    let deletion = || delete_if("key", Some(&etag), UNSPECIFIED);
    assert_mismatch(sidecar.delete(deletion()).await);
    assert_eq!(sidecar.value("key").await, None);
}

/// Redis: the version begins at 1 again after a deletion, so that an old `ETag` matches another entry.
#[tokio::test]
async fn an_old_etag_is_never_reissued() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    let mut seen: Vec<String> = Vec::new();
    for round in 0..5 {
        sidecar.set(set("key", &round.to_string())).await.unwrap();
        for old in &seen {
            assert_mismatch(
                sidecar
                    .set(set_if("key", "new", Some(old), FIRST_WRITE))
                    .await,
            );
        }
        seen.push(sidecar.etag("key").await);
        sidecar.delete(delete("key")).await.unwrap();
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

/// Redis: once written with first-write, a key is not written without an `ETag` any more.
#[tokio::test]
async fn first_write_applies_to_the_request_and_not_to_the_key() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    sidecar
        .set(set_if("key", "first", None, FIRST_WRITE))
        .await
        .unwrap();
    sidecar
        .set(set_if("key", "last", None, LAST_WRITE))
        .await
        .unwrap();
    sidecar.set(set("key", "any")).await.unwrap();
    assert_eq!(sidecar.value("key").await.as_deref(), Some("any"));
}

/// Redis: whatever fails in a write with an `ETag` is called a mismatch.
#[tokio::test]
async fn other_failures_are_not_reported_as_a_mismatch() {
    let mut fixture = Fixture::start().await;
    let client = fixture.client().await;
    let token: Hlc = "1:0:holder".parse().unwrap();
    let fenced = SetOptions::new().fencing_token(token);
    client.set_with("key", "guarded", &fenced).await.unwrap();
    let sidecar = &mut fixture.sidecar;
    let etag = sidecar.etag("key").await;
    let status = sidecar
        .set(set_if("key", "new", Some(&etag), FIRST_WRITE))
        .await
        .unwrap_err();
    assert!(status.details().is_empty(), "{status:?}");
    assert!(status.message().contains("fencing token"), "{status:?}");
    let mut request = set_for("key", "new", "foo");
    request.etag = sidecar.get("key").await.etag;
    let status = sidecar.set(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.details().is_empty(), "{status:?}");
    assert_eq!(sidecar.value("key").await.as_deref(), Some("guarded"));
}

/// Redis: the expiry is a second command, before which an entry may stay for ever.
#[tokio::test]
async fn a_value_and_its_expiry_are_one_write() {
    let mut fixture = Fixture::start().await;
    let client = fixture.client().await;
    let mut changes = client.observe("key").await.unwrap();
    fixture
        .sidecar
        .set(set_for("key", "value", "100"))
        .await
        .unwrap();
    fixture.sidecar.set(set("end", "value")).await.unwrap();
    let expires = fixture.sidecar.get("key").await.metadata;
    assert!(expires.contains_key("ttlExpireTime"), "{expires:?}");
    let mut versions = Vec::new();
    while versions.last() != Some(&fixture.sidecar.etag("key").await) {
        if let statestore::Observation::Set { version, .. } = changes.next().await.unwrap() {
            versions.push(version.to_string());
        }
    }
    assert_eq!(versions.len(), 1, "one write, one version");
}

/// Redis: first-write counts nothing in a transaction, and nothing is undone. etcd: whether the transaction was carried out is not
/// looked at.
#[tokio::test]
async fn a_transaction_with_a_stale_etag_changes_nothing() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set("there", "old")).await.unwrap();
    let stale = sidecar.etag("there").await;
    sidecar.set(set("there", "newer")).await.unwrap();
    for guard in [
        Operation::Set(set_if("there", "new", Some(&stale), UNSPECIFIED)),
        Operation::Set(set_if("there", "new", None, FIRST_WRITE)),
        Operation::Delete(delete_if("there", Some(&stale), FIRST_WRITE)),
        Operation::Delete(delete_if("absent", Some(&stale), FIRST_WRITE)),
        Operation::Set(set_if("absent", "new", Some(&stale), FIRST_WRITE)),
    ] {
        // The guard stands first, in the middle and last.
        for place in 0..=3 {
            let mut operations = vec![
                Operation::Set(set("zero", "new")),
                Operation::Set(set("one", "new")),
                Operation::Delete(delete("other")),
            ];
            operations.insert(place, guard.clone());
            assert_mismatch(sidecar.transact(operations).await);
            assert_eq!(sidecar.value("zero").await, None);
            assert_eq!(sidecar.value("one").await, None);
            assert_eq!(sidecar.value("there").await.as_deref(), Some("newer"));
        }
    }
}

/// Fault of the component for etcd: the loser of a race is notified of success.
#[tokio::test]
async fn the_loser_of_a_transaction_race_gets_an_error() {
    let mut fixture = Fixture::start().await;
    fixture.sidecar.set(set("counter", "0")).await.unwrap();
    let add = |number: usize| {
        let mut sidecar = fixture.sidecar.clone();
        async move {
            let entry = sidecar.get("counter").await;
            let count: usize = std::str::from_utf8(&entry.data).unwrap().parse().unwrap();
            let etag = entry.etag.unwrap().value;
            let next = (count + 1).to_string();
            let added = sidecar.transact(vec![
                Operation::Set(set(&format!("mark-{number}"), "won")),
                Operation::Set(set_if("counter", &next, Some(&etag), FIRST_WRITE)),
            ]);
            match added.await {
                Ok(()) => 1,
                error => {
                    assert_mismatch(error);
                    assert_eq!(sidecar.value(&format!("mark-{number}")).await, None);
                    0
                }
            }
        }
    };
    let won: usize = join_all((0..200).map(add)).await.into_iter().sum();
    assert!(won > 0);
    assert_eq!(
        fixture.sidecar.value("counter").await,
        Some(won.to_string())
    );
}
